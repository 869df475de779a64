"""A hop's filter as blocks of entries, ready for a device.

Hop k is computed at its rows (the frontier's, or all) from the rows of hop
k - 1. Its matrix has an entry for each edge between these, and one for each
self-loop. Hops at all rows from all rows have the same matrix.
"""

from dataclasses import dataclass

import numpy as np

from ..._common.bytes import zeros
from ..._common.threads import num_threads, ranges, run_parallel
from ..graph.edge_kernels import or_empty
from ..graph.filters import Filter
from .hop_blocks import (
    BlockArrays,
    MatrixEntries,
    count_entries,
    fill_block,
)


@dataclass(frozen=True)
class Block:
    """Entries ``begin`` to ``end``, of rows ``first`` to ``last``."""

    begin: int
    end: int
    first: int
    last: int

    @property
    def num_entries(self) -> int:
        """How many entries it has."""
        return self.end - self.begin

    @property
    def num_rows(self) -> int:
        """How many rows it touches."""
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
    rows : int32 array or None
        The rows of the hop; None for all.
    most_entries, most_rows : int
        Limits of a block.
    """

    def __init__(
        self,
        filter: Filter,
        rows: np.ndarray | None,
        most_entries: int,
        most_rows: int,
    ):
        edges, spec = filter.edges, filter.spec
        self._filter, self._rows = filter, rows
        self.num_rows = edges.num_nodes if rows is None else len(rows)
        self._starts = zeros(self.num_rows + 1, np.int64)
        count_entries(
            or_empty(rows, np.int32), edges.indptr, edges.loops,
            spec.self_loop, self._starts,
        )  # fmt: skip
        self.num_entries = int(self._starts[-1])
        self.blocks = cut_blocks(self._starts, most_entries, most_rows)

    def fill(
        self,
        block: Block,
        place: np.ndarray | None,
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray | None,
    ) -> None:
        """Write a block, with numbers of its own, on all threads.

        ``place`` is where each source's row lies; None for "as they are".
        """
        f, whole = self._filter, self._filter.whole
        # Without weights there are no values, of whatever type.
        sums = np.float32 if values is None else values.dtype
        entries = MatrixEntries(
            starts=self._starts,
            rows=or_empty(self._rows, np.int32),
            place=or_empty(place, np.int32),
            indptr=f.edges.indptr,
            sources=whole.indices,
            edge_ids=or_empty(whole.edge_ids, np.int64),
            weight=or_empty(whole.weight, sums),
            self_loop=f.spec.self_loop,
            drop_loops=f.drop_loops,
        )
        out = BlockArrays(indptr, indices, or_empty(values, np.float32))
        parts = ranges(
            block.num_rows, min(max(1, block.num_rows), 4 * num_threads())
        )

        def work(_: int, part: int) -> None:
            low, high = (block.first + bound for bound in parts[part])
            fill_block(
                block.begin, block.end, block.first, low, high, entries, out
            )

        run_parallel(work, len(parts))
        indptr[block.num_rows] = block.num_entries


def start_bytes(num_rows: int) -> int:
    """Count the bytes that a :class:`HopMatrix` allocates."""
    return 8 * (num_rows + 1)
