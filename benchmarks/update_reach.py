"""Measures how many rows of hop features change when edges are added.

    python benchmarks/update_reach.py [--nodes 1000000] [--arxiv FILE]

Random edges are added to a power-law graph and to ogbn-arxiv's graph, both
directions of each. The table has the share of the nodes whose rows change,
in any hop up to K, degrees included. It decides whether updating a store is
worth more than computing it again.
"""

import argparse
from pathlib import Path

import dgl
import numpy as np
import torch

from dgl_lc.data import power_law_graph
from dgl_lc.hops import FilterSpec
from dgl_lc.precompute import find_reach

LAST = 3


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--nodes", type=int, default=1_000_000,
        help="nodes of the power-law graph (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--arxiv", type=Path, help="npz file with ogbn-arxiv's edges "
        "(default: ../shared/data/ogbn_arxiv.npz beside the repository)",
        default=Path(__file__).parents[2] / "shared/data/ogbn_arxiv.npz",
    )  # fmt: skip
    parser.add_argument("--norm", default="both", help="norm of the filter")
    return parser.parse_args()


def arxiv_graph(file: Path) -> dgl.DGLGraph:
    """Read ogbn-arxiv's graph, in both directions."""
    with np.load(file, allow_pickle=False) as data:
        edges = torch.from_numpy(data["edges"].astype(np.int64))
        graph = dgl.graph(tuple(edges), num_nodes=int(data["num_nodes"]))
    return dgl.add_reverse_edges(graph)


def add_random_edges(
    graph: dgl.DGLGraph, count: int, seed: int = 0
) -> dgl.DGLGraph:
    """Add edges between random nodes, in both directions."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(graph.num_nodes(), (2, count), generator=generator)
    both = torch.cat([ends, ends.flip(0)], dim=1).to(graph.idtype)
    return dgl.add_edges(graph, both[0], both[1])


def print_reach(name: str, graph: dgl.DGLGraph, norm: str) -> None:
    """Print the share of rows that change, for K = 1 to LAST."""
    n, m = graph.num_nodes(), graph.num_edges() // 2
    print(f"\n{name}: {n:,} nodes, {m:,} edges in both directions")
    header = ["added edges", *(f"K={k}" for k in range(1, LAST + 1))]
    print(f"| {' | '.join(header)} |")
    print("| --- " * (LAST + 1) + "|")
    for text, count in (
        ("1", 1), ("100", 100), ("0.1 %", m // 1000), ("1 %", m // 100)
    ):  # fmt: skip
        reach = find_reach(
            graph, add_random_edges(graph, count), range(LAST + 1),
            FilterSpec(norm),
        )  # fmt: skip
        # With self-loops a row that changed at a hop changes at the next.
        shares = [f"{rows / n:.3%}" for rows in reach.hop_rows[1:]]
        print(f"| {text} | " + " | ".join(shares) + " |", flush=True)


def main(args: argparse.Namespace) -> None:
    graph = power_law_graph(args.nodes, 16 * args.nodes)
    print_reach("power-law graph", graph, args.norm)
    if args.arxiv.exists():
        print_reach("ogbn-arxiv", arxiv_graph(args.arxiv), args.norm)
    else:
        print(f"\nogbn-arxiv: skipped, {args.arxiv} does not exist")


if __name__ == "__main__":
    main(parse_args())
