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
from ...hops import HopFeatures
from ...ranks.call import Call
from ...storage.assemble_hops import Part
from ...storage.keys import is_unread
from ..column_blocks import progress_bar
from ..cpu.engine import CpuExecutor
from ..device.executor import DeviceExecutor
from ..device.protocol import Device
from ..planning.cpu import (
    fewest_edge_blocks,
    make_plan,
    plan_for,
    too_small,
)
from ..planning.plans import Plan, check_sizes
from ..request import Request
from ..sinks import StoreSink
from ..survey import Survey
from .layout import Layout, check_split, cut_columns
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
        raise NotImplementedError
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


class _CpuWork:
    """The computation of columns on the CPU of this rank."""

    def __init__(
        self,
        call: Call,
        request: Request,
        survey: Callable[[Request, int | None, bool], Survey],
        options: Options,
    ):
        self._call, self._request = call, request
        self._survey = survey(request, options.budget, True)
        work, given = self._survey.work, options.plan
        self._sharing = call.hosts.count(call.hosts[call.ranks.rank])
        available = psutil.virtual_memory().available // self._sharing
        if given is not None:
            check_sizes(given, work)
        own = make_plan(work, options.budget, None, available)
        self._budget, self._work = own.budget, work
        widths = work.widths()
        if given is not None and given.device == "cpu":
            widths = [given.column_width]
        self._widest = max(
            (width for width in widths if self._blocks(width) is not None),
            default=0,
        )
        if not self._widest:
            raise too_small(work, self._budget)

    def _blocks(self, width: int) -> int | None:
        return fewest_edge_blocks(self._work, width, self._budget)

    def cut(self, known: int | None, layout: Layout) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks, and prepare for it."""
        call, work = self._call, self._work
        found = call.gather([self._widest, known])
        widest = min(own for own, _ in found)
        units = cut_columns(
            work.num_feats, work.itemsize, widest, layout.columns,
            found[0][1],
        )  # fmt: skip
        width = units[0][1] - units[0][0]
        blocks = self._blocks(width)
        # The same on all ranks: how hubs are summed depends on it.
        most = max(call.gather(blocks or 0))
        plan = plan_for(work, most, width, self._budget)
        if blocks is None or plan.peak_bytes > self._budget:
            raise too_small(work, self._budget)
        require_memory(
            plan.peak_bytes * self._sharing,
            f"the precomputation, on {self._sharing} ranks of this host,",
            "end other programs, start fewer ranks on the host, or give less "
            "with memory= (--memory in the shell)",
        )
        self._executor = CpuExecutor(self._request, self._survey, plan)
        return units

    @property
    def total(self) -> int:
        """What all ranks together tell that they have done."""
        return self._executor.total

    def run(self, sink: StoreSink, done: Callable[[int], object]) -> None:
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

    def cut(self, known: int | None, layout: Layout) -> list[tuple[int, int]]:
        """Cut the columns, the same on all ranks."""
        width = self._executor.plan.column_width
        found = self._call.gather([width, known])
        return cut_columns(
            self._work.num_feats, self._work.itemsize,
            min(own for own, _ in found), layout.columns, found[0][1],
        )  # fmt: skip

    @property
    def total(self) -> int:
        """What all ranks together tell that they have done."""
        return self._executor.total

    def run(self, sink: StoreSink, done: Callable[[int], object]) -> None:
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
) -> _CpuWork | _DeviceWork:
    if device is not None and request.last > 0:
        return _DeviceWork(call, request, device, options)
    return _CpuWork(call, request, survey, options)


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
