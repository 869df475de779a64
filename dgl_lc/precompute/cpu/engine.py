"""Carrying out a plan on the CPU."""

from functools import cached_property

import torch

from ..column_blocks import Done, run_column_blocks
from ..graph.filters import Filter
from ..places import Places
from ..planning.plans import Plan, sort_room
from ..request import Request
from ..sinks import Sink
from ..survey import Survey
from .column_buffers import ColumnBuffers
from .filter_product import FilterProduct
from .scaling import scale_rows


class CpuExecutor:
    """Computes the hop features on the CPU, one column block at a time."""

    def __init__(self, request: Request, survey: Survey, plan: Plan):
        self._request, self._survey, self._plan = request, survey, plan
        if survey.edges is not None and plan.num_edge_blocks == 1:
            # Before there is memory for the result, which is then the same.
            survey.edges.load(sort_room(plan))
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
        self._scales_features = work.stored and not request.shares_features
        self.filter = Filter(
            survey.edges, request.spec, request.value_type.sums,
            request.kernel_weight(), plan.num_edge_blocks,
        )  # fmt: skip
        self.places = Places(survey.rows, work.num_nodes, request.nodes)
        self.product = FilterProduct(
            self.filter, survey.rows, request.kind, work.threads,
            work.num_edges + work.num_nodes,
        )  # fmt: skip
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
            self.product.write(
                hop, values, self.places.of_rows(hop - 1), target, scaled, done
            )
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
