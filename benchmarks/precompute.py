"""Measure how fast dgl-lc and its peers compute hop features, in one run.

    python benchmarks/precompute.py [--graphs arxiv 1m 4m] [--runs 3]

This script prints every figure of the README's tables on speed and memory.
Times are the minimum of several runs after a warm-up. Memory is the peak of a
process of its own, beyond the graph, the features and the result.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import numpy as np
import peers
import torch
from measure import Peak, answer, fastest, in_process
from section import (
    OURS,
    Options,
    Section,
    format_value,
    print_rows,
    row,
    table,
    value,
)

from dgl_lc._common.bytes import format_bytes
from dgl_lc.data import power_law_graph
from dgl_lc.precompute import block_aggregate, plan

COLUMNS = 128
#: The share of the nodes that have a label in ogbn-papers100M.
SHARE = 0.014
GRAPHS = {
    "tiny": (3, "power law, 2,000 nodes, 20,000 edges"),
    "arxiv": (5, "ogbn-arxiv's graph, both directions"),
    "1m": (3, "power law, 1M nodes, 16M edges"),
    "4m": (3, "power law, 4M nodes, 65M edges"),
}
#: The graphs of a run of make bench, by its size.
RUNS = {
    "tiny": ["tiny"],
    "default": ["arxiv", "1m", "4m"],
    "all": ["arxiv", "1m", "4m"],
}
SIZES = {
    "tiny": (2_000, 20_000),
    "1m": (1_000_000, 16_000_000),
    "4m": (4_000_000, 65_000_000),
}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--graphs", nargs="+", choices=list(GRAPHS),
        default=["arxiv", "1m", "4m"],
        help="graphs to measure on (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=int, default=3,
        help="number of timed runs of each (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=2,
        help="number of threads (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--arxiv", type=Path, help="npz file with ogbn-arxiv's edges "
        "(default: ../shared/data/ogbn_arxiv.npz beside the repository)",
        default=Path(__file__).parents[2] / "shared/data/ogbn_arxiv.npz",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS),
        help="sections to run (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--peers", nargs="+", choices=list(peers.PEERS),
        default=list(peers.PEERS), help="peers to measure (default: all)",
    )  # fmt: skip
    return parser.parse_args()


def graphs_at_hand(args):
    for name in args.graphs:
        if name == "arxiv" and not args.arxiv.exists():
            print(f"\narxiv: skipped, {args.arxiv} does not exist")
            continue
        yield name


def make_graph(name, args):
    if name in SIZES:
        return power_law_graph(*SIZES[name])
    with np.load(args.arxiv, allow_pickle=False) as data:
        edges = torch.from_numpy(data["edges"].astype(np.int64))
        g = dgl.graph(tuple(edges), num_nodes=int(data["num_nodes"]))
    return dgl.add_reverse_edges(g)


def make_features(g):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(g.num_nodes(), COLUMNS, generator=generator)


def some_nodes(g):
    generator = torch.Generator().manual_seed(1)
    count = int(SHARE * g.num_nodes())
    return torch.randperm(g.num_nodes(), generator=generator)[:count]


def largest_error(found, expected):
    return max(
        float((a - b).abs().max() / b.abs().max())
        for a, b in zip(found, expected, strict=True)
    )


def bench_times(args):
    """Time all rows and 1.4 % of them; check that peers give the same."""
    for name in graphs_at_hand(args):
        K, text = GRAPHS[name]
        g = make_graph(name, args)
        print(f"\n## {text}; K={K}, {COLUMNS} columns of float32", flush=True)
        time_graph(g, make_features(g), some_nodes(g), K, args)


def time_graph(g, x, nodes, K, args):
    start = time.perf_counter()
    block_aggregate(g, x, K, progress=False)
    print(f"first call on a new graph: {time.perf_counter() - start:.2f} s")
    all_rows = peers.ours(g)

    def look(hops):
        return [hop[nodes] for hop in hops]

    mine, expected = fastest(lambda: all_rows(x, K), args.runs, look)
    part, error = fastest(
        lambda: block_aggregate(g, x, K, nodes=nodes, progress=False),
        args.runs,
        lambda hops: largest_error(hops, expected),
    )
    assert error < 1e-5, f"some rows differ from those of all rows: {error}"
    print(f"{'':32}{'all rows':>9}{'ratio':>8}{'1.4 % rows':>12}"
          f"{'ratio':>8}{'error':>9}")  # fmt: skip
    print(f"{'dgl-lc':32}{mine:8.3f}s{1:8.2f}{part:11.3f}s{1:8.2f}")
    for peer in args.peers:
        call = peers.PEERS[peer](g)
        seconds, error = time_peer(call, x, K, args.runs, look, expected)
        assert error < 1e-4, f"{peer} gives a different result: {error}"
        # A peer computes all rows, even if few are needed.
        print(
            f"{peer:32}{seconds:8.3f}s{seconds / mine:8.2f}{seconds:11.3f}s"
            f"{seconds / part:8.2f}{error:9.0e}", flush=True,
        )  # fmt: skip
        del call
        gc.collect()


def time_peer(hops, x, K, runs, look, expected):
    return fastest(
        lambda: hops(x, K),
        runs,
        lambda found: largest_error(look(found), expected),
    )


def bench_bandwidth(args):
    """Compare one hop with reading the gathered rows in order."""
    print("\n## One hop against memory bandwidth", flush=True)
    block = torch.ones(2**28)
    reading, _ = fastest(block.sum, 7)
    bandwidth = block.numel() * 4 / reading
    del block
    print(f"reading in order: {bandwidth / 1e9:.1f} GB/s")
    for name in graphs_at_hand(args):
        g = make_graph(name, args)
        x = make_features(g)
        hop = partial(block_aggregate, g, x, 1, hops=[1], progress=False)
        seconds, _ = fastest(hop, max(args.runs, 5))
        gathered = (g.num_edges() + g.num_nodes()) * COLUMNS * 4
        ideal = gathered / bandwidth
        print(
            f"{name}: {gathered / 1e9:.2f} GB gathered in {seconds:.3f} s, "
            f"{gathered / seconds / 1e9:.1f} GB/s: {seconds / ideal:.2f}x "
            f"the time of reading them in order"
        )


def bench_growth(args):
    """Show how the time grows with edges and with columns."""
    print("\n## Growth: seconds, and nanoseconds per edge and column")
    for edges in (4_000_000, 8_000_000, 16_000_000):
        g = power_law_graph(500_000, edges)
        x = make_features(g)
        _growth_row(f"{edges:,} edges", g, x, args)
    for columns in (32, 64, 128):
        _growth_row(f"{columns} columns", g, x[:, :columns].contiguous(), args)


def _growth_row(text, g, x, args):
    seconds, _ = fastest(
        lambda: block_aggregate(g, x, 2, progress=False), max(args.runs, 5)
    )
    work = 2 * (g.num_edges() + g.num_nodes()) * x.shape[1]
    print(f"{text:>20}: {seconds:.3f} s, {seconds / work * 1e9:.4f} ns",
          flush=True)  # fmt: skip


def memory(options, graphs=None, names=None):
    """Yield peaks beyond graph, features and result, one process each."""
    if graphs is None:
        graphs = RUNS[options.size]
        if options.size == "default":
            graphs = graphs[:2]  # the third one takes minutes
    if names is None:
        names = (OURS, "dgl-lc, memory set", "DGL copy_u_sum, norms folded")
    arxiv = options.data / "ogbn_arxiv.npz"
    for graph in graphs:
        if graph == "arxiv" and not arxiv.exists():
            continue
        for rows in ("all", "some"):
            for name in names:
                if name == "dgl-lc, memory set" and rows == "all":
                    continue
                task = {
                    "name": name, "graph": graph, "rows": rows,
                    "arxiv": str(arxiv), "threads": options.threads,
                }  # fmt: skip
                found = in_process(__file__, task)
                case = GRAPHS[graph][1]
                yield row(case, name, f"{rows} rows", found.pop("peak"), "B",
                          **found)  # fmt: skip


def memory_table(rows):
    """Make a table of the peaks, and of how many times less is needed."""
    lines = {"all rows": "all rows", "some rows": "1.4 % of the rows"}
    parts = [
        {**r, "name": f"{r['name']}, {lines[r['what']]}"} for r in rows
        if "budget" not in r
    ]  # fmt: skip
    return table(parts, ratio_to=None)


def memory_words(rows):
    """Say in a few words what the largest graph takes, with us and DGL."""
    case = rows[-1]["case"]
    ours, theirs = (
        format_value(value(rows, case=case, name=name, what="all rows"), "B")
        for name in (OURS, "DGL copy_u_sum, norms folded")
    )
    return f"{ours} ({case}), where DGL takes {theirs}"


def peak_of(task):
    """Measure one peak, in a process that :func:`memory` has started."""
    torch.set_num_threads(task["threads"])
    warnings.filterwarnings("ignore", ".*Sparse.*", UserWarning)
    args = argparse.Namespace(arxiv=Path(task["arxiv"]))
    name, K = task["name"], GRAPHS[task["graph"]][0]
    prepare = peers.PEERS.get(name, peers.ours)
    small = power_law_graph(1000, 4000)
    block_aggregate(small, make_features(small), K, nodes=some_nodes(small))
    prepare(small)(make_features(small), K)  # load and compile
    g = make_graph(task["graph"], args)
    x, nodes = make_features(g), some_nodes(g)
    budget = None
    if name == "dgl-lc, memory set":
        free = plan(g.clone(), x, K, nodes=nodes).peak_bytes
        budget = int(0.7 * free)
        try:
            plan(g.clone(), x, K, nodes=nodes, memory=budget)
        except dgl.DGLError:
            # The plan without a budget takes the least possible already.
            budget = free
    peak = Peak()
    if task["rows"] == "all":
        result = prepare(g)(x, K)
    elif name.startswith(OURS):
        result = block_aggregate(g, x, K, nodes=nodes, memory=budget)
    else:
        result = [hop[nodes] for hop in prepare(g)(x, K)]
    found = peak.bytes()
    if budget is not None:
        return {"peak": found, "budget": budget, "kept": found <= budget}
    size = sum(hop.numel() * 4 for hop in result)
    if task["rows"] == "all":
        # Hop 0 is the features themselves.
        size -= x.numel() * 4
    return {"peak": max(0, found - size)}


def bench_memory(args):
    """Print peaks of all peers, and whether a budget is kept."""
    print("\n## Peak memory beyond graph, features and result")
    options = Options(
        runs=args.runs, threads=args.threads, data=args.arxiv.parent
    )
    names = (OURS, "dgl-lc, memory set", *args.peers)
    for r in print_rows(memory(options, args.graphs, names)):
        if "budget" in r:
            print(f"{r['case']}: memory={format_bytes(r['budget'])}: "
                  f"{'kept' if r['kept'] else 'BROKEN'}")  # fmt: skip


def bench_start(args):
    """Time the first call in a new process, with and without a cache."""
    print("\n## Cold start: the first call in a new process")
    code = (
        "import time; start = time.perf_counter(); import dgl_lc, torch; "
        "from dgl_lc.data import power_law_graph; "
        "loaded = time.perf_counter(); g = power_law_graph(1000, 4000); "
        "dgl_lc.block_aggregate(g, torch.ones(1000, 100), 2); "
        "print(f'import {loaded - start:.1f} s, first call "
        "{time.perf_counter() - loaded:.1f} s')"
    )
    with tempfile.TemporaryDirectory() as folder:
        for text in ("nothing compiled", "compiled before"):
            found = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True,
                env={"NUMBA_CACHE_DIR": folder, "PATH": ""}, check=True,
            )  # fmt: skip
            print(f"{text}: {found.stdout.strip()}", flush=True)


SECTIONS_OF_BENCH = {
    "memory": Section(
        memory,
        {"memory": memory_table, "memory-words": memory_words},
        minutes=0.9,
    )
}
SECTIONS = {
    "start": bench_start,
    "times": bench_times,
    "bandwidth": bench_bandwidth,
    "growth": bench_growth,
    "memory": bench_memory,
}


def main(args):
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", ".*Sparse.*", UserWarning)
    print(
        f"dgl-lc {dgl_lc.__version__}, dgl {dgl.__version__}, torch "
        f"{torch.__version__}, {args.threads} threads"
    )
    for section in args.only:
        SECTIONS[section](args)


if __name__ == "__main__" and not answer(peak_of):
    main(parse_args())
