"""Measure precomputation on several ranks of this machine, in one run.

    python benchmarks/distributed.py [--nodes 4000000] [--edges 65000000]
        [--columns 128] [--ranks 2] [--runs 3] [--folder folder]
        [--network | --halos]

A power-law graph and random features are written to a folder once; ranks map
them. One process with as many threads as there are ranks is compared with
ranks of one thread each, K = 3: into memory (the rows of each rank), and into
one store. Prints seconds (the minimum of several runs, of the slowest rank),
their ratio to one process, and the most memory that a rank took.

With ``--network``: each rank is a host of its own, a network namespace (this
takes the rights of an administrator). Prints the bytes that the plan says,
that ranks hand to collectives, and that their network cards count.

With ``--halos``: how many bytes a rank receives in a hop, for an all-gather,
for edge shards, for the parts of METIS (those of DGL's partition_graph), and
for edge shards of a graph whose nodes were numbered by these parts. The graphs
are ogbn-arxiv's and one of a million nodes.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # makes DGL importable
import dgl
import numpy as np
import torch

from dgl_lc._common.bytes import format_bytes
from dgl_lc.data import (
    DiskFeatures,
    DiskGraph,
    build_disk_graph,
    power_law_graph,
    write_features,
)
from dgl_lc.precompute import block_aggregate, plan
from dgl_lc.precompute.graph.in_edges import in_edges
from dgl_lc.precompute.sharded.edge_shards import cut_destinations
from dgl_lc.ranks.collectives import Collectives
from dgl_lc.testing.hosts import make_hosts, why_no_hosts
from dgl_lc.testing.peak_memory import peak_memory

K = 3


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag, value in (
        ("--nodes", 4_000_000), ("--edges", 65_000_000), ("--columns", 128),
        ("--ranks", 2), ("--runs", 3),
    ):  # fmt: skip
        parser.add_argument(
            flag, type=int, default=value, help="(default: %(default)s)"
        )
    parser.add_argument(
        "--folder", type=Path,
        help="folder for graph, features and stores (default: a temporary one)",
    )  # fmt: skip
    parser.add_argument(
        "--network",
        action="store_true",
        help="count the bytes that hosts send, instead of measuring",
    )
    parser.add_argument(
        "--halos", action="store_true",
        help="count the bytes that ranks receive, instead of measuring",
    )  # fmt: skip
    parser.add_argument(
        "--arxiv", type=Path, help="npz file with ogbn-arxiv's edges "
        "(default: ../shared/data/ogbn_arxiv.npz beside the repository)",
        default=Path(__file__).parents[2] / "shared/data/ogbn_arxiv.npz",
    )  # fmt: skip
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(folder, args):
    """Write the graph and the features, unless they are there."""
    if not (folder / "graph" / "manifest.json").exists():
        g = power_law_graph(args.nodes, args.edges)
        edges = torch.stack(g.edges()).numpy()
        np.save(folder / "edges.npy", edges)
        del g, edges
        build_disk_graph(
            folder / "edges.npy", args.nodes, folder / "graph", progress=False
        )
        (folder / "edges.npy").unlink()
    if not (folder / "feat" / "manifest.json").exists():
        random = np.random.default_rng(0)
        shape = (args.nodes, args.columns)
        feat = np.lib.format.open_memmap(
            folder / "feat.npy", "w+", np.float32, shape
        )
        for low in range(0, args.nodes, 1 << 18):
            part = feat[low : low + (1 << 18)]
            part[:] = random.standard_normal(part.shape, np.float32)
        feat.flush()
        del feat
        write_features(folder / "feat.npy", folder / "feat", progress=False)
        (folder / "feat.npy").unlink()


def work(folder, options, runs):
    """Compute, on one rank or alone; return seconds and peak bytes."""
    graph, feat = DiskGraph(folder / "graph"), DiskFeatures(folder / "feat")
    stored = options.pop("stored")
    seconds = []

    def compute():
        out = folder / "store" if stored else None
        block_aggregate(
            graph, feat, K, hops=[K], out=out, resume=False, progress=False,
            **options,
        )  # fmt: skip

    graph.check_edges()
    compute()  # compiles
    for _ in range(runs):
        start = time.perf_counter()
        compute()
        seconds.append(time.perf_counter() - start)
    # Looking at the memory takes time of its own.
    return min(seconds), peak_memory(compute, maps_files=True)


def count_payload(folder, options):
    """Compute on this rank; write the bytes that it handed to collectives."""
    import torch.distributed as dist

    made, make = [], Collectives.__init__

    def keep(self, call):
        make(self, call)
        made.append(self)

    Collectives.__init__ = keep
    dist.init_process_group("gloo")
    block_aggregate(
        DiskGraph(folder / "graph"), DiskFeatures(folder / "feat"), K,
        hops=[K], progress=False, **options,
    )  # fmt: skip
    payload = sum(own.payload_bytes for own in made)
    (folder / f"payload-{dist.get_rank()}").write_text(str(payload))
    dist.barrier()
    dist.destroy_process_group()


def run_worker(folder, args):
    """Be one of the processes that are measured."""
    options = json.loads(args.worker)
    torch.set_num_threads(options.pop("threads"))
    if options.pop("count", False):
        count_payload(folder, options)
        return
    if "RANK" not in os.environ:
        print(json.dumps([*work(folder, options, args.runs)]))
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    found = torch.tensor(work(folder, options, args.runs), dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(json.dumps(found.tolist()))
    dist.destroy_process_group()


def measure(folder, args, ranks, **options):
    """Run a worker, or several ranks of it; return seconds and bytes."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone"]
        launcher += [f"--nproc-per-node={ranks}"]
    options["threads"] = args.ranks // ranks
    found = subprocess.run(
        [*launcher, __file__, "--worker", json.dumps(options), "--folder",
         str(folder), "--runs", str(args.runs)],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(options["threads"])},
    )  # fmt: skip
    return json.loads(found.stdout.strip().splitlines()[-1])


def compare(folder, args):
    """Measure one process and ranks, and print their ratios."""
    prepare(folder, args)
    print(
        f"{args.nodes:,} nodes, {args.edges:,} edges, {args.columns} columns, "
        f"K = {K}, hop {K} is kept, minimum of {args.runs} runs"
    )
    for stored in (False, True):
        print("into one store" if stored else "into memory, rows of each rank")
        alone, peak = measure(folder, args, 1, stored=stored)
        show(f"1 process, {args.ranks} threads", alone, alone, peak)
        for split in ("columns", "edges"):
            took, peak = measure(
                folder, args, args.ranks, stored=stored, split=split
            )
            show(f"{args.ranks} ranks, {split}", took, alone, peak)


def count_network(folder, args):
    """Print planned bytes, payload and those of network cards, by split."""
    reason = why_no_hosts()
    if reason is not None:
        sys.exit(f"--network: {reason}")
    prepare(folder, args)
    graph, feat = DiskGraph(folder / "graph"), DiskFeatures(folder / "feat")
    print(
        f"{args.nodes:,} nodes, {args.edges:,} edges, {args.columns} columns, "
        f"K = {K}, hop {K} in memory, rows of each rank; bytes sent by host 0"
    )
    heads = "planned", "payload", "network card", "card / payload"
    print(f"  {'':<20}" + "".join(f"{head:>18}" for head in heads))
    for split in ("columns", "edges"):
        planned = plan(
            graph, feat, K, hops=[K], ranks=args.ranks, hosts=args.ranks,
            split=split, shared=False,
        )  # fmt: skip
        options = {"split": split, "threads": 1, "count": True}
        with make_hosts(args.ranks) as hosts:
            command = [
                __file__, "--worker", json.dumps(options),
                "--folder", str(folder),
            ]  # fmt: skip
            running = [
                hosts.torchrun(host, 1, command) for host in range(args.ranks)
            ]
            if any([process.wait() for process in running]):
                sys.exit("a rank failed")
            sent = hosts.sent_bytes(0)
        payload = int((folder / "payload-0").read_text())
        print(
            f"  {f'{args.ranks} hosts, {split}':<20}"
            f"{planned.sent_bytes[0]:>18,}{payload:>18,}{sent:>18,}"
            f"{sent / max(payload, 1):>17.3f}x", flush=True,
        )  # fmt: skip


def show(name, seconds, alone, peak):
    """Print a line of the table."""
    print(
        f"  {name:<24}{seconds:>8.2f} s{seconds / alone:>8.2f}x"
        f"{format_bytes(int(peak)):>12} per process", flush=True,
    )  # fmt: skip


def halos(args):
    """Count the bytes that ranks receive in a hop, by the way of cutting."""
    with np.load(args.arxiv, allow_pickle=False) as data:
        edges = torch.from_numpy(data["edges"].astype(np.int64))
        arxiv = dgl.graph(tuple(edges), num_nodes=int(data["num_nodes"]))
    arxiv = dgl.add_reverse_edges(arxiv)
    graphs = {
        "ogbn-arxiv, both directions": arxiv,
        "power law, 1M nodes": power_law_graph(1_000_000, 16_000_000),
    }
    print(
        f"bytes that a rank receives in a hop of {args.columns} columns of "
        f"float32, the most of all ranks"
    )
    names = "all-gather", "edge shards", "METIS", "renumbered"
    print(" " * 38 + "".join(f"{name:>13}" for name in names))
    for name, g in graphs.items():
        for ranks in (2, 4, 16):
            shard = edge_shards(g, ranks)
            metis = metis_parts(g, ranks)
            # Nodes of one part get ids next to each other.
            order = np.argsort(metis, kind="stable")
            number = torch.from_numpy(np.argsort(order))
            ends = tuple(number[ids] for ids in g.edges())
            again = dgl.graph(ends, num_nodes=g.num_nodes())
            rows = [
                g.num_nodes() - np.bincount(shard, minlength=ranks).min(),
                max(count_halos(g, shard, ranks)),
                max(count_halos(g, metis, ranks)),
                max(count_halos(again, edge_shards(again, ranks), ranks)),
            ]
            print(
                f"{name}, {ranks:>2} ranks".ljust(38) + "".join(
                    f"{format_bytes(4 * args.columns * int(count)):>13}"
                    for count in rows
                ), flush=True,
            )  # fmt: skip


def edge_shards(g, ranks):
    """Give the edge shard of each node."""
    bounds = cut_destinations(in_edges(g).indptr, ranks)
    return np.searchsorted(bounds[1:-1], np.arange(g.num_nodes()), "right")


def metis_parts(g, ranks):
    """Give the part of each node, as ``dgl.distributed.partition_graph``."""
    # DGL prints how far it is, from C as well.
    shown = os.dup(1)
    with open(os.devnull, "w") as nothing:
        try:
            os.dup2(nothing.fileno(), 1)
            with contextlib.redirect_stdout(nothing):
                return dgl.metis_partition_assignment(g, ranks).numpy()
        finally:
            os.dup2(shown, 1)
            os.close(shown)


def count_halos(g, part, ranks):
    """Count for each part the nodes of others with an edge into it."""
    source, target = (ends.numpy() for ends in g.edges())
    found = []
    for own in range(ranks):
        read = source[part[target] == own]
        found.append(len(np.unique(read[part[read] != own])))
    return found


def main():
    args = parse_args()
    if args.worker is not None:
        run_worker(args.folder, args)
    elif args.halos:
        halos(args)
    else:
        run = count_network if args.network else compare
        if args.folder is not None:
            args.folder.mkdir(parents=True, exist_ok=True)
            run(args.folder, args)
        else:
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder), args)


if __name__ == "__main__":
    main()
