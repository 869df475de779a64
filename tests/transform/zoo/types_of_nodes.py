"""Layers for types of nodes, and rows of some nodes."""

import dgl
import torch
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed

KINDS = 3


def _with_types(g, x):
    """Call a model as model(g, x, types of nodes)."""
    types = torch.arange(g.num_nodes()) * 7 // 2 % KINDS
    return (g, x, types), {}


def _case(body, **parts):
    return Case(Function(body, **parts), _with_types)


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def layer_for_each_type():
    def body(self, g, x, types):
        return self.out(dgl.ops.copy_u_mean(g, self.layers(x, types)))

    return _case(
        body,
        layers=dglnn.TypedLinear(IN, HID, KINDS),
        out=nn.Linear(HID, OUT),
    )


@transformed("S₁ S₂ x", "S₃ S₂ x", "S₄ S₂ x", exact=True)
def blocks_for_each_type_between_aggregations():
    def body(self, g, x, types):
        h = dgl.ops.copy_u_mean(g, self.fc(x))
        return dgl.ops.copy_u_sum(g, self.layers(h, types))

    layers = dglnn.TypedLinear(HID, HID, KINDS, "bdd", num_bases=2)
    return _case(body, layers=layers, fc=nn.Linear(IN, HID, bias=False))


@transformed("S x", "x2")
def layer_for_each_type_after_the_aggregation():
    def body(self, g, x, types):
        h = dgl.ops.copy_u_sum(g, self.fc(x)).relu()
        return self.layers(h, types)

    layers = dglnn.TypedLinear(HID, OUT, KINDS, "basis", num_bases=2)
    return _case(body, layers=layers, fc=nn.Linear(IN, HID))


@transformed("S x", "S one_hot(zeros())", exact=True)
def embedding_that_all_nodes_share():
    def body(self, g, x, types):
        start = self.table(torch.zeros(g.num_nodes(), dtype=torch.long))
        return dgl.ops.copy_u_sum(g, self.fc(x) + start)

    return _case(
        body, table=nn.Embedding(1, OUT), fc=nn.Linear(IN, OUT, bias=False)
    )


@refused("typed_product", "has 65 types", "LC017")
def more_types_than_filters():
    def body(self, g, x, types):
        return dgl.ops.copy_u_sum(g, self.layers(x, types))

    return _case(body, layers=dglnn.TypedLinear(IN, OUT, 65))


@refused("getitem by integers of nodes", "types of nodes", "LC017")
def matrix_picked_for_each_node():
    def body(self, g, x, types):
        own = self.matrices[types]
        h = torch.bmm(x.unsqueeze(1), own).squeeze(1)
        return dgl.ops.copy_u_sum(g, h)

    return _case(body, matrices=nn.Parameter(torch.rand(KINDS, IN, OUT)))


@refused("layers.0 on some nodes", "to write what is computed", "LC024")
def layers_on_the_nodes_of_a_type():
    def body(self, g, x, types):
        h = x.new_zeros(len(x), OUT)
        for kind, layer in enumerate(self.layers):
            h[types == kind] = layer(x[types == kind])
        return dgl.ops.copy_u_sum(g, h)

    layers = nn.ModuleList(nn.Linear(IN, OUT) for _ in range(KINDS))
    return _case(body, layers=layers)


@refused("getitem of some nodes", "to write what is computed", "LC024")
def change_of_some_rows():
    def body(self, g, x, types):
        h, mask = self.fc(x), types == 1
        h[mask] = 2 * h[mask]
        return dgl.ops.copy_u_sum(g, h)

    return _case(body, fc=nn.Linear(IN, OUT))


@refused("mul", "all nodes the same result", "LC006")
def standard_deviation_over_neighbours():
    def body(self, g, x, types):
        h = self.fc(x)
        mean = dgl.ops.copy_u_mean(g, h)
        variance = dgl.ops.copy_u_mean(g, h * h) - mean * mean
        return self.out(torch.sqrt(variance.relu() + 1e-5))

    return _case(body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT))
