"""Large graphs on many hosts, on paper: what ``dgl-lc plan --ranks`` says.

    python benchmarks/ranks_on_paper.py

Nothing is computed. Bytes and peaks are counted by the code that ranks use,
from a model of the graph: all edge shards are alike, and edges come from any
node. Times are bytes divided by assumed rates. All of it is an estimate.
"""

import argparse

from dgl_lc._common.bytes import format_bytes
from dgl_lc.precompute.planning.cpu import MemoryTooSmall
from dgl_lc.precompute.planning.rank_rates import rates_with
from dgl_lc.precompute.planning.rank_traffic import Machines, RankResult
from dgl_lc.precompute.planning.ranks import (
    MOST_RANKS,
    format_time,
    make_ranks_plan,
)
from dgl_lc.precompute.planning.work import Work

#: Nodes, edges (both directions of citations), columns and their type.
GRAPHS = {
    "ogbn-papers100M": (111_059_956, 2 * 1_615_685_872, 128, "float32"),
    "MAG240M citations": (121_751_666, 2 * 1_297_748_926, 768, "float16"),
    "web graph": (3_500_000_000, 128_000_000_000, 128, "float16"),
}
#: The most nodes that a graph can have today.
MOST_IDS = 2**31 - 1
#: Bytes of a host, and of these the ones that a rank may take.
HOST_MEMORY, MEMORY = 64 * 10**9, 56 * 10**9
THREADS = 16


def make_work(name, hops, share):
    """Give the sizes of a graph on disk."""
    nodes, edges, columns, kind = GRAPHS[name]
    return Work(
        num_nodes=nodes, num_edges=edges, num_feats=columns, kind=kind,
        hop_rows=(nodes,) * hops, hop_entries=(edges,) * hops,
        kept_rows=max(1, int(share * nodes)), all_rows=share == 1,
        kept_hops=tuple(range(hops + 1)), threads=THREADS,
    ).on_disk()  # fmt: skip


def plan_on(work, hosts, network, memory=MEMORY):
    """Plan for hosts with a rank each."""
    spare = HOST_MEMORY - MEMORY
    machines = Machines(
        hosts, hosts, memory, rates_with(network), host_memory=memory + spare
    )
    return make_ranks_plan(work, machines, RankResult(stored=True, shared=True))


def fewest_hosts(work, begin):
    """Double the hosts until the work fits; None if it never does."""
    hosts = begin
    while hosts <= MOST_RANKS:
        try:
            plan_on(work, hosts, None)
            return hosts
        except MemoryTooSmall:
            hosts *= 2
    return None


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def line_of(work, hosts, network):
    """Plan, and print it in a line of the table.

    What does not fit is planned for hosts with just enough memory.
    """
    fits = "yes"
    try:
        plan = plan_on(work, hosts, network)
    except MemoryTooSmall as error:
        fits = "no"
        plan = plan_on(work, hosts, network, error.enough)
    chosen, split = plan.chosen, plan.split
    if not isinstance(split, str):
        split = f"mesh {split[0]} x {split[1]}"
    return row(
        str(hosts), network, split, fits, format_bytes(chosen.peak_bytes),
        format_bytes(max(chosen.sent_bytes)), format_bytes(chosen.edge_bytes),
        format_time(chosen.times.network), format_time(chosen.seconds),
    )  # fmt: skip


def show(name, hops, share, hosts, networks):
    """Print the table of a graph."""
    work = make_work(name, hops, share)
    print(
        f"\n## {name}: {work.num_nodes:,} nodes, {work.num_edges:,} edges, "
        f"{work.num_feats} columns of {work.kind}, K={hops}, rows of "
        f"{work.kept_rows:,} nodes kept"
    )
    if work.num_nodes > MOST_IDS:
        print(
            "planned with 32-bit unsigned ids; such a graph cannot be computed "
            "yet (ids are 31 bits)"
        )
    print()
    print(row("hosts", "network", "split", "fits", "peak per host",
              "sent per host", "edges read per host", "time of the network",
              "time"))  # fmt: skip
    print("| ---: " * 9 + "|")
    for count in hosts:
        for network in networks:
            print(line_of(work, count, network))
    most = fewest_hosts(work, hosts[-1])
    if most is None:
        print(f"\nmore than {MOST_RANKS} hosts of this memory would be needed")
    elif most > hosts[-1]:
        print(line_of(work, most, networks[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--networks", nargs="+", default=["10Gbit", "100Gbit"])
    args = parser.parse_args()
    print("# Estimates, not measurements")
    print(
        f"hosts of {HOST_MEMORY / 1e9:.0f} GB with one rank each, which may "
        f"take {MEMORY / 1e9:.0f} GB; per host and second: "
        f"disk {rates_with(None).disk / 1e9:.0f} GB, gathering rows "
        f"{rates_with(None).gather / 1e9:.0f} GB; edges from any node; the "
        f"result is one store that all hosts see. Where the memory is not "
        f"enough, hosts that have just enough are planned"
    )
    for name in GRAPHS:
        show(name, args.hops, 1, args.hosts, args.networks)
    show("web graph", args.hops, 0.01, args.hosts, args.networks)


if __name__ == "__main__":
    main()
