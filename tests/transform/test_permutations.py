"""Graphs on which the LC version and the model are compared as they are."""

import dgl
import pytest
import torch
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


def checked(model, g=None, **options):
    g = random_graph() if g is None else g
    return lc_transform(model, g, features(), **options).report.checked


def two(apply):
    def body(self, g, x):
        return self.b(apply(g, torch.relu(self.a(x))))

    return Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT))


def test_a_permutation_graph_is_the_first_choice():
    assert checked(Layers(*gcn())).endswith("equal on a permutation graph")


def test_weights_are_one_on_the_permutation_graph():
    g = weighted_graph()
    g.edata["w"] = g.edata["w"].double()
    found = checked(
        two(lambda g, h: dgl.ops.u_mul_e_sum(g, h, g.edata["w"])), g
    )
    assert "equal on a permutation graph with weights of 1" in found
    assert "not compared" not in found


def test_self_loops_are_compared_on_self_loops():
    found = checked(Layers(*(dglnn.SAGEConv(IN, IN, "gcn") for _ in "ab")))
    assert "equal on a graph of self-loops" in found
    assert "not compared on a permutation graph: a filter adds self" in found


def test_sums_with_self_loops_are_compared_without_edges():
    found = checked(
        two(lambda g, h: dgl.ops.copy_u_sum(dgl.add_self_loop(g), h))
    )
    assert "equal on a graph without edges" in found
    assert "not compared on a permutation graph: a filter adds self" in found


def test_what_can_not_be_compared_is_said():
    found = checked(
        two(lambda g, h: dgl.ops.copy_u_sum(g, h)
            / (g.in_degrees().to(h)[:, None] + 2))
    )  # fmt: skip
    assert "equal on a random graph if made linear; not compared" in found
    assert "a permutation graph: a filter has factors of nodes" in found


def test_a_branch_that_is_not_taken_there_is_said():
    def apply(g, h):
        if (g.in_degrees() > 1).any():
            return dgl.ops.copy_u_sum(g, h)
        return h

    found = checked(two(apply))
    assert "not compared on a permutation graph: " in found
    assert "equal on a permutation graph" not in found


def test_a_folded_sum_is_said():
    model = Function(
        lambda self, g, x: self.conv(g, self.fc(x).relu()),
        fc=nn.Linear(IN, OUT), conv=dglnn.APPNPConv(2, 0.1),
    )  # fmt: skip
    found = checked(model, fold=True)
    assert "equal on a graph of self-loops" in found
    assert "not compared on a permutation graph: the folded sum" in found
