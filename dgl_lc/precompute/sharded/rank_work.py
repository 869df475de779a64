"""What one rank computes: columns at all rows, or at those of an edge shard."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch
import torch.distributed as dist
from dgl import DGLError
from torch.distributed.device_mesh import init_device_mesh

from ..._common.bytes import require_memory
from ...ranks.call import RankCall
from ...ranks.group import find_ranks
from ..column_blocks import Done
from ..cpu.engine import CpuExecutor
from ..device.executor import DeviceExecutor
from ..device.protocol import Device
from ..planning.cpu import (
    MemoryTooSmall,
    fewest_edge_blocks,
    make_plan,
    plan_for,
    too_small,
)
from ..planning.plans import Plan, check_sizes
from ..request import Request
from ..sinks import Sink
from ..survey import Survey
from .edge_engine import EdgeShardEngine
from .edge_shards import EdgeShard, cut_destinations, survey_shards
from .layout import RankLayout, cut_columns
from .row_exchange import RowExchange
from .row_shards import NoRows
from .shard_bytes import ShardSizes, rank_bytes, sorted_blocks


@dataclass(frozen=True)
class RankOptions:
    """How the ranks compute, beside what they compute.

    Attributes
    ----------
    split, shared
        As in :func:`dgl_lc.precompute.block_aggregate`.
    budget, host_budget : int or None
        Bytes of memory of this rank.
    """

    split: Any
    shared: bool
    budget: int | None
    host_budget: int | None
    plan: Plan | None
    out: Path | None
    resume: bool
    progress: bool | None


class RankWork(Protocol):
    """The computation of columns on one rank.

    Attributes
    ----------
    total : int
        What all ranks together tell that they have done.
    held : sequence of int64 tensor or None
        For each edge shard, the places among the rows asked for that it
        computes, ascending; None for all.
    """

    @property
    def total(self) -> int: ...

    @property
    def held(self) -> Sequence[torch.Tensor | None]: ...

    def cut(
        self, known: int | None, layout: RankLayout, begin: int = 0
    ) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks, and prepare for it."""

    def run(self, sink: Sink, done: Done) -> None:
        """Give all columns of a sink to it."""

    def close(self) -> None:
        """Give the memory back."""


#: Bytes that are taken beside an executor, by the width of a column block.
Extra = Callable[[int], int]


class CpuWork:
    """The computation of columns on the CPU of this rank."""

    held: tuple = (None,)

    def __init__(
        self,
        call: RankCall,
        request: Request,
        survey: Callable[[Request, int | None, bool], Survey],
        options: RankOptions,
        extra: Extra,
    ):
        self._call, self._request, self._extra = call, request, extra
        self._survey = survey(request, options.budget, True)
        self._work = work = self._survey.work
        given, widths = options.plan, work.widths()
        if given is not None:
            check_sizes(given, work)
            if given.device == "cpu":
                widths = [given.column_width]
        self._sharing = call.hosts.count(call.hosts[call.ranks.rank])
        available = psutil.virtual_memory().available // self._sharing
        if options.budget is None:
            own = make_plan(work, None, None, available)
            self._budget = own.budget + extra(own.column_width)
        else:
            self._budget = options.budget
        self._widest = max(filter(self._blocks, widths), default=0)
        if not self._widest:
            raise self._too_small()

    def _blocks(self, width: int) -> int | None:
        """Find the fewest edge blocks that fit with this width."""
        budget = self._budget - self._extra(width)
        return fewest_edge_blocks(self._work, width, budget)

    def _too_small(self) -> MemoryTooSmall:
        extra = min(map(self._extra, self._work.widths()))
        return too_small(self._work, self._budget, extra)

    def cut(
        self, known: int | None, layout: RankLayout, begin: int = 0
    ) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks, and prepare for it."""
        call, work = self._call, self._work
        found = call.gather([self._widest, known])
        units = cut_columns(
            work.num_feats, work.itemsize, min(own for own, _ in found),
            layout.columns, found[0][1], begin,
        )  # fmt: skip
        width = units[0][1] - units[0][0]
        blocks = self._blocks(width)
        # The same on all ranks: how hubs are summed depends on it.
        most = max(call.gather(blocks or 0))
        budget = self._budget - self._extra(width)
        plan = plan_for(work, most, width, budget)
        if blocks is None or plan.peak_bytes > budget:
            raise self._too_small()
        require_memory(
            self._sharing * (plan.peak_bytes + self._extra(width)),
            f"the precomputation on {self._sharing} ranks of this host",
            "end other programs, start fewer ranks on the host, or give less "
            "with memory= (--memory in the shell)",
        )
        self._executor = CpuExecutor(self._request, self._survey, plan)
        return units

    @property
    def total(self) -> int:
        """What all ranks together tell that they have done."""
        return self._executor.total

    def run(self, sink: Sink, done: Callable[[int], object]) -> None:
        """Give all columns of a sink to it."""
        self._executor.run(sink, done)

    def close(self) -> None:
        """Give the memory back."""
        # Without columns to compute, cut() has made no executor.
        vars(self).pop("_executor", None)
        del self._survey


class DeviceWork:
    """The computation of columns on a device of this rank."""

    held: tuple = (None,)

    def __init__(self, call: RankCall, request: Request, device: Device,
                 options: RankOptions):  # fmt: skip
        self._call = call
        self._executor = DeviceExecutor(
            request, device, options.budget, options.host_budget, True
        )
        self._work = self._executor.plan.work

    def cut(
        self, known: int | None, layout: RankLayout, begin: int = 0
    ) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks."""
        width = self._executor.plan.column_width
        found = self._call.gather([width, known])
        return cut_columns(
            self._work.num_feats, self._work.itemsize,
            min(own for own, _ in found), layout.columns, found[0][1], begin,
        )  # fmt: skip

    @property
    def total(self) -> int:
        """What all ranks together tell that they have done."""
        return self._executor.total

    def run(self, sink: Sink, done: Callable[[int], object]) -> None:
        """Give all columns of a sink to it."""
        self._executor.run(sink, done)

    def close(self) -> None:
        """Give the memory back."""
        del self._executor


def make_work(
    call: RankCall,
    request: Request,
    device: Device | None,
    survey: Callable[[Request, int | None, bool], Survey],
    options: RankOptions,
    layout: RankLayout,
    extra: Extra = lambda width: 0,
) -> RankWork:
    """Choose how this rank computes."""
    if layout.edges > 1:
        return EdgeWork(call, request, options, layout, extra)
    if device is not None and request.last > 0:
        return DeviceWork(call, request, device, options)
    return CpuWork(call, request, survey, options, extra)


class EdgeWork:
    """The computation of columns at the rows of an edge shard."""

    def __init__(
        self,
        call: RankCall,
        request: Request,
        options: RankOptions,
        layout: RankLayout,
        extra: Extra,
    ):
        self._call, self._request, self._extra = call, request, extra
        self._stack = contextlib.ExitStack()
        self._survey = survey_shards(request, options.budget)
        self._work = self._survey.work
        edges = self._survey.edges
        assert edges is not None
        bounds = cut_destinations(edges.indptr, layout.edges)
        number = layout.shard(call.ranks.rank)
        low, high = (
            int(edges.indptr[at]) for at in bounds[number : number + 2]
        )
        self._blocks = sorted_blocks(self._work, high - low, options.budget)
        self._group = self._stack.enter_context(_group_call(call, layout))
        self._shard = EdgeShard(
            request, self._survey, bounds, number, self._blocks
        )
        self._exchange = RowExchange(self._shard, self._group)
        self._sizes = ShardSizes.of(self._shard, self._exchange)
        self.held = [
            kept_places(request, int(bounds[shard]), int(bounds[shard + 1]))
            for shard in range(layout.edges)
        ]
        self._sharing = call.hosts.count(call.hosts[call.ranks.rank])
        available = psutil.virtual_memory().available // self._sharing
        self._budget = available if options.budget is None else options.budget
        widths = self._work.widths()
        if options.plan is not None:
            check_sizes(options.plan, self._work)
            widths = [options.plan.column_width]
        self._widest = max(
            (width for width in widths if self._bytes(width) <= self._budget),
            default=0,
        )
        if not self._widest:
            enough = -(-min(map(self._bytes, widths)) // 2**20)
            raise MemoryTooSmall(
                f"memory is too small on rank {call.ranks.rank}, which has "
                f"{high - low:,} edges: {enough} MiB would be enough "
                f"(memory='{enough}MiB'). More ranks take less each.",
                enough << 20,
            )

    def _bytes(self, width: int) -> int:
        """Count what a column block of this width takes."""
        items = rank_bytes(self._work, self._sizes, width, self._blocks)
        return sum(items.values()) + self._extra(width)

    @property
    def total(self) -> int:
        """What all ranks together tell that they have done."""
        return self._survey.gathered_bytes()

    @property
    def payload_bytes(self) -> int:
        """Bytes that were handed to collectives for other ranks."""
        return self._exchange.payload_bytes

    def cut(
        self, known: int | None, layout: RankLayout, begin: int = 0
    ) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks, and prepare for it."""
        work = self._work
        found = self._call.gather([self._widest, known])
        units = cut_columns(
            work.num_feats, work.itemsize, min(own for own, _ in found),
            layout.columns, found[0][1], begin,
        )  # fmt: skip
        width = units[0][1] - units[0][0]
        require_memory(
            self._sharing * self._bytes(width),
            f"the precomputation on {self._sharing} ranks of this host",
            "end other programs, start fewer ranks on the host, or give less "
            "with memory= (--memory in the shell)",
        )
        self._engine = EdgeShardEngine(
            self._shard, self._exchange, self._group, width
        )
        return units

    def run(self, sink: Sink, done: Done) -> None:
        """Give all columns of a sink to it."""
        if sink.done == sink.last:
            # A run was killed before it finished this part. Other ranks of
            # the group need what this one computes.
            sink = NoRows(sink.first, sink.last)
        with sink.columns(sink.first, sink.last):
            self._engine.column_block(sink.first, sink.last, sink, done)

    def close(self) -> None:
        """Give the memory back."""
        self._stack.close()
        # Without columns to compute, cut() has made no engine.
        vars(self).pop("_engine", None)
        del self._exchange, self._shard, self._survey


def kept_places(request: Request, low: int, high: int) -> torch.Tensor:
    """Find the places of the nodes low to high among the rows asked for."""
    if request.nodes is None:
        return torch.arange(low, high)
    mine = (request.nodes >= low) & (request.nodes < high)
    return mine.nonzero().squeeze(1)


#: The groups of ranks that share the edges, by process group and layout.
_groups: dict[tuple[int, int, int], dist.ProcessGroup] = {}


@contextlib.contextmanager
def _group_call(call: RankCall, layout: RankLayout) -> Iterator[RankCall]:
    """Give a call of the ranks that share the edges with this one."""
    if layout.columns == 1:
        yield call
        return
    ranks = call.ranks
    if ranks.group is not dist.group.WORLD:
        raise DGLError(
            f"split=({layout.columns}, {layout.edges}) needs the default "
            f"process group: omit process_group, or give split='columns' or "
            f"'edges'."
        )
    key = (id(ranks.group), layout.columns, layout.edges)
    if key not in _groups:
        shape = (layout.columns, layout.edges)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("c", "e"))
        _groups[key] = mesh.get_group("e")
    members = find_ranks(_groups[key])
    assert members is not None
    with RankCall(members, call.name) as found:
        yield found
