"""Measure how long lc_transform takes, and what its precomputation costs.

    python benchmarks/transform.py [--runs 3] [--arxiv FILE] [--only drift]

The first table has the seconds to transform models of 3 layers and GCNII of 32
layers. The second one compares precomputing the inputs of an automatic LC
version with computing the same hops with block_aggregate, on one graph, and
checks that both are equal. At last, the drift of a JKNet is measured on
ogbn-arxiv's graph, before training.
"""

import argparse
import time
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # makes DGL importable
import dgl
import torch
import torch.nn.functional as F
from dgl.nn import APPNPConv, GCN2Conv, GraphConv, SAGEConv
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.data import power_law_graph
from dgl_lc.data.files import load_npz
from dgl_lc.experiments import originals
from dgl_lc.precompute import block_aggregate


class GCNII(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats, num_layers):
        super().__init__()
        self.fc_in = nn.Linear(in_feats, hid_feats)
        self.convs = nn.ModuleList(
            GCN2Conv(hid_feats, layer + 1, alpha=0.1, lambda_=0.5)
            for layer in range(num_layers)
        )
        self.fc_out = nn.Linear(hid_feats, out_feats)

    def forward(self, g, x):
        first = h = F.relu(self.fc_in(F.dropout(x, 0.5, self.training)))
        for conv in self.convs:
            h = F.dropout(h, 0.5, self.training)
            h = F.relu(conv(g, h, first))
        return self.fc_out(h)


class SAGE(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.convs = nn.ModuleList(
            SAGEConv(width, out, "mean")
            for width, out in (
                (in_feats, hid_feats), (hid_feats, hid_feats),
                (hid_feats, out_feats),
            )
        )  # fmt: skip
        self.norm = nn.BatchNorm1d(hid_feats)

    def forward(self, g, x):
        for conv in self.convs[:-1]:
            x = F.relu(self.norm(conv(g, x)))
        return self.convs[-1](g, x)


class APPNP(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(in_feats, hid_feats), nn.ReLU(),
            nn.Linear(hid_feats, out_feats),
        )  # fmt: skip
        self.propagate = APPNPConv(10, 0.1)

    def forward(self, g, x):
        return self.propagate(g, self.mlp(x))


class JKNet(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.conv1 = GraphConv(in_feats, hid_feats)
        self.conv2 = GraphConv(hid_feats, hid_feats)
        self.out = nn.Linear(2 * hid_feats, out_feats)

    def forward(self, g, x):
        h1 = F.relu(self.conv1(g, x))
        h2 = F.relu(self.conv2(g, h1))
        return self.out(torch.cat([h1, h2], dim=1))


def best_of(runs, call):
    """Return the minimum seconds of some runs, and the last result."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        found = call()
        times.append(time.perf_counter() - start)
    return min(times), found


def bench_times(g, x, runs):
    """Print the seconds to transform each model."""
    print("\n## Seconds to transform", flush=True)
    sizes = x.shape[1], 256, 40
    models = {
        "GCN, 3 layers": originals.GCN(*sizes, num_layers=3, dropout=0.5),
        "JKNet, 3 layers": originals.JKNet(*sizes, num_layers=3, dropout=0.5),
        "GraphSAGE mean, 3 layers": SAGE(*sizes),
        "GPRGNN, K=5": originals.GPRGNN(*sizes, K=5),
        "APPNP, K=10": APPNP(*sizes),
        "GCNII, 32 layers": GCNII(*sizes, num_layers=32),
    }
    for name, model in models.items():
        seconds, lc = best_of(runs, lambda m=model: lc_transform(m, g, x))
        print(
            f"{name:25} {seconds:6.2f} s, {len(lc.inputs)} inputs", flush=True
        )


def bench_precompute(g, x, runs):
    """Print the seconds to precompute the inputs of each LC version."""
    print(
        f"\n## Precomputation: {g.num_nodes():,} nodes, {g.num_edges():,} "
        f"edges, {x.shape[1]} columns, minimum of {runs} runs",
        flush=True,
    )
    sizes = x.shape[1], 256, 40
    cases = {
        "GCN, 2 layers": (originals.GCN(*sizes), [2]),
        "JKNet, 3 layers": (originals.JKNet(*sizes, num_layers=3), [1, 2, 3]),
        "GPRGNN, K=5": (originals.GPRGNN(*sizes, K=5), [0, 1, 2, 3, 4, 5]),
    }
    for name, (model, hops) in cases.items():
        lc = lc_transform(model, g, x)

        def ours(lc=lc):
            return lc.precompute(g, x, progress=False)

        def engine(hops=hops):
            return block_aggregate(
                g, x, hops[-1], hops=hops, self_loop=False, progress=False
            )

        ours(), engine()
        pairs = [(*best_of(1, ours), *best_of(1, engine)) for _ in range(runs)]
        _, inputs, _, expected = pairs[-1]
        by_size = sorted(inputs, key=lambda rows: rows.norm().item())
        wanted = sorted(expected, key=lambda rows: rows.norm().item())
        for one, other in zip(by_size, wanted, strict=True):
            torch.testing.assert_close(one, other)
        mine, peer = min(p[0] for p in pairs), min(p[2] for p in pairs)
        print(
            f"{name:25} {mine:.3f} s, block_aggregate {peer:.3f} s: "
            f"{mine / peer:.2f}x",
            flush=True,
        )


def show_drift(file):
    """Print how much the LC version of a JKNet differs from it."""
    print("\n## Drift on ogbn-arxiv's graph", flush=True)
    if not file.exists():
        print(f"skipped, {file} does not exist")
        return
    data = load_npz(file, add_reverse=True)
    g = dgl.add_self_loop(data.graph)
    torch.manual_seed(0)
    model = JKNet(data.num_feats, 64, data.num_classes)
    # A new bias is 0, and would make no difference.
    nn.init.normal_(model.conv1.bias, std=0.1)
    lc = lc_transform(model, g, data.feat)
    start = time.perf_counter()
    print(lc.report.drift)
    print(f"measured in {time.perf_counter() - start:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=3,
        help="number of timed runs of each (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=2,
        help="number of threads (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--nodes", type=int, default=200_000,
        help="nodes of the generated graph (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--arxiv", type=Path, help="npz file with ogbn-arxiv's edges "
        "(default: ../shared/data/ogbn_arxiv.npz beside the repository)",
        default=Path(__file__).parents[2] / "shared/data/ogbn_arxiv.npz",
    )  # fmt: skip
    tables = ("times", "precompute", "drift")
    parser.add_argument(
        "--only", choices=tables, help="the only table to be printed"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.only != "drift":
        g = dgl.add_self_loop(power_law_graph(args.nodes, 10 * args.nodes))
        x = torch.randn(args.nodes, 128)
        if args.only != "precompute":
            bench_times(g, x, args.runs)
        if args.only != "times":
            bench_precompute(g, x, args.runs)
    if args.only in (None, "drift"):
        show_drift(args.arxiv)


if __name__ == "__main__":
    main()
