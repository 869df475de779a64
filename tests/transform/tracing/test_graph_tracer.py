"""Edge features of derived graphs."""

import sys
import types

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
    random_graph,
    transform_body,
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


def by_pair(g):
    return g.has_edges_between(0, 1)


def by_loops(g):
    nodes = g.nodes()
    return bool(g.has_edges_between(nodes, nodes).any())


def by_degree(g):
    return g.in_degrees(3) > 2


@pytest.mark.parametrize("ask", [by_pair, by_loops, by_degree])
def test_branches_on_some_edges_are_checked_on_every_graph(ask):
    """One probe may take another branch, whose operations are the same."""

    def body(self, g, x):
        factor = 2.0 if ask(g) else 1.0
        return self.conv(g, self.fc(x).relu()) * factor

    ring = torch.arange(60)
    far = dgl.graph((ring, ring.roll(30)))
    g = dgl.add_self_loop(dgl.graph(([0] * 9, [1] * 5 + [3] * 4), num_nodes=60))
    for mine, other in ((g, far), (far, g)):
        assert ask(mine) != ask(other)
        with pytest.raises(LCError, match=r"LC018|LC022"):
            lc_transform(model_of(body), mine, features()).precompute(
                other, features()
            )


def test_a_branch_on_a_tensor_that_is_not_followed_is_refused():
    def body(self, g, x):
        # Not by the methods of a graph: this tensor is a constant.
        source, _, _ = g._graph.edges(0, "eid")
        h = self.conv(g, self.fc(x).relu())
        return 2 * h if bool((source >= 0).all()) else h

    with pytest.raises(LCError, match="decides what the model") as caught:
        lc_transform(model_of(body), random_graph(), features())
    assert caught.value.code == "LC022"
    assert caught.value.problems[0].text.startswith("return 2 * h if")


def test_functions_are_followed_under_the_names_of_the_users_modules(
    monkeypatch,
):
    """``from dgl import reverse`` is another name of the same function."""
    user = types.ModuleType("module_of_a_user")
    user.reverse = dgl.reverse
    monkeypatch.setitem(sys.modules, "module_of_a_user", user)

    def inputs(of):
        lc = transform_body(
            lambda self, g, x: self.conv(of.reverse(g), self.fc(x))
        )
        return list(map(str, lc.inputs))

    assert inputs(user) == inputs(dgl)
    assert user.reverse is dgl.reverse
