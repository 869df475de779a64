"""A call of ``block_aggregate`` that many ranks make together."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from ..._common.bytes import require_memory
from ..._common.rows import empty
from ...hops import HopFeatures
from ...ranks.call import Call
from ...storage.assemble_hops import Part
from ...storage.keys import is_unread
from ..column_blocks import progress_bar
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
from ..sinks import Sink, StoreSink
from ..survey import Survey
from .layout import Layout, check_split, cut_columns
from .row_shards import (
    MemoryRows,
    RowShardSink,
    StoredRows,
    check_rows,
    exchange_bytes,
    shard_folder,
    shard_places,
)
from .shared_store import SharedStore


@dataclass(frozen=True)
class Options:
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


def agree_on_call(call: Call, request: Request, options: Options) -> None:
    """Refuse different calls on ranks, before any work."""
    head = request.store_head()
    features = head.made_from["features"]
    call.agree(
        {
            "the version of dgl-lc": version("dgl-lc"),
            "the version of torch": torch.__version__.split("+")[0],
            "hops": list(head.hops),
            "norm": head.spec.norm,
            "self_loop": head.spec.self_loop,
            "whether edges have weights": head.spec.weighted,
            "dtype": head.kind,
            "the shape of feat": [request.graph.num_nodes(), head.columns],
            "nodes (a digest)": head.made_from["nodes"],
            "g (a digest of its edges)": head.made_from["graph"],
            # A memory map is known by its file, which may be another one on
            # each host.
            "feat (a digest)": None if is_unread(features) else features,
            "split": options.split,
            "shared": options.shared,
            "whether out is given": options.out is not None,
            "resume": options.resume,
        }
    )


def aggregate_on_ranks(
    call: Call,
    request: Request,
    device: Device | None,
    survey: Callable[[Request, int | None, bool], Survey],
    options: Options,
) -> HopFeatures:
    """Compute hop features together with the other ranks of a call."""
    layout = check_split(options.split, call.ranks.size)
    agree_on_call(call, request, options)
    if layout is None:
        layout = Layout(call.ranks.size, 1)
    if options.out is None or not options.shared:
        return _to_row_shards(call, request, device, survey, options, layout)
    return _to_shared_store(call, request, device, survey, options, layout)


def _to_shared_store(
    call: Call,
    request: Request,
    device: Device | None,
    survey: Callable[[Request, int | None, bool], Survey],
    options: Options,
    layout: Layout,
) -> HopFeatures:
    assert options.out is not None
    # All parts say that they are of the request that rank 0 has made: the
    # key of a memory map may be another one on each host.
    head = request.store_head()
    made_from = call.gather(head.made_from)[0]
    head = replace(head, made_from=made_from)
    finished = None
    if call.ranks.rank == 0:
        sink = StoreSink(request, options.out, options.resume)
        finished = sink.finished()
    work = None
    if not call.gather(finished is not None)[0]:
        work = _make_work(call, request, device, survey, options)
    with SharedStore(
        call, options.out, head, request.nodes, layout, options.resume
    ) as store:
        if work is not None and not store.finished:
            units = work.cut(store.known_width(), layout)
            _write_parts(call, request, store, layout, work, units, options)
    return store.open() if finished is None else finished


def _to_row_shards(
    call: Call,
    request: Request,
    device: Device | None,
    survey: Callable[[Request, int | None, bool], Survey],
    options: Options,
    layout: Layout,
) -> HopFeatures:
    rank, size = call.ranks.rank, call.ranks.size
    check_rows(request.kept_rows, size)
    places = shard_places(request.kept_rows, rank, size)
    itemsize = request.value_type.itemsize
    result = 0
    if options.out is None:
        result = len(places) * request.num_feats * itemsize * len(request.kept)

    def extra(width: int) -> int:
        kept = request.kept_rows
        return result + exchange_bytes(kept, width, itemsize, size)

    work = _make_work(call, request, device, survey, options, extra)
    target: MemoryRows | StoredRows
    if options.out is None:
        target = MemoryRows(request, places)
    else:
        folder = shard_folder(options.out, rank, size)
        target = StoredRows(
            request, places, folder, (rank, size), options.resume
        )
    with target:
        begin = min(call.gather(target.done))
        if begin < request.num_feats:
            units = work.cut(None, layout, begin)
            _exchange_rows(call, request, target, layout, work, units, options)
        found = target.finish()
    found.shard = (rank, size)
    return found


def _exchange_rows(
    call: Call,
    request: Request,
    target: MemoryRows | StoredRows,
    layout: Layout,
    work: "_CpuWork | _DeviceWork",
    units: list[tuple[int, int]],
    options: Options,
) -> None:
    """Compute a unit of columns on each group of ranks, turn by turn."""
    rank, size = call.ranks.rank, call.ranks.size
    sink = RowShardSink(call, request, layout, target)
    with _bar_of_all(call, work.total, options.progress) as done:
        for turn in range(0, len(units), layout.columns):
            now = units[turn : turn + layout.columns]
            mine = [
                now[group] if (group := layout.group(own)) < len(now) else None
                for own in range(size)
            ]
            with target.block(now[-1][1]):
                if 0 in request.kept:
                    _keep_features(request, target, now[0][0], now[-1][1])
                sink.begin(mine)
                if mine[rank] is not None:
                    work.run(sink, done)
                sink.end()


def _keep_features(
    request: Request, target: MemoryRows | StoredRows, first: int, last: int
) -> None:
    """Read the features of this rank's rows."""
    rows = empty(len(target.nodes), last - first, request.dtype)
    request.copy_columns(first, last, target.nodes, rows)
    target.keep(0, first, rows)


#: Bytes that are taken beside an executor, by the width of a column block.
Extra = Callable[[int], int]


class _CpuWork:
    """The computation of columns on the CPU of this rank."""

    def __init__(
        self,
        call: Call,
        request: Request,
        survey: Callable[[Request, int | None, bool], Survey],
        options: Options,
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
        self, known: int | None, layout: Layout, begin: int = 0
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
        del self._executor, self._survey


class _DeviceWork:
    """The computation of columns on a device of this rank."""

    def __init__(self, call: Call, request: Request, device: Device,
                 options: Options):  # fmt: skip
        self._call = call
        self._executor = DeviceExecutor(
            request, device, options.budget, options.host_budget, True
        )
        self._work = self._executor.plan.work

    def cut(
        self, known: int | None, layout: Layout, begin: int = 0
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


def _make_work(
    call: Call,
    request: Request,
    device: Device | None,
    survey: Callable[[Request, int | None, bool], Survey],
    options: Options,
    extra: Extra = lambda width: 0,
) -> _CpuWork | _DeviceWork:
    if device is not None and request.last > 0:
        return _DeviceWork(call, request, device, options)
    return _CpuWork(call, request, survey, options, extra)


def _write_parts(
    call: Call,
    request: Request,
    store: SharedStore,
    layout: Layout,
    work: _CpuWork | _DeviceWork,
    units: list[tuple[int, int]],
    options: Options,
) -> None:
    """Compute the columns that this rank claims, and put all together."""
    missing = store.missing(units)
    rows = request.kept_rows
    with _bar_of_all(call, work.total, options.progress) as done:
        columns = sum(units[number][1] - units[number][0] for number in missing)
        if call.ranks.rank == 0:
            ready = request.num_feats - columns
            done(work.total * ready // request.num_feats)
        for number in store.claims(missing):
            first, last = units[number]
            call.stage(f"computing columns {first} to {last}")
            head = store.part_head(first, last, 0, rows)
            folder = store.part_folder(first, last, 0)
            sink = StoreSink(request, folder, True, head, first)
            with sink:
                work.run(sink, done)
                sink.finish()
    work.close()
    parts = [
        Part(store.part_folder(first, last, 0), first, last)
        for first, last in units
    ]
    counts = request.counts() if call.ranks.rank == 0 else None
    store.finish(parts, counts, lambda amount: call.progress(0))


@contextmanager
def _bar_of_all(
    call: Call, total: int, progress: bool | None
) -> Iterator[Callable[[int], object]]:
    """Show what all ranks have done, on rank 0."""
    if call.ranks.rank > 0:
        yield call.progress
        return
    with progress_bar(total, progress) as bar:
        looked = time.monotonic()

        def done(amount: int) -> None:
            nonlocal looked
            call.progress(amount)
            if time.monotonic() - looked < 1:
                return
            looked = time.monotonic()
            signs = map(call.sign_of, range(1, call.ranks.size))
            others = sum(sign["progress"] for sign in signs)
            bar.update(min(total, call.done + others) - bar.n)

        yield done
