"""A hop's filter as blocks of entries, ready for a device.

Hop k is computed at its rows (the frontier's, or all) from the rows of hop
k - 1. Its matrix has an entry for each edge between these, and one for each
self-loop. Hops at all rows from all rows have the same matrix.
"""

from dataclasses import dataclass

import numpy as np

from ..._common.threads import num_threads, ranges, run_parallel
from ..graph.edge_kernels import number_rows
from ..graph.filters import Filter
from .hop_blocks import count_entries, fill_block

_NO_PLACES = np.empty(0, np.int32)


@dataclass(frozen=True)
class Block:
    """Entries ``begin`` to ``end``, of rows ``first`` to ``last``."""

    begin: int
    end: int
    first: int
    last: int

    @property
    def num_entries(self) -> int:
        return self.end - self.begin

    @property
    def num_rows(self) -> int:
        return self.last - self.first


def cut_blocks(
    starts: np.ndarray, most_entries: int, most_rows: int
) -> list[Block]:
    """Cut entries into blocks that differ by at most one entry.

    Where a block would span too many rows (most of them without entries) it
    is cut further. Rows without entries at either end of a block are left
    out: they are zero already.
    """
    total = int(starts[-1])
    blocks = []
    for begin, end in ranges(total, max(1, -(-total // most_entries))):
        while begin < end:
            first = int(np.searchsorted(starts, begin, "right")) - 1
            last = int(np.searchsorted(starts, end, "left"))
            stop = end
            if last - first > most_rows:
                last = first + most_rows
                stop = int(starts[last])
            blocks.append(Block(begin, stop, first, last))
            begin = stop
    return blocks


class HopMatrix:
    """The matrix of one hop, or of several that have the same.

    Parameters
    ----------
    filter : Filter
        In one block.
    rows, sources : int32 arrays
        The rows of the hop and of the one before; empty for all.
    most_entries, most_rows : int
        Limits of a block.
    """

    def __init__(
        self,
        filter: Filter,
        rows: np.ndarray,
        sources: np.ndarray,
        most_entries: int,
        most_rows: int,
    ):
        edges, spec = filter.edges, filter.spec
        self._filter, self._rows, self._sources = filter, rows, sources
        self.num_rows = len(rows) or edges.num_nodes
        self._starts = np.empty(self.num_rows + 1, np.int64)
        count_entries(
            rows, edges.indptr, edges.loops, spec.self_loop, self._starts
        )
        self.num_entries = int(self._starts[-1])
        self.blocks = cut_blocks(self._starts, most_entries, most_rows)

    def number_sources(self, place: np.ndarray) -> np.ndarray:
        """Where each source's row lies; an empty array for "as they are"."""
        if len(self._sources) == 0:
            return _NO_PLACES
        number_rows(self._sources, place)
        return place

    def fill(
        self,
        block: Block,
        place: np.ndarray,
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
    ) -> None:
        """Write a block, with numbers of its own, on all threads."""
        f = self._filter
        whole = next(f.blocks())
        parts = ranges(
            block.num_rows, min(max(1, block.num_rows), 4 * num_threads())
        )

        def work(_, part):
            low, high = (block.first + bound for bound in parts[part])
            fill_block(
                block.begin, block.end, block.first, low, high, self._starts,
                self._rows, f.edges.indptr, whole.indices, whole.edge_ids,
                whole.weight, f.spec.self_loop, f.drop_loops, place,
                indptr, indices, values,
            )  # fmt: skip

        run_parallel(work, len(parts))
        indptr[block.num_rows] = block.num_entries
