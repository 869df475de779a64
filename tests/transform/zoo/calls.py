"""Models that are called in other ways than ``model(g, x)``."""

from typing import NamedTuple

import dgl
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, gcn, transformed


@transformed("S² x")
def graph_on_the_module():
    def body(self, x):
        return self.b(self.g, F.relu(self.a(self.g, x)))

    a, b = gcn()
    model = Function(body, a=a, b=b)

    def call(g, x):
        model.g = g
        return (x,), {}

    return Case(model, call)


@transformed("S² feat")
def features_in_the_graph():
    def body(self, g):
        return self.b(g, F.relu(self.a(g, g.ndata["feat"])))

    def call(g, x):
        g.ndata["feat"] = x
        return (g,), {}

    a, b = gcn()
    return Case(Function(body, a=a, b=b), call)


@transformed("S² x")
def features_first():
    def body(self, x, g):
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b), lambda g, x: ((x, g), {}))


@transformed("S² x", "S position", "S² position")
def two_features():
    def body(self, g, x, *, position):
        h = F.relu(self.a(g, torch.cat([x, position], 1)))
        return self.b(g, h + self.fc(position))

    def call(g, x):
        generator = torch.Generator().manual_seed(0)
        position = torch.randn(g.num_nodes(), 2, generator=generator)
        return (g, x), {"position": position.to(x)}

    return Case(
        Function(
            body,
            a=dglnn.GraphConv(IN + 2, HID),
            b=dglnn.GraphConv(HID, OUT),
            fc=nn.Linear(2, HID),
        ),
        call,
    )


@transformed("S₁ S₂ x")
def graphs_in_a_list():
    def body(self, graphs, x):
        for conv, g in zip(self.convs, graphs, strict=True):
            x = F.relu(conv(g, x))
        return x

    def call(g, x):
        return ([g, dgl.reverse(g)], x), {}

    return Case(Function(body, convs=nn.ModuleList(gcn())), call)


@transformed("S² x")
def one_graph_for_each_layer():
    def body(self, blocks, x):
        for conv, g in zip(self.convs, blocks, strict=True):
            x = torch.tanh(conv(g, x))
        return x

    return Case(
        Function(body, convs=nn.ModuleList(gcn())),
        lambda g, x: (([g] * 2, x), {}),
    )


@transformed("S₁ S₂ x")
def graphs_in_a_dict_on_the_module():
    def body(self, x):
        h = F.relu(self.a(self.graphs["back"], x))
        return self.b(self.graphs["forth"], h)

    a, b = gcn()
    model = Function(body, a=a, b=b)

    def call(g, x):
        model.graphs = {"forth": g, "back": dgl.reverse(g)}
        return (x,), {}

    return Case(model, call)


class Sample(NamedTuple):
    graph: dgl.DGLGraph
    feat: torch.Tensor
    alpha: float


@transformed("x", "S x", "S² x")
def one_argument_with_everything():
    def body(self, sample):
        h = h0 = F.relu(self.fc(sample.feat))
        for _ in range(2):
            h = self.conv(sample.graph, h)
            h = (1 - sample.alpha) * h + sample.alpha * h0
        return self.out(h)

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            conv=dglnn.GraphConv(HID, HID, weight=False, bias=False),
            out=nn.Linear(HID, OUT),
        ),
        lambda g, x: ((Sample(g, x, 0.1),), {}),
    )
