"""``dgl-lc warmup``: compile the kernels of the CPU ahead.

Kernels are compiled by using them on small graphs, because their types follow
from real calls only.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from .flags import Commands, count, refuse

_TYPES = ("float32", "float64", "float16", "bfloat16")
#: Columns whose tiles are all widths of the kernels: of rows that are whole
#: cache lines in each type, and of rows that are not.
_COLUMNS = (480, 255, 4, 2, 1)
#: Results from this size on are written past the cache.
_STREAMED = 1 << 25
#: A node with so many edges is a hub, whose edges are added up in parts.
_HUB = 40_000


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("warmup")
    parser.add_argument(
        "--dtype", nargs="+", choices=_TYPES, default=list(_TYPES),
        help="data types of hop features (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--columns", nargs="+", type=count, default=list(_COLUMNS),
        metavar="N", help="numbers of columns of your features (default: all "
        "widths that kernels are compiled for)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=count,
        help="number of processes that compile (default: one per core, at "
        "most 4)",
    )  # fmt: skip
    parser.set_defaults(
        run=_run, kept="what was compiled is kept: call it again for the rest"
    )


class Warmed(NamedTuple):
    """What one job has compiled, and whether it is kept."""

    compiled: int
    loaded: int
    kept: bool


def _run(args: argparse.Namespace) -> int:
    import psutil

    start = time.perf_counter()
    jobs: list[Callable[[], None]] = [
        partial(warm_hops, dtype, list(args.columns)) for dtype in args.dtype
    ]
    jobs += [warm_graphs, warm_files]
    workers = args.workers
    if workers is None:
        workers = min(4, psutil.cpu_count() or 1)
    workers = min(workers, len(jobs))
    if workers == 1:
        done = [_counted(job) for job in jobs]
    else:
        # Numba compiles one kernel at a time in a process.
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            done = list(pool.map(_counted, jobs))
    if not all(each.kept for each in done):
        refuse(
            "compiled kernels can't be kept: neither the folder of the "
            "package nor the user's cache folder can be written. Set "
            "NUMBA_CACHE_DIR to a folder that can, now and later."
        )
    compiled = sum(each.compiled for each in done)
    loaded = sum(each.loaded for each in done)
    print(
        f"{compiled} kernels compiled, {loaded} loaded that were compiled "
        f"before, in {time.perf_counter() - start:.1f} s"
    )
    return 0


def _counted(job: Callable[[], None]) -> Warmed:
    from .._common.jit import count_kernels

    before = count_kernels()
    job()
    after = count_kernels()
    return Warmed(
        after.compiled - before.compiled, after.loaded - before.loaded,
        after.kept,
    )  # fmt: skip


def warm_hops(dtype_name: str, columns: list[int]) -> None:
    """Compute hops of one type: small, large, with a hub, in blocks."""
    import torch

    from ..precompute import block_aggregate

    dtype = getattr(torch, dtype_name)
    for width in columns:
        n = 1 + _STREAMED // (width * dtype.itemsize)
        for nodes in {64, min(n, 1 << 18)}:
            feat = torch.zeros(nodes, width, dtype=dtype)
            g = _graph(nodes)
            block_aggregate(g, feat, 1, progress=False)
            if nodes == 64:
                block_aggregate(g, feat, 2, nodes=[0, 1], progress=False)


def warm_graphs() -> None:
    """Read graphs of each format and type of ids, in each way."""
    import sys

    import numpy as np
    import torch

    from ..precompute import block_aggregate
    from ..precompute.graph.in_edges import InEdges

    for ids in (torch.int32, torch.int64):
        for formats in ("coo", "csr", "csc"):
            g = _graph(64).astype(ids).formats(formats)
            for dtype in (torch.float32, torch.float64):
                feat = torch.zeros(64, 8, dtype=dtype)
                weight = torch.ones(g.num_edges(), dtype=dtype)
                for options in (
                    {"norm": "left"}, {"edge_weight": weight},
                    {"nodes": [0, 1]},
                ):  # fmt: skip
                    block_aggregate(g, feat, 2, progress=False, **options)
            edges = InEdges(g)
            # As with little memory; then as for a store.
            marks = np.zeros(64, np.uint8)
            edges.mark_sources(np.zeros(1, np.int32), marks, marks)
            edges.load(0)
            edges.key()
            edges.check_edge_ids()
            InEdges(g).load(sys.maxsize)


def warm_files() -> None:
    """Write and read folders: a task, a store and its rows."""
    import numpy as np
    import torch

    from ..data import DiskData, build_disk_graph, prepare
    from ..precompute import block_aggregate, open_store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ends = np.arange(64)
        edges = np.stack([ends, (ends + 1) % 64], axis=1)
        for kind, text in (("numbers", ""), ("names", "a")):
            lines = [f"{text}{u},{text}{v}\n" for u, v in edges]
            (folder / f"{kind}.csv").write_text("".join(["src,dst\n", *lines]))
            rows = [f"{text}{u},{u},1.5\n" for u in ends]
            path = folder / f"{kind}_rows.csv"
            path.write_text("".join(["id,x,y\n", *rows]))
            data: Any = prepare(
                folder / f"{kind}.csv", path, folder / kind,
                memory="256MiB", progress=False,
            )  # fmt: skip
            data = DiskData(folder / kind)
            block_aggregate(
                data.graph, data.feat, 2, out=folder / f"{kind}_hops",
                progress=False,
            )  # fmt: skip
            store = open_store(folder / f"{kind}_hops")
            store.rows(torch.arange(8))
        np.save(folder / "edges.npy", edges)
        np.save(folder / "weights.npy", np.ones(64, np.float32))
        build_disk_graph(
            folder / "edges.npy", 64, folder / "weighted",
            weights=folder / "weights.npy", progress=False,
        )  # fmt: skip


def _graph(num_nodes: int) -> Any:
    """Make a graph with a hub and a self-loop."""
    import dgl
    import torch

    source = torch.arange(_HUB) % num_nodes
    source = torch.cat([source, torch.arange(num_nodes)])
    target = torch.zeros(len(source), dtype=torch.long)
    target[_HUB:] = torch.arange(num_nodes).roll(1)
    return dgl.graph((source, target), num_nodes=num_nodes)
