"""Measure how long lc_transform takes, and what its precomputation costs.

    python benchmarks/transform.py [--runs 3] [--only drift]

The first table has the seconds to transform models of 3 layers and GCNII of 32
layers. The second one compares precomputing the inputs of an automatic LC
version with computing the same hops with block_aggregate, on one graph, and
checks that both are equal. At last, the drift of a JKNet is measured on
ogbn-arxiv's graph, before training.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial

import dgl_lc  # isort: skip  # noqa: F401  # makes DGL importable
import dgl
import torch
import torch.nn.functional as F
from dgl.nn import APPNPConv, GCN2Conv, GraphConv, SAGEConv
from measure import fastest, seconds_of
from section import (
    OURS,
    Options,
    Row,
    Section,
    add_options,
    format_value,
    options_of,
    print_rows,
    row,
    value,
)
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


#: Nodes of the generated graph, by the size of the run; it has ten times as
#: many edges, and self-loops.
NODES = {"tiny": 500, "default": 200_000, "all": 200_000}
COLUMNS = 128


def make_graph(options: Options) -> tuple[dgl.DGLGraph, torch.Tensor]:
    """Return a generated graph and features."""
    torch.manual_seed(0)
    nodes = NODES[options.size]
    graph = dgl.add_self_loop(power_law_graph(nodes, 10 * nodes))
    return graph, torch.randn(nodes, COLUMNS)


def times(options: Options) -> Iterator[Row]:
    """Yield the seconds to transform each model."""
    g, x = make_graph(options)
    sizes = COLUMNS, 256, 40
    models = {
        "GCN, 3 layers": originals.GCN(*sizes, num_layers=3, dropout=0.5),
        "JKNet, 3 layers": originals.JKNet(*sizes, num_layers=3, dropout=0.5),
        "GraphSAGE mean, 3 layers": SAGE(*sizes),
        "GPRGNN, K=5": originals.GPRGNN(*sizes, K=5),
        "APPNP, K=10": APPNP(*sizes),
        "GCNII, 32 layers": GCNII(*sizes, num_layers=32),
    }
    if options.size == "tiny":
        del models["GCNII, 32 layers"]
    for name, model in models.items():
        inputs = len(lc_transform(model, g, x).inputs)
        seconds = min(
            seconds_of(partial(lc_transform, model, g, x))
            for _ in range(options.runs)
        )
        yield row(
            name, OURS, "transform", seconds, "s", runs=options.runs,
            inputs=inputs,
        )  # fmt: skip


def times_table(rows: list[Row]) -> str:
    """Make a table of the seconds, and the number of inputs."""
    lines = ["| model | seconds | inputs |", "| --- | --- | --- |"]
    for r in rows:
        lines.append(
            f"| {r['case']} | {format_value(r['value'], r['unit'])} | "
            f"{r['inputs']} |"
        )
    return "\n".join(lines)


def precompute(options: Options) -> Iterator[Row]:
    """Yield the seconds to precompute the inputs of each LC version."""
    g, x = make_graph(options)
    sizes = COLUMNS, 256, 40
    cases = {
        "GCN, 2 layers": (originals.GCN(*sizes), [2]),
        "JKNet, 3 layers": (originals.JKNet(*sizes, num_layers=3), [1, 2, 3]),
        "GPRGNN, K=5": (originals.GPRGNN(*sizes, K=5), [0, 1, 2, 3, 4, 5]),
    }
    for case, (model, hops) in cases.items():
        lc = lc_transform(model, g, x)
        calls = {
            "lc.precompute": partial(lc.precompute, g, x, progress=False),
            "block_aggregate": partial(
                block_aggregate, g, x, hops[-1], hops=hops, self_loop=False,
                progress=False,
            ),
        }  # fmt: skip
        expected: list[torch.Tensor] | None = None
        for name, call in calls.items():
            seconds, found = fastest(call, options.runs, by_size)
            for one, other in zip(found, expected or found, strict=True):
                torch.testing.assert_close(one, other)
            expected = found
            yield row(case, name, "precompute", seconds, "s", runs=options.runs)


def by_size(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return inputs in an order that does not depend on their names."""
    return sorted(inputs, key=lambda rows: rows.norm().item())


def precompute_table(rows: list[Row]) -> str:
    """Make a table of the seconds of both, and their ratio."""
    names = list(dict.fromkeys(r["name"] for r in rows))
    lines = [f"| | {' | '.join(names)} | ratio |", "| --- " * 4 + "|"]
    for case in dict.fromkeys(r["case"] for r in rows):
        seconds = [value(rows, case=case, name=name) for name in names]
        cells = " | ".join(format_value(s, "s") for s in seconds)
        lines.append(f"| {case} | {cells} | {seconds[0] / seconds[1]:.2f} |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "transform": Section(
        times, {"transform": times_table}, minutes=1, only_all=True
    ),
    "transform_precompute": Section(
        precompute,
        {"transform-precompute": precompute_table},
        minutes=1,
        only_all=True,
    ),
}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("times", "precompute", "drift")
    parser.add_argument(
        "--only", choices=tables, help="the only table to be printed"
    )
    add_options(parser)
    args = parser.parse_args()
    options = options_of(args)
    torch.set_num_threads(options.threads)
    if args.only in (None, "times"):
        print(times_table(print_rows(times(options))))
    if args.only in (None, "precompute"):
        print(precompute_table(print_rows(precompute(options))))
    if args.only in (None, "drift"):
        show_drift(options.data / "ogbn_arxiv.npz")


if __name__ == "__main__":
    main()
