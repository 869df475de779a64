"""Models that are called in other ways than ``model(g, x)``."""

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
