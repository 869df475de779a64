"""Models that were refused, or refused for a cause that was not theirs."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from torch.nn.utils import prune
from transform.zoo import IN, OUT, Function, features, random_graph, randomised

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")

G = random_graph()


class ReadsGlobalGraph(nn.Module):
    """Its constructor reads a global graph, and forward does not."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(int(G.in_degrees().max()) + 1, OUT)
        self.fc = nn.Linear(IN, OUT)
        self.num_nodes = G.num_nodes()

    def forward(self, g, x):
        h = dgl.ops.copy_u_mean(g, self.fc(x))
        return h + self.table(g.in_degrees())


class Reshapes(ReadsGlobalGraph):
    def forward(self, g, x):
        return dgl.ops.copy_u_sum(g, self.fc(x).view(self.num_nodes, -1))


def test_constructors_may_read_a_global_graph():
    lc = lc_transform(ReadsGlobalGraph(), G, features())
    assert [*map(str, lc.inputs)] == ["S x", "in-degree"]


def test_a_constructor_is_not_blamed_for_what_forward_does():
    with pytest.raises(LCError) as caught:
        lc_transform(Reshapes(), G, features())
    assert caught.value.code == "LC026"
    assert "is invalid for input of size" in caught.value.reason


@pytest.mark.parametrize("of", ["fc", "conv"])
def test_pruned_weights_stay_pruned(of):
    def body(self, g, x):
        return self.conv(g, self.fc(x))

    model = Function(
        body, fc=nn.Linear(IN, 5, bias=False), conv=dglnn.GraphConv(5, OUT)
    )
    randomised(model)
    prune.l1_unstructured(getattr(model, of), "weight", 0.4)
    x = features()
    lc = lc_transform(model, G, x)
    assert lc.report.exact
    assert list(lc.module.state_dict()) == list(model.state_dict())
    inputs = lc.precompute(G, x)
    part = getattr(model, of)
    for _ in range(2):
        torch.testing.assert_close(lc.module(*inputs), model(G, x))
        lc.module(*inputs).sum().backward()
        pruned = part.weight_mask == 0
        assert pruned.any()
        assert not part.weight_orig.grad[pruned].any()
        with torch.no_grad():
            part.weight_orig.add_(1)


def weighted(self, g, x, given):
    return dgl.ops.u_mul_e_sum(g, self.fc(x), given)


def gated(self, g, given, x, more):
    h = dgl.ops.u_mul_e_sum(g, self.fc(x), given)
    return h * dgl.ops.copy_e_sum(g, more)


def cycle():
    nodes = torch.arange(60)
    return dgl.graph((nodes, (7 * nodes + 3) % 60))


def test_as_many_edges_as_nodes():
    g, x = cycle(), features()
    given = torch.rand(60, 1) + 0.5
    model = Function(weighted, fc=nn.Linear(IN, OUT, bias=False))
    lc = lc_transform(model, g, x, given)
    assert lc.report.exact
    found = lc.module(*lc.precompute(g, x, given))
    torch.testing.assert_close(found, model(g, x, given))
    other, more = random_graph(), torch.rand(random_graph().num_edges(), 1)
    found = lc.module(*lc.precompute(other, x, more))
    torch.testing.assert_close(found, model(other, x, more))


def test_several_inputs_of_edges_with_as_many_edges_as_nodes():
    g, x = cycle(), features()
    given, more = torch.rand(2, 60, 1) + 0.5
    model = Function(gated, fc=nn.Linear(IN, OUT, bias=False))
    lc = lc_transform(model, g, given, x, more)
    found = lc.module(*lc.precompute(g, given, x, more))
    torch.testing.assert_close(found, model(g, given, x, more))


def test_inputs_that_are_alike_have_names_of_their_own():
    def body(self, g, x):
        degree = g.in_degrees().to(x.dtype)
        waves = [torch.sin(degree / scale) for scale in (3, 10, 30)]
        return self.fc(torch.stack(waves, 1)) + dgl.ops.copy_u_sum(g, x)

    model = Function(body, fc=nn.Linear(3, IN))
    lc = lc_transform(model, G, features())
    formulas = [*map(str, lc.inputs)]
    assert len(set(formulas)) == 4
    assert formulas[-3:] == [
        f"sin(scaled(in-degree)) ({number})" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (dglnn.SAGEConv(IN, OUT, "mean"), "mean over in-neighbours"),
        (dglnn.GraphConv(IN, OUT), "GraphConv both"),
    ],
)
def test_filters_in_bfloat16_have_their_names(layer, name):
    x = features().to(torch.bfloat16)
    lc = lc_transform(layer.to(torch.bfloat16), G, x)
    assert f"S = {name}" in str(lc.report)
