"""Precompute the inputs of an automatic LC version from a graph on disk.

    python benchmarks/transform_on_disk.py [--nodes 2000000] [--edges 20000000]
        [--columns 32] [--memory 1GiB] [--model gcn] [--folder folder]

Edges and features are drawn at random and written to a folder. The model is
traced on a sample of 1000 nodes. ``gcn`` has three layers on a graph to which
its forward adds self-loops, which is one step of the engine; ``by-hand`` scales
rows by powers of degrees that the engine does not have, in nine steps on disk.
Prints the inputs, the steps, and the most memory that the precomputation took.
"""

import argparse
import tempfile
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # makes DGL importable
import dgl
import numpy as np
import torch
from dgl.nn import GraphConv
from torch import nn

from dgl_lc import lc_transform
from dgl_lc._common.bytes import format_bytes
from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.testing.peak_memory import peak_memory

#: Rows that are drawn at a time.
_ROWS = 1 << 18


class GCN(nn.Module):
    """Three layers, on the graph with a self-loop for each node."""

    def __init__(self, columns):
        super().__init__()
        self.convs = nn.ModuleList(
            [GraphConv(columns, 64), GraphConv(64, 64), GraphConv(64, 16)]
        )

    def forward(self, g, x):
        g = dgl.add_self_loop(g)
        for conv in self.convs[:-1]:
            x = conv(g, x).relu()
        return self.convs[-1](g, x)


class ByHand(nn.Module):
    """Three sums over neighbours, scaled by a power of the degrees."""

    def __init__(self, columns):
        super().__init__()
        self.fcs = nn.ModuleList(
            [nn.Linear(columns, 64), nn.Linear(64, 64), nn.Linear(64, 16)]
        )

    def forward(self, g, x):
        scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
        for fc in self.fcs:
            x = dgl.ops.copy_u_sum(g, fc(x).relu() * scale) * scale
        return x


MODELS = {"gcn": GCN, "by-hand": ByHand}


def write_edges(path, num_nodes, num_edges, rng):
    """Draw edges: every node is a target equally often, sources are skewed."""
    made = np.lib.format.open_memmap(path, "w+", np.int32, (num_edges, 2))
    for low in range(0, num_edges, _ROWS):
        part = made[low : low + _ROWS]
        part[:, 0] = num_nodes * rng.random(len(part)) ** 2
        part[:, 1] = rng.integers(0, num_nodes, len(part))
    made.flush()


def write_rows(path, num_nodes, columns, rng):
    """Draw features."""
    shape = (num_nodes, columns)
    made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for low in range(0, num_nodes, _ROWS):
        part = made[low : low + _ROWS]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    made.flush()


def parse_args(arguments=None):
    """Read the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--model", choices=MODELS, default="gcn")
    parser.add_argument("--folder", help="where to write; default: temporary")
    return parser.parse_args(arguments)


def measure(args, folder):
    """Write a graph and features, and precompute the inputs of a model."""
    rng = np.random.default_rng(0)
    write_edges(folder / "edges.npy", args.nodes, args.edges, rng)
    graph = build_disk_graph(
        folder / "edges.npy", args.nodes, folder / "graph", memory=args.memory
    )
    write_rows(folder / "x.npy", args.nodes, args.columns, rng)
    features = write_features(
        folder / "x.npy", folder / "features", memory=args.memory
    )
    torch.manual_seed(0)
    model = MODELS[args.model](args.columns)
    lc = lc_transform(
        model, graph.sample(1000), features.rows(range(min(1000, args.nodes)))
    )
    print(lc.report)
    peak = peak_memory(
        lambda: lc.precompute(
            graph, features, memory=args.memory, out=folder / "inputs"
        ),
        maps_files=True,
    )
    size = sum(f.stat().st_size for f in (folder / "inputs").rglob("*.npy"))
    print(
        f"{args.model}: {args.nodes:,} nodes, {args.edges:,} edges, "
        f"{args.columns} columns, memory={args.memory}: at most "
        f"{format_bytes(peak)} taken, {format_bytes(size)} of inputs"
    )


def main():
    """Run the benchmark."""
    args = parse_args()
    if args.folder:
        folder = Path(args.folder)
        folder.mkdir(parents=True, exist_ok=True)
        measure(args, folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(args, Path(folder))


if __name__ == "__main__":
    main()
