"""Measure a precomputation as a whole: from a fresh graph to all hop features.

    python benchmarks/fresh.py [--graphs arxiv 1m 4m] [--json fresh.json]

Every timed call of "fresh" begins with a DGLGraph that was just made from its
edges (COO), and all that follows counts: sorting edges, degrees and norms,
allocating the result and touching its memory. "Second" is a call with the same
graph and features. Times are the minimum of several runs, with kernels compiled
before; compiling is shown apart. "Without first touch" leaves out the time in
which the system gives memory for the result, on both sides.

Memory that was free for a while takes a virtual machine up to ten times as long
to get as memory that was freed just now. So memory of the size of the result is
taken and given back before every timed call.
"""

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import peers
import torch
from precompute import (
    COLUMNS,
    GRAPHS,
    RUNS,
    SIZES,
    graphs_at_hand,
    largest_error,
    make_features,
    make_graph,
    some_nodes,
)
from section import (
    OURS,
    Section,
    format_ratio,
    format_value,
    row,
    select,
    table,
    times_better,
)

import dgl_lc._common.rows as rows_in_memory
from dgl_lc.data import power_law_graph
from dgl_lc.precompute import block_aggregate, sinks, survey
from dgl_lc.precompute.cpu import column_buffers, engine, filter_product
from dgl_lc.precompute.graph import filters
from dgl_lc.precompute.graph.in_edges import InEdges

#: Peers of a run of make bench.
QUICK = [
    "DGL copy_u_sum, self-loops added", "DGL copy_u_sum, loops' rows added",
    "PyG SIGN",
]  # fmt: skip
#: Most runs in make bench of all calls on a graph, where one takes up to 16 s.
MOST_RUNS = {"4m": 2}
#: What is timed within a call of ours, in the words of the table.
PARTS = [
    (InEdges, "load", "sorting"),
    (filters, "diagonals", "norms"),
    (survey, "frontier", "frontier"),
    (sinks, "empty", "first touch"),
    (column_buffers, "empty", "first touch"),
    (filter_product.FilterProduct, "write", "hops"),
    (engine, "scale_rows", "hops"),
]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--graphs", nargs="+", choices=list(GRAPHS), default=RUNS["all"],
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
        "--peers", nargs="+", choices=list(peers.FRESH),
        default=list(peers.FRESH), help="peers to measure (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--no-compile", action="store_true",
        help="do not measure how long compiling takes",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="file to save the rows in")
    return parser.parse_args()


@contextlib.contextmanager
def timed_parts():
    """Give a dict of seconds by part, of the calls made within."""
    seconds = defaultdict(float)
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in PARTS]

    def timed(function, part):
        def call(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[part] += time.perf_counter() - start

        return call

    for (owner, name, part), (_, _, function) in zip(
        PARTS, before, strict=True
    ):
        setattr(owner, name, timed(function, part))
    try:
        yield seconds
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def take_and_free(size):
    """Have the machine give this process memory, as the text above says."""
    rows_in_memory.empty(size // 4096, 1024, torch.float32)


def touch_seconds(num_nodes, K):
    """Time the first touch of K hops in memory as torch allocates it.

    A peer allocates at least these. One byte of each page is written.
    """
    start = time.perf_counter()
    hops = [torch.empty(num_nodes, COLUMNS) for _ in range(K)]
    for hop in hops:
        pages = hop.view(-1)[:: 4096 // 4]
        pages.zero_()
    return time.perf_counter() - start


class Task:
    """A graph, made again from its edges for every call, and its features."""

    def __init__(self, name, args):
        g = make_graph(name, args)
        self.name, self.runs = name, args.runs
        self.K = GRAPHS[name][0]
        self.ends, self.num_nodes = g.edges(), g.num_nodes()
        self.num_edges = g.num_edges()
        self.x, self.nodes = make_features(g), some_nodes(g)
        self.expected = None

    def fresh_graph(self):
        return dgl.graph(self.ends, num_nodes=self.num_nodes)

    def time(self, call):
        """Return the seconds and the result of a call, in clean memory."""
        gc.collect()
        take_and_free((self.K + 1) * self.num_nodes * COLUMNS * 4)
        start = time.perf_counter()
        result = call()
        return time.perf_counter() - start, result

    def measure(self, prepare, rows="all"):
        """Time the fresh and the second call; return a row's numbers.

        ``prepare(g)(x, K)`` is the whole of what is timed. The parts are
        those of the fastest fresh call.
        """
        self.warm_up(prepare)
        fresh, second, error = [], [], 0.0
        parts = {}
        for run in range(self.runs):
            g = self.fresh_graph()
            made = []

            def first(g=g, made=made):
                made.append(prepare(g))
                return made[0](self.x, self.K)

            with timed_parts() as found:
                seconds, result = self.time(first)
            if run == 0:
                error = self.check(result, rows)
            if not fresh or seconds < min(fresh):
                parts = {**found, "rest": seconds - sum(found.values())}
            fresh.append(seconds)
            del result
            seconds, result = self.time(lambda m=made: m[0](self.x, self.K))
            second.append(seconds)
            del result, g, made
        return {
            "fresh_s": min(fresh), "second_s": min(second), "error": error,
            "parts": {part: round(s, 4) for part, s in parts.items()},
        }  # fmt: skip

    def warm_up(self, prepare):
        """Compile and load what a call needs.

        Which of our kernels run depends on the size of the graph, so that our
        calls take the graph itself; those of peers take a small one.
        """
        if prepare in peers.FRESH.values():
            small = power_law_graph(*SIZES["tiny"])
            prepare(small)(make_features(small), self.K)
        else:
            prepare(self.fresh_graph())(self.x, self.K)

    def check(self, result, rows):
        if rows == "all":
            result = [hop[self.nodes] for hop in result]
        if self.expected is None:
            self.expected = [hop.clone() for hop in result]
        error = largest_error(result, self.expected)
        assert error < 1e-4, f"a different result: {error}"
        return error

    def row(self, who, rows, numbers, **more):
        return {
            "graph": self.name, "nodes": self.num_nodes,
            "edges": self.num_edges, "K": self.K, "columns": COLUMNS,
            "who": who, "rows": rows, **numbers, **more,
        }  # fmt: skip


def ours_some(nodes):
    def prepare(g):
        return lambda x, K: block_aggregate(
            g, x, K, nodes=nodes, progress=False
        )

    return prepare


def graph_rows(name, args):
    """Measure one graph; return a dict for each row of its table."""
    task = Task(name, args)
    found = []
    for rows, prepare in (
        ("all", peers.ours), ("1.4 %", ours_some(task.nodes)),
    ):  # fmt: skip
        numbers = task.measure(prepare, "all" if rows == "all" else "some")
        touch = numbers["parts"].get("first touch", 0.0)
        found.append(task.row("dgl-lc", rows, numbers, touch_s=touch))
        show(found[-1], found[-1])
    touch = min(
        task.time(lambda: touch_seconds(task.num_nodes, task.K))[1]
        for _ in range(task.runs)
    )
    for peer in args.peers:
        try:
            numbers = task.measure(peers.FRESH[peer])
        except ImportError as error:
            print(f"{peer:36}skipped: {error}", flush=True)
            continue
        # A peer computes all rows, even if few are needed.
        for own in list(found[:2]):
            ratios = {
                "fresh_ratio": numbers["fresh_s"] / own["fresh_s"],
                "second_ratio": numbers["second_s"] / own["second_s"],
                "untouched_ratio": (numbers["fresh_s"] - touch)
                / (own["fresh_s"] - own["touch_s"]),
            }
            row = task.row(peer, own["rows"], numbers, touch_s=touch, **ratios)
            del row["parts"]  # they are known of our calls alone
            found.append(row)
            show(found[-1], own)
    return found


def show(row, own):
    """Print a row of the table."""
    text = (
        f"{row['who']:36}{row['rows']:>7}{row['fresh_s']:9.3f}s"
        f"{row['fresh_s'] / own['fresh_s']:7.2f}x{row['second_s']:9.3f}s"
        f"{row['second_s'] / own['second_s']:7.2f}x"
    )
    rest = row["fresh_s"] - row["touch_s"]
    text += f"{rest:9.3f}s{rest / (own['fresh_s'] - own['touch_s']):7.2f}x"
    print(text, flush=True)
    if "parts" in row:
        parts = sorted(row["parts"].items(), key=lambda part: -part[1])
        text = ", ".join(f"{part} {value:.3f}" for part, value in parts)
        print(f"    {text}", flush=True)


def compile_rows():
    """Time the first call on a new machine, and in a new process later."""
    code = (
        "import json, time, dgl_lc, torch; "
        "from dgl_lc.data import power_law_graph; "
        "g, x = power_law_graph(1000, 4000), torch.ones(1000, 128); "
        "start = time.perf_counter(); dgl_lc.block_aggregate(g, x, 3); "
        "first = time.perf_counter() - start; g = power_law_graph(1000, 4000); "
        "start = time.perf_counter(); dgl_lc.block_aggregate(g, x, 3); "
        "print(json.dumps({'first_s': first, "
        "'later_s': time.perf_counter() - start}))"
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for text in ("nothing compiled", "compiled before"):
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True,
                env={**os.environ, "NUMBA_CACHE_DIR": folder}, check=True,
            )  # fmt: skip
            found.append({"kernels": text, **json.loads(done.stdout)})
    return found


def measure(args):
    """Run the benchmark; return all rows, as JSON can hold them."""
    result = {
        "versions": {
            "dgl_lc": dgl_lc.__version__, "dgl": dgl.__version__,
            "torch": torch.__version__,
        },
        "threads": args.threads, "rows": [], "compile": [],
    }  # fmt: skip
    if not args.no_compile:
        result["compile"] = compile_rows()
        for row in result["compile"]:
            print(
                f"first call in a process, {row['kernels']}: "
                f"{row['first_s']:.2f} s (the next: {row['later_s']:.2f} s)"
            )
    for name in graphs_at_hand(args):
        K, text = GRAPHS[name]
        print(f"\n## {text}; K={K}, {COLUMNS} columns of float32")
        print(
            f"{'':36}{'rows':>7}{'fresh':>10}{'':8}{'second':>10}{'':8}"
            f"{'without first touch':>18}", flush=True,
        )  # fmt: skip
        result["rows"] += graph_rows(name, args)
        gc.collect()
    return result


def fresh(options):
    """Yield the rows of a run of make bench."""
    warnings.filterwarnings("ignore", ".*Sparse.*", UserWarning)
    args = argparse.Namespace(
        graphs=RUNS[options.size], runs=options.runs,
        arxiv=options.data / "ogbn_arxiv.npz", peers=list(peers.FRESH),
    )  # fmt: skip
    if options.size != "tiny":
        for found in compile_rows():
            yield row(
                "first call in a process", OURS, found["kernels"],
                found["first_s"], "s",
            )  # fmt: skip
    for name in graphs_at_hand(args):
        case = f"{GRAPHS[name][1]}, K={GRAPHS[name][0]}"
        if options.size == "default":
            # The others are several times slower.
            args.peers = QUICK if name == "arxiv" else QUICK[:2]
            args.runs = min(options.runs, MOST_RUNS.get(name, options.runs))
        for found in graph_rows(name, args):
            if found["who"] != OURS and found["rows"] != "all":
                continue  # the same again, with other ratios
            for what in ("fresh", "second"):
                yield row(
                    case, found["who"], f"{what}, {found['rows']}",
                    found[f"{what}_s"], "s", runs=args.runs,
                    touch=found["touch_s"], parts=found.get("parts", {}),
                )  # fmt: skip
        gc.collect()


def fresh_tables(what):
    """Return what makes a table of a call that computes all rows."""
    return lambda rows: table(rows, what=f"{what}, all")


def untouched_table(rows):
    """Make a table of the fresh call without first touch of the result."""
    return table([
        {**r, "value": r["value"] - r["touch"]}
        for r in select(rows, what="fresh, all")
    ])  # fmt: skip


def some_table(rows):
    """Make a table of few rows: peers compute all of them, even so."""
    return table([
        r for r in rows
        if r["what"] == ("fresh, 1.4 %" if r["name"] == OURS else "fresh, all")
    ])  # fmt: skip


def speed_table(rows):
    """Make a short table: we, and the fastest peer of each graph."""
    calls = {"fresh": "fresh graph", "second": "second call"}
    head = ["", *(f"{text}: {who}" for text in calls.values()
                  for who in (OURS, "fastest peer"))]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    some = select(rows, what="fresh, all")
    for case in dict.fromkeys(r["case"] for r in some):
        cells = [case]
        for what in calls:
            found = select(rows, case=case, what=f"{what}, all")
            (mine,) = select(found, name=OURS)
            peer = min(
                (r for r in found if r["name"] != OURS),
                key=lambda r: r["value"],
            )
            ratio = format_ratio(times_better(mine, peer))
            cells.append(format_value(mine["value"], "s"))
            cells.append(f"{format_value(peer['value'], 's')} ({ratio})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compile_table(rows):
    """Make a table of the first call on a machine, and in a process."""
    return table(rows, case="first call in a process", across="what")


SECTIONS_OF_BENCH = {
    "fresh": Section(
        fresh,
        {
            "fresh": fresh_tables("fresh"),
            "second-call": fresh_tables("second"),
            "untouched": untouched_table,
            "some-rows": some_table,
            "speed": speed_table,
            "compiling": compile_table,
        },
        minutes=5.2,
    )
}


def main(args):
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", ".*Sparse.*", UserWarning)
    result = measure(args)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(parse_args())
