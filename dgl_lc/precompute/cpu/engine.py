"""Carrying out a plan on the CPU."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..._common.rows import bits, streams, whole_lines
from ..._common.threads import run_parallel
from ..column_blocks import Done, run_column_blocks
from ..graph.edge_kernels import or_empty
from ..graph.filters import Filter
from ..graph.in_edges import EdgeBlock
from ..places import Places
from ..planning.plans import Plan
from ..request import Request
from ..sinks import Sink
from ..survey import Survey
from . import chunks as chunk_kernels
from .chunks import FIRST, SLOT, Chunks, Entries, make_scratch
from .column_buffers import ColumnBuffers
from .gather import sum_rows, tiles
from .scaling import scale_rows


class CpuExecutor:
    """Computes the hop features on the CPU, one column block at a time."""

    def __init__(self, request: Request, survey: Survey, plan: Plan):
        self._request, self._survey, self._plan = request, survey, plan
        #: What :meth:`run` tells it has done when all is.
        self.total = survey.gathered_bytes()

    @cached_property
    def _engine(self) -> "Engine":
        return Engine(self._request, self._survey, self._plan)

    def run(self, sink: Sink, done: Done) -> None:
        """Give all columns that it does not have yet to the sink."""
        request, plan = self._request, self._plan
        done(self.total * (sink.done - sink.first) // plan.work.num_feats)

        def compute(first: int, last: int) -> None:
            if plan.work.K == 0:
                sink.keep_features()
            else:
                self._engine.column_block(first, last, sink, done)

        run_column_blocks(request, plan, sink, compute)


class Engine:
    """Applies the filter to a column block; owns the work space."""

    def __init__(self, request: Request, survey: Survey, plan: Plan):
        work = plan.work
        assert survey.edges is not None
        self.rows = survey.rows
        self._request = request
        self._num_nodes = work.num_nodes
        self._sums = request.value_type.sums
        self._scales_features = work.stored and not request.shares_features
        self.filter = Filter(
            survey.edges, request.spec, self._sums, request.kernel_weight(),
            plan.num_edge_blocks,
        )  # fmt: skip
        self.places = Places(survey.rows, work.num_nodes, request.nodes)
        self._tables: dict[int | None, Chunks] = {}
        self.scratch = [
            make_scratch(work.num_edges + work.num_nodes, self._sums)
            for _ in range(work.threads)
        ]
        self.buffers = ColumnBuffers(
            work.buffered_rows(), plan.column_width, request.dtype
        )

    def column_block(
        self, first: int, last: int, sink: Sink, done: Done
    ) -> None:
        """Compute all hops of columns first to last, and keep some."""
        request, width = self._request, last - first
        values = self._read(first, last, sink)
        if 0 in request.kept:
            places = request.nodes
            if not request.shares_features:
                places = self.places.of_nodes(0)
            sink.keep(0, values, places)
        scaled = False
        for hop in range(1, request.last + 1):
            if hop > 1 or self._scales_features:
                scaled = self._scale(hop - 1, values, sink)
            target = sink.target(hop)
            if target is None:
                target = self._buffer(hop, width)
            self._apply(hop, values, target, scaled, done)
            if hop in request.kept:
                sink.keep(hop, target, self.places.of_nodes(hop))
            values = target

    def _buffer(self, hop: int, width: int) -> torch.Tensor:
        """Give where a hop goes that is not written to the result."""
        rows = self.rows[hop]
        count = self._num_nodes if rows is None else len(rows)
        return self.buffers.rows(hop, count, width)

    def _read(self, first: int, last: int, sink: Sink) -> torch.Tensor:
        """Give the rows of the features that are needed."""
        request, rows = self._request, self.rows[0]
        if request.shares_features:
            return request.columns(first, last)
        values = sink.target(0)
        if values is None:
            values = self._buffer(0, last - first)
        ids = None if rows is None else torch.from_numpy(rows)
        request.copy_columns(first, last, ids, values)
        return values

    def _scale(self, hop: int, values: torch.Tensor, sink: Sink) -> bool:
        """Multiply a hop's rows by the right diagonal; False if not done.

        Done once for each row it need not be looked up for each edge, all
        over memory. Halves are left alone: they would be rounded twice. So
        is the result.
        """
        right = self.filter.right
        if right is None or values.element_size() < 4:
            return False
        if sink.target(hop) is not None:
            return False
        scale_rows(values, right, self.rows[hop])
        return True

    def _apply(
        self,
        hop: int,
        values: torch.Tensor,
        target: torch.Tensor,
        scaled: bool,
        done: Done,
    ) -> None:
        """Write ``S values`` to the target, at the rows of this hop.

        ``scaled``: the values were multiplied by the right diagonal.
        """
        place = self.places.of_rows(hop - 1)
        chunks, width = self.chunks(hop), values.shape[1]
        slots: np.ndarray = np.empty((chunks.num_slots, width), self._sums)
        whole, parts = self._kernels(values, target)
        x, out = bits(values), bits(target)
        row_bytes = width * values.element_size()

        for number, block in enumerate(self.filter.blocks()):
            begin, end = (int(at) for at in chunks.starts[number : number + 2])
            entries = self._entries(hop, block, place, scaled)

            def work(
                worker: int,
                item: int,
                begin: int = begin,
                entries: Entries = entries,
            ) -> None:
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

            run_parallel(work, end - begin)
        self._add_slots(hop, chunks.table, slots, target)

    def _kernels(
        self, values: torch.Tensor, target: torch.Tensor
    ) -> tuple[list[tuple[Callable[..., Any], int]], ...]:
        """List kernels and their columns, for whole rows and for parts."""
        kind = self._request.kind
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
        key = None if rows is None else hop
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
