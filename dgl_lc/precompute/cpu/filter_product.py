r"""Writing :math:`S X` for the rows of a hop, with the kernels of the CPU."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch

from ..._common.dtypes import type_of
from ..._common.rows import bits, streams, whole_lines
from ..._common.threads import run_parallel
from ..column_blocks import Done
from ..graph.edge_kernels import or_empty
from ..graph.filters import Filter
from ..graph.in_edges import EdgeBlock
from . import chunks as chunk_kernels
from .chunks import FIRST, SLOT, Chunks, Entries, make_scratch
from .edges_ahead import EdgesAhead
from .gather import sum_rows, tiles


class FilterProduct:
    """Applies a filter at the rows of each hop; owns the scratch for it.

    Parameters
    ----------
    filter : Filter
        The filter, with all edges or with those of some destinations.
    rows : sequence of int32 array or None
        The rows of each hop that are computed; None for all. Hops that are
        given the same array share the chunks.
    kind : str
        The type in which hop features are stored.
    threads : int
        Threads that compute.
    num_entries : int
        The most edges and self-loops of a hop.
    """

    def __init__(
        self,
        filter: Filter,
        rows: Sequence[np.ndarray | None],
        kind: str,
        threads: int,
        num_entries: int,
    ):
        self.filter, self.rows = filter, rows
        self._kind = kind
        self._sums = type_of(kind).sums
        # By the identity of the lists of rows, which are kept here.
        self._tables: dict[int, Chunks] = {}
        self.scratch = [
            make_scratch(num_entries, self._sums) for _ in range(threads)
        ]

    def write(
        self,
        hop: int,
        values: torch.Tensor,
        place: np.ndarray | None,
        target: torch.Tensor,
        scaled: bool,
        done: Done,
    ) -> None:
        """Write ``S values`` to the target, at the rows of this hop.

        ``place`` says where the row of each node lies in the values; None for
        "as is". ``scaled``: the values were multiplied by the right diagonal.
        """
        chunks, width = self.chunks(hop), values.shape[1]
        slots: np.ndarray = np.empty((chunks.num_slots, width), self._sums)
        whole, parts = self._kernels(values, target)
        x, out = bits(values), bits(target)
        row_bytes = width * values.element_size()

        for number, block in enumerate(self.filter.blocks()):
            begin, end = (int(at) for at in chunks.starts[number : number + 2])
            entries = self._entries(hop, block, place, scaled)
            coming = EdgesAhead(
                block, chunks.table[begin:end], self.rows[hop],
                self.filter.edges.indptr,
            )  # fmt: skip

            def work(
                worker: int,
                item: int,
                begin: int = begin,
                entries: Entries = entries,
                coming: EdgesAhead = coming,
            ) -> None:
                coming.begin(item)
                chunk, scratch = (
                    chunks.table[begin + item],
                    self.scratch[worker],
                )
                count = chunk_kernels.assemble(chunk, entries, scratch)
                if chunk[SLOT] < 0:
                    kernels, array, first = whole, out, chunk[FIRST]
                else:
                    kernels, array, first = parts, slots, chunk[SLOT]
                for kernel, column in kernels:
                    kernel(
                        scratch.offsets[: count + 1], scratch.entries,
                        scratch.coefs, scratch.scales,
                        x, column, array, first,
                    )  # fmt: skip
                done(int(scratch.offsets[count]) * row_bytes)

            with closing(coming):
                run_parallel(work, end - begin)
        self._add_slots(hop, chunks.table, slots, target)

    def _kernels(
        self, values: torch.Tensor, target: torch.Tensor
    ) -> tuple[list[tuple[Callable[..., Any], int]], ...]:
        """List kernels and their columns, for whole rows and for parts."""
        kind = self._kind
        whole, parts = [], []
        for at, w in tiles(values.shape[1], kind):
            lines, stream = whole_lines(values, at, w), streams(target, at, w)
            whole.append((sum_rows(w, kind, kind, lines, stream), at))
            sums = str(self._sums)
            parts.append((sum_rows(w, kind, sums, lines, False), at))
        return whole, parts

    def _entries(
        self,
        hop: int,
        block: EdgeBlock,
        place: np.ndarray | None,
        scaled: bool,
    ) -> Entries:
        """Convert what the kernel takes: there empty arrays stand for None."""
        f, sums = self.filter, self._sums
        return Entries(
            rows=or_empty(self.rows[hop], np.int32),
            place=or_empty(place, np.int32),
            indptr=f.edges.indptr,
            indices=block.indices,
            base=block.begin,
            edge_ids=or_empty(block.edge_ids, np.int64),
            weight=or_empty(block.weight, sums),
            left=or_empty(f.left, sums),
            right=or_empty(None if scaled else f.right, sums),
            self_loop=f.spec.self_loop,
            drop_loops=f.drop_loops,
        )

    def chunks(self, hop: int) -> Chunks:
        """Give the hop's chunks; the same for all hops at all rows."""
        rows = self.rows[hop]
        key = id(rows)
        if key not in self._tables:
            self._tables[key] = chunk_kernels.cut_chunks(
                rows, self.filter.edges.indptr, self.filter.bounds
            )
        return self._tables[key]

    def _add_slots(
        self,
        hop: int,
        table: np.ndarray,
        slots: np.ndarray,
        target: torch.Tensor,
    ) -> None:
        """Add up the parts of split rows, in the order of their edges."""
        rows, left = self.rows[hop], self.filter.left
        split = table[table[:, SLOT] >= 0]
        for position in np.unique(split[:, FIRST]):
            # The slots of a row follow each other.
            mine = split[split[:, FIRST] == position, SLOT]
            total = slots[mine[0] : mine[-1] + 1].sum(axis=0)
            if left is not None:
                total *= left[position if rows is None else rows[position]]
            target[int(position)] = torch.from_numpy(total)
