"""An estimate of the time that a precomputation takes on this machine.

A sample of the real graph goes through the real code for a second or two: its
edges are sorted and checked, its rows gathered at the width of the plan, and a
small store is written to the disk of the result. Each stage then takes its size
divided by the rate that was measured.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import dgl
import numpy as np
import psutil
import torch

from ..._common.bytes import format_bytes
from ..._common.digest import digest
from ..._common.dtypes import type_of
from ..._common.rows import copy_rows
from ...storage.check_graph import check_compressed
from ...storage.disk_features import DiskFeatures
from ...storage.disk_graph import DiskGraph
from ...storage.manifest import Manifest
from ...storage.npy_file import check_chunks
from ...storage.write_hops import disk_bytes
from ..api import block_aggregate
from ..graph.bucket_sort import bucket_sort_bytes
from ..graph.in_edges import InEdges, in_edges
from .cpu import plan_for
from .plans import Plan, sort_room
from .work import Work

#: Bytes of the rows of the sample, of those that it gathers, of the files
#: that are read and of the store that is written, at most.
_ROWS_BYTES = 1 << 28
_GATHERED_BYTES = 1 << 30
_READ_BYTES = 1 << 26
_STORE_BYTES = 1 << 26
#: Pieces of the graph that the sample is taken from.
_PIECES = 8


class Stage(NamedTuple):
    """A part of the work.

    Attributes
    ----------
    name : str
        What is done.
    seconds : float
        The time that it takes, estimated.
    size : int
        Bytes that are read, gathered or written.
    """

    name: str
    seconds: float
    size: int


@dataclass(frozen=True)
class Estimate:
    """What a precomputation takes: time, memory and disk. Print it.

    Attributes
    ----------
    plan : Plan
        How the work is cut.
    stages : tuple of Stage
        The parts of the work, in order.
    disk_bytes, free_disk : int
        Bytes of disk that a stored result takes while it is written, and
        those that are free.
    free_memory : int
        Bytes of memory that are available now.
    """

    plan: Plan
    stages: tuple[Stage, ...]
    disk_bytes: int
    free_disk: int
    free_memory: int

    @property
    def seconds(self) -> float:
        """The time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def missing(self) -> list[str]:
        """Say what is missing to start now."""
        found = []
        for what, needed, free in (
            ("memory", self.plan.peak_bytes, self.free_memory),
            ("disk", self.disk_bytes, self.free_disk),
        ):
            if needed > free:
                lacking = format_bytes(needed - free)
                found.append(f"{lacking} of {what} are missing")
        return found

    def __str__(self) -> str:
        plan, work = self.plan, self.plan.work
        lines = [
            f"{work.num_nodes:,} nodes, {work.num_edges:,} edges, "
            f"{work.num_feats} columns of {work.kind}, K={work.K}, rows of "
            f"{work.kept_rows:,} nodes",
            f"in {plan.num_edge_blocks} edge and {plan.num_column_blocks} "
            f"column blocks",
            _row("stage", "bytes", "time"),
        ]
        lines += [
            _row(stage.name, format_bytes(stage.size), _time(stage.seconds))
            for stage in self.stages
        ]
        lines.append(_row("total", "", _time(self.seconds)))
        lines.append(_row("", "needed", "free"))
        for what, needed, free in (
            ("memory", plan.peak_bytes, self.free_memory),
            ("disk", self.disk_bytes, self.free_disk),
        ):
            lines.append(_row(what, format_bytes(needed), format_bytes(free)))
        return "\n".join(lines + self.missing())


def _row(name: str, first: str, second: str) -> str:
    return f"  {name:<28}{first:>12}{second:>12}".rstrip()


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2g} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def estimate(
    plan: Plan,
    g: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    out: str | os.PathLike = ".",
) -> Estimate:
    """Estimate the time of a precomputation on the CPU, stage by stage.

    It takes a second or two, and as much memory as the plan at the most.

    Parameters
    ----------
    plan : Plan
        The plan, made by :func:`dgl_lc.precompute.plan` for g and feat, with
        ``stored=True`` if the result goes to disk.
    g : DGLGraph or DiskGraph
        The graph.
    feat : Tensor, numpy.ndarray or DiskFeatures
        Its features.
    out : path
        A folder on the disk of the result, or one that is to be made there.
        A small folder is written there and removed. Default: the current
        folder.

    Examples
    --------
    >>> import dgl, tempfile, torch
    >>> from dgl_lc.precompute import estimate, plan
    >>> g, x = dgl.rand_graph(1000, 8000), torch.ones(1000, 64)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = estimate(plan(g, x, K=2, stored=True), g, x, folder)
    >>> for stage in found.stages:
    ...     print(stage.name)
    computing keys
    sorting the edges
    computing hops
    writing the store
    """
    work = plan.work
    folder = _existing(Path(out))
    sample = _sample(g, work, plan)
    stages = []
    if work.stored and not isinstance(g, DiskGraph):
        stages.append(_keys(work, feat, sample))
    if work.K:
        stages.append(_edges(plan, g, sample))
        if not work.all_rows:
            stages.append(_frontier(work, sample))
    if isinstance(feat, DiskFeatures) or not work.shares_features:
        stages.append(_features(work, feat))
    if work.K:
        stages.append(_hops(plan, sample))
    if work.stored:
        stages.append(_store(plan, folder))
    shape = (work.kept_rows, len(work.kept_hops), work.num_feats)
    needed = disk_bytes(shape, work.itemsize, not work.all_rows)
    return Estimate(
        plan, tuple(stages), needed if work.stored else 0,
        psutil.disk_usage(str(folder)).free,
        psutil.virtual_memory().available,
    )  # fmt: skip


def hop_seconds(plan: Plan) -> float:
    """Estimate the seconds of the hops for a graph that is not at hand.

    The sample has random edges, so that rows are gathered from all over the
    memory: edges of a real graph are rarely worse.
    """
    row = plan.column_width * plan.work.itemsize
    nodes = max(1, min(plan.work.num_nodes, (_ROWS_BYTES // 4) // row))
    edges = min(plan.work.num_edges, (_GATHERED_BYTES // 4) // row)
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, nodes, (2, edges))
    return _hops(plan, _Sample.of(source, target, nodes)).seconds


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _seconds(call: Callable[[], Any]) -> float:
    """Measure a call, after one that compiles kernels."""
    call()
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


class _Sample(NamedTuple):
    """A small graph with edges of the real one.

    Attributes
    ----------
    unsorted, by_target : DGLGraph
        The graph with its edges as they came, and by destination.
    """

    unsorted: dgl.DGLGraph
    by_target: dgl.DGLGraph

    @classmethod
    def of(
        cls, source: np.ndarray, target: np.ndarray, num_nodes: int
    ) -> "_Sample":  # fmt: skip
        ends = (torch.from_numpy(source), torch.from_numpy(target))
        unsorted = dgl.graph(ends, num_nodes=num_nodes)
        edges = InEdges(unsorted)
        indices = torch.from_numpy(edges.load().astype(np.int64))
        indptr = torch.from_numpy(edges.indptr)
        no_ids = torch.empty(0, dtype=torch.int64)
        by_target = dgl.graph(
            ("csc", (indptr, indices, no_ids)), num_nodes=num_nodes
        )
        return cls(unsorted, by_target)

    @property
    def num_nodes(self) -> int:
        return int(self.unsorted.num_nodes())

    @property
    def num_edges(self) -> int:
        """Edges, but at least one to divide by."""
        return max(1, int(self.unsorted.num_edges()))


def _sample(g: dgl.DGLGraph | DiskGraph, work: Work, plan: Plan) -> _Sample:
    """Take edges from all over the graph, between fewer nodes.

    There are as many nodes as fit in a part of the memory, so that rows are
    gathered from memory, not from a cache, where the real ones are.
    """
    row = plan.column_width * work.itemsize
    room = min(_ROWS_BYTES, plan.budget // 4)
    nodes = max(1, min(work.num_nodes, room // row))
    share = nodes / work.num_nodes
    edges = int(min(work.num_edges * share, _GATHERED_BYTES // row))
    if isinstance(g, DiskGraph):
        source, target = _disk_edges(g, edges)
    else:
        source, target = _memory_edges(g, edges)
    return _Sample.of(source % nodes, target % nodes, nodes)


def _disk_edges(g: DiskGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Read some edges, in a few pieces; nothing else of the graph is read."""
    total = g.num_edges()
    sources, targets = [], []
    for piece in range(_PIECES):
        first = total * piece // _PIECES
        last = min(first + -(-count // _PIECES), total)
        sources.append(np.array(g.indices[first:last], np.int64))
        low = int(np.searchsorted(g.indptr, first, "right")) - 1
        high = int(np.searchsorted(g.indptr, last, "left"))
        bounds = np.clip(g.indptr[low : high + 1], first, last)
        targets.append(np.repeat(np.arange(low, high), np.diff(bounds)))
    # A damaged file is found when the graph is checked, not here.
    n = g.num_nodes()
    return np.concatenate(sources).clip(0, n - 1), np.concatenate(targets)


def _memory_edges(g: dgl.DGLGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Take the same share of each slice of the edges."""
    share = count / max(1, g.num_edges())
    sources, targets = [], []
    for edges in in_edges(g).slices():
        part = slice(0, math.ceil(share * len(edges.source)))
        sources.append(edges.source[part].astype(np.int64))
        targets.append(edges.target[part].astype(np.int64))
    none = [np.empty(0, np.int64)]
    return np.concatenate(sources or none), np.concatenate(targets or none)


def _keys(work: Work, feat: Any, sample: _Sample) -> Stage:
    """Estimate the keys that a store is known by, of data in memory."""
    share = work.num_edges / sample.num_edges
    seconds = share * _seconds(lambda: InEdges(sample.unsorted).key())
    size = 16 * work.num_edges
    if isinstance(feat, torch.Tensor):
        part = feat[: max(1, _READ_BYTES // feat[:1].nbytes)]
        seconds += _seconds(lambda: digest(part)) * len(feat) / len(part)
        size += feat.nbytes
    return Stage("computing keys", seconds, size)


def _edges(
    plan: Plan, g: dgl.DGLGraph | DiskGraph, sample: _Sample
) -> Stage:  # fmt: skip
    """Estimate what is done with the edges before the first hop."""
    work = plan.work
    share = work.num_edges / sample.num_edges
    if isinstance(g, DiskGraph):
        size = sum(entry.num_bytes for entry in g.manifest.files.values())
        edges = InEdges(sample.by_target)
        indices, loops = edges.load(), edges.loops
        indptr, n = edges.indptr, sample.num_nodes
        seconds = _seconds(
            lambda: check_compressed(indptr, indices, n, "", loops)
        )
        seconds = share * seconds + size / _read_rate(g.path, g.manifest)
        return Stage("checking the graph", seconds, size)
    if work.owned:
        room = sort_room(plan)
        if work.bucket_sorted or room >= bucket_sort_bytes(
            work.num_nodes, work.num_edges, work.threads
        ):
            # So it has for the sample.
            room = sys.maxsize
        seconds = share * _seconds(lambda: InEdges(sample.unsorted).load(room))
        return Stage("sorting the edges", seconds, 16 * work.num_edges)
    seconds = share * _seconds(lambda: InEdges(sample.by_target).out_edges)
    return Stage("counting the edges", seconds, 8 * work.num_edges)


def _frontier(work: Work, sample: _Sample) -> Stage:
    """Estimate how long finding the rows takes that are needed."""
    edges = InEdges(sample.by_target)
    edges.load()
    rows = np.arange(sample.num_nodes, dtype=np.int32)
    marks = np.zeros(sample.num_nodes, np.uint8)
    seconds = _seconds(lambda: edges.mark_sources(rows, marks, marks))
    count = sum(work.hop_entries)
    share = count / sample.num_edges
    return Stage("finding the frontier", share * seconds, 4 * count)


def _features(work: Work, feat: Any) -> Stage:
    """Estimate reading and copying the features."""
    size = work.num_nodes * work.num_feats * work.input_size
    source = torch.ones(_READ_BYTES // 256, 64)
    target = torch.empty_like(source)
    copying = _seconds(lambda: copy_rows(source, None, target)) / source.nbytes
    copied = work.feature_rows * work.num_feats * work.input_size
    seconds = copying * copied
    if isinstance(feat, DiskFeatures):
        # Some rows of nearly every chunk are needed: it is read whole.
        seconds += size / _read_rate(feat.path, feat.manifest)
    return Stage("reading the features", seconds, size)


def _read_rate(path: Path, manifest: Manifest) -> float:
    """Measure bytes per second of reading a folder's largest file, checked.

    Only chunks from all over it are read, so that the rest of a file that is
    not in memory is still not in memory afterwards.
    """
    name, entry = max(
        manifest.files.items(), key=lambda item: item[1].num_bytes
    )
    total = len(entry.checksums or ())
    if not total or not entry.num_bytes:
        return float("inf")
    size = entry.num_bytes / total
    count = max(1, min(total, int(_READ_BYTES / size)))
    chunks = [total * place // count for place in range(count)]
    start = time.perf_counter()
    check_chunks(path / name, entry, chunks)
    return count * size / max(time.perf_counter() - start, 1e-9)


def _gather_rate(plan: Plan, sample: _Sample) -> float:
    """Measure bytes per second of rows that one hop gathers."""
    work = plan.work
    feat = torch.ones(
        sample.num_nodes, plan.column_width, dtype=type_of(work.kind).torch
    )
    entries = sample.num_edges + sample.num_nodes * work.self_loop
    options: dict[str, Any] = {
        "self_loop": work.self_loop, "progress": False, "process_group": False
    }  # fmt: skip
    if work.weighted:
        options["edge_weight"] = torch.ones(sample.by_target.num_edges())
    seconds = _seconds(
        lambda: block_aggregate(sample.by_target, feat, 1, hops=[1], **options)
    )
    return max(1, entries) * plan.column_width * work.itemsize / seconds


def _hops(plan: Plan, sample: _Sample) -> Stage:
    """Estimate the hops themselves."""
    work = plan.work
    entries = sum(work.hop_entries) + sum(work.hop_rows) * work.self_loop
    size = entries * work.num_feats * work.itemsize
    seconds = size / _gather_rate(plan, sample)
    if work.owned and plan.num_edge_blocks > 1:
        # Each block is sorted again for every hop and column block.
        once = _seconds(lambda: InEdges(sample.unsorted).load())
        times = work.K * plan.num_column_blocks * plan.num_edge_blocks
        seconds += times * once * work.num_edges / sample.num_edges
    return Stage("computing hops", seconds, size)


def _store(plan: Plan, folder: Path) -> Stage:
    """Estimate writing the store, by writing a small one in the same way."""
    work = plan.work
    row = 2 * work.num_feats * work.itemsize
    room = min(_STORE_BYTES, psutil.disk_usage(str(folder)).free // 8)
    rows = max(2, min(work.kept_rows, room // row))
    with tempfile.TemporaryDirectory(
        prefix=".dgl-lc-plan-", dir=folder
    ) as temporary:
        where = Path(temporary)
        _write_store(plan, 2, where / "compiles")
        fixed = _write_store(plan, 2, where / "empty")
        seconds = _write_store(plan, rows, where / "small")
        read_rate = _cold_read_rate(where / "small" / "rows.npy")
    size = work.kept_rows * len(work.kept_hops) * work.num_feats * work.itemsize
    total = fixed + max(0.0, seconds - fixed) * size / (rows * row)
    if size > psutil.virtual_memory().available:
        # Pages of earlier column blocks are read back to be completed.
        total += (plan.num_column_blocks - 1) * size / read_rate
    return Stage("writing the store", total, size)


def _write_store(plan: Plan, rows: int, folder: Path) -> float:
    """Write hops 0 and 1 of a graph without edges; return the seconds."""
    work = plan.work
    graph = dgl.graph(([], []), num_nodes=rows)
    feat = torch.ones(rows, work.num_feats, dtype=type_of(work.kind).torch)
    small = _small_work(work, rows)
    budget = 1 << 40
    cut = plan_for(small, 1, plan.column_width, budget)
    start = time.perf_counter()
    block_aggregate(
        graph, feat, 1, plan=cut, out=folder, progress=False,
        process_group=False,
    )  # fmt: skip
    return time.perf_counter() - start


def _small_work(work: Work, rows: int) -> Work:
    """Return the sizes of a graph without edges."""
    return Work(
        num_nodes=rows, num_edges=0, num_feats=work.num_feats, kind=work.kind,
        hop_rows=(rows,), hop_entries=(0,), kept_rows=rows, kept_hops=(0, 1),
        threads=work.threads, stored=True,
    )  # fmt: skip


def _cold_read_rate(path: Path) -> float:
    """Measure bytes per second of reading a file from the disk."""
    with open(path, "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = time.perf_counter()
        size = 0
        while part := file.read(1 << 20):
            size += len(part)
        return size / max(time.perf_counter() - start, 1e-9)
