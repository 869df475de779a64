"""Edge features of derived graphs."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import (
    IN,
    OUT,
    features,
    model_of,
    weighted_graph,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_edge_features_assigned_before_a_graph_is_derived():
    def body(self, g, x):
        with g.local_scope():
            g.edata["w"] = 3 * g.edata["w"]
            looped = dgl.add_self_loop(g, edge_feat_names=["w"])
            return dgl.ops.u_mul_e_sum(
                looped, F.relu(self.fc(x)), looped.edata["w"]
            )

    with pytest.raises(LCError, match="edge features made in forward"):
        lc_transform(model_of(body), weighted_graph(), features())


def test_edge_features_of_a_derived_graph():
    def body(self, g, x):
        g = dgl.add_self_loop(g=g, edge_feat_names=["w"], fill_data=2.0)
        return dgl.ops.u_mul_e_sum(g, self.fc(x), g.edata["w"])

    model = model_of(body, fc=nn.Linear(IN, OUT, bias=False))
    g, x = weighted_graph(), features()
    lc = lc_transform(model, g, x)
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


def kept(g):
    return g.edata["w"] > 0.5


BY_IDS = {
    "mask": lambda g: dgl.edge_subgraph(g, kept(g), relabel_nodes=False),
    "ids": lambda g: g.edge_subgraph(
        kept(g).nonzero().flatten(), relabel_nodes=False, store_ids=False
    ),
    "removed": lambda g: dgl.remove_edges(g, (~kept(g)).nonzero().flatten()),
    "added": lambda g: dgl.add_edges(g, *g.edges()[::-1]),
    "looped": lambda g: dgl.add_self_loop(
        dgl.edge_subgraph(graph=g, edges=kept(g), relabel_nodes=False)
    ),
    "same ends": lambda g: dgl.graph(g.edges(), num_nodes=g.num_nodes()),
    "swapped ends": lambda g: dgl.graph(
        g.edges()[::-1], num_nodes=g.num_nodes()
    ),
    "some ends": lambda g: dgl.graph(
        tuple(end[kept(g)] for end in g.edges()), num_nodes=g.num_nodes()
    ),
}


@pytest.mark.parametrize("name", BY_IDS)
@pytest.mark.parametrize("normed", [False, True])
def test_graphs_derived_by_constant_ids_of_edges(name, normed):
    def body(self, g, x):
        made = BY_IDS[name](g)
        h = dgl.ops.copy_u_sum(made, self.fc(x))
        if normed:
            h = h / made.in_degrees().clamp(min=1).unsqueeze(1)
        return dgl.ops.copy_u_sum(made, h) - dgl.ops.copy_u_sum(g, h)

    model = model_of(body, fc=nn.Linear(IN, OUT, bias=False))
    for g in (weighted_graph(), dgl.reverse(weighted_graph(), copy_edata=True)):
        x = features()
        lc = lc_transform(model, g, x)
        assert lc.report.exact
        found = lc.module(*lc.precompute(g, x))
        torch.testing.assert_close(found, model(g, x))
    other = weighted_graph()
    other.edata["w"] = other.edata["w"].flip(0)
    found = lc.module(*lc.precompute(other, x))
    torch.testing.assert_close(found, model(other, x))


def test_a_graph_of_all_ends_is_the_same_graph():
    def body(self, g, x):
        h = dgl.ops.copy_u_sum(BY_IDS["same ends"](g), self.fc(x))
        return dgl.ops.copy_u_sum(g, h)

    lc = lc_transform(model_of(body), weighted_graph(), features())
    assert tuple(map(str, lc.inputs)) == ("S² x",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda g: dgl.edge_subgraph(g, kept(g)),
            "relabel_nodes=False",
        ),
        (
            lambda g: dgl.edge_subgraph(
                g, torch.rand(g.num_edges()) > 0.5, relabel_nodes=False
            ),
            "built or sampled in forward",
        ),
        (
            lambda g: dgl.graph(
                (torch.randperm(g.num_nodes()), torch.arange(g.num_nodes()))
            ),
            "built or sampled in forward",
        ),
    ],
)
def test_other_graphs_of_some_edges_are_refused(make, words):
    def body(self, g, x):
        return dgl.ops.copy_u_sum(make(g), self.fc(x))

    with pytest.raises(LCError, match=words) as caught:
        lc_transform(model_of(body), weighted_graph(), features())
    assert "LC008" in [problem.code for problem in caught.value.problems]
