"""Filters are named by what they are, however they are computed."""

import dgl
import pytest
import torch
from dgl import function as fn
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    Function,
    Layers,
    features,
    gcn,
    random_graph,
    weighted_graph,
)

from dgl_lc import lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def aggregated(apply, *graphs):
    """The filters of a model that aggregates once, as the report has them."""
    model = Function(
        lambda self, *args: apply(*args[:-1], self.fc(args[-1]).relu()),
        fc=nn.Linear(IN, HID),
    )
    graphs = graphs or (weighted_graph(),)
    for g in graphs:
        if "w" in g.edata:
            g.edata["w"] = g.edata["w"].double()
    lc = lc_transform(model, *graphs, features())
    return lc.report.filters


def summed(g, h):
    return dgl.ops.copy_u_sum(g, h)


@pytest.mark.parametrize(
    ("apply", "name"),
    [
        (summed, "sum over in-neighbours"),
        (dgl.ops.copy_u_mean, "mean over in-neighbours"),
        (
            lambda g, h: summed(g, h) / g.in_degrees().to(h).view(-1, 1),
            "mean over in-neighbours",
        ),
        (
            lambda g, h: dgl.ops.u_mul_e_sum(g, h, g.edata["w"]),
            "sum over in-neighbours, weighted by w",
        ),
        (
            lambda g, h: dgl.ops.u_mul_e_sum(g, h, g.edata["w"] ** 2),
            "sum over in-neighbours, with edge weights computed from w",
        ),
        (
            lambda g, h: dgl.ops.u_div_e_sum(g, h, g.edata["w"]),
            "sum over in-neighbours, divided by w",
        ),
        (
            lambda g, h: summed(dgl.reverse(g), h),
            "sum over in-neighbours on the reversed graph",
        ),
        (
            lambda g, h: summed(dgl.add_self_loop(dgl.remove_self_loop(g)), h),
            "sum over in-neighbours, with self-loops",
        ),
        (
            lambda g, h: (
                (summed(g, h) + h) / (g.in_degrees().to(h).view(-1, 1) + 1)
            ),
            "mean over in-neighbours and the node itself",
        ),
        (
            lambda g, h: (
                summed(g, h) * torch.log(g.in_degrees() + 1.0)[:, None]
            ),
            "sum over in-neighbours, with factors of targets",
        ),
    ],
)
def test_a_filter_has_a_name(apply, name):
    (line,) = aggregated(apply)
    assert line.split(" = ")[1] == name


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        ("both", "GraphConv both"), ("left", "GraphConv left"),
        ("right", "mean over in-neighbours"),
        ("none", "sum over in-neighbours"),
    ],
)  # fmt: skip
def test_layers_of_dgl_have_names(norm, name):
    model = Layers(*gcn(norm=norm))
    lc = lc_transform(model, random_graph(), features())
    assert lc.report.filters == [f"S = {name}"]
    assert name in str(lc.report)


def test_norms_on_edges_have_the_same_name():
    def apply(g, h):
        with g.local_scope():
            g.ndata["n"] = g.in_degrees().to(h) ** -0.5
            g.ndata["m"] = g.out_degrees().to(h).clamp(min=1) ** -0.5
            g.apply_edges(fn.u_mul_v("m", "n", "w"))
            return dgl.ops.u_mul_e_sum(g, h, g.edata["w"])

    assert aggregated(apply) == ["S = GraphConv both"]


def test_graphs_are_named_if_there_are_several():
    lines = aggregated(
        lambda a, b, h: summed(a, h) + summed(b, h),
        random_graph(), random_graph(seed=3),
    )  # fmt: skip
    assert len(lines) == 2
    assert all("sum over in-neighbours, of " in line for line in lines)


def test_a_polynomial_is_written_with_names():
    model = Function(
        lambda self, g, x: self.conv(g, self.fc(x).relu()),
        fc=nn.Linear(IN, OUT), conv=dglnn.APPNPConv(2, 0.1),
    )  # fmt: skip
    lc = lc_transform(model, random_graph(), features(), fold=True)
    assert lc.report.filters == [
        "S = GraphConv both", "P = 0.1 I + 0.09 S + 0.81 S²",
    ]  # fmt: skip
    assert "folded: 1" in str(lc.report)
    plain = lc_transform(model, random_graph(), features())
    assert "folded" not in str(plain.report)


def test_static_sums_are_not_said_to_be_folded():
    model = Layers(dglnn.SAGEConv(IN, HID, "gcn"), dglnn.SGConv(HID, OUT, 2))
    lc = lc_transform(model, random_graph(), features())
    assert "folded" not in str(lc.report)
