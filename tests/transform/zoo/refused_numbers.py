"""Python numbers taken from the graph, which must be refused."""

import math

from dgl import nn as dglnn
from torch import nn

from .cases import (
    HID,
    IN,
    OUT,
    Case,
    Function,
    refused,
)


def _model(body):
    return Case(
        Function(body, fc=nn.Linear(IN, HID), a=dglnn.GraphConv(HID, OUT))
    )


@refused("truediv", "takes a number from the graph", "LC018")
def number_sqrt_of_nodes():
    def body(self, g, x):
        return self.a(g, self.fc(x) / g.num_nodes() ** 0.5)

    return _model(body)


@refused("mul", "takes a number from the graph", "LC018")
def number_log_of_degree():
    def body(self, g, x):
        factor = math.log(g.num_edges() / g.num_nodes())
        return self.a(g, self.fc(x) * factor)

    return _model(body)


@refused("truediv", "takes a number from the graph", "LC018")
def number_from_shape():
    def body(self, g, x):
        return self.a(g, self.fc(x) / x.shape[0])

    return _model(body)


@refused("numpy", "takes values out of torch", "LC020")
def number_through_numpy():
    def body(self, g, x):
        factor = g.in_degrees().float().numpy().mean()
        return self.a(g, self.fc(x) * float(factor))

    return _model(body)


@refused("truediv", "takes a number from the graph", "LC018")
def number_scaled_edges():
    def body(self, g, x):
        return self.a(g, self.fc(x) / (g.num_edges() / 1000))

    return _model(body)


@refused("truediv", "takes a number from the graph", "LC018")
def number_of_rows_by_len():
    def body(self, g, x):
        return self.a(g, self.fc(x) / len(x))

    return _model(body)


@refused("mul", "takes a number from the graph", "LC018")
def number_from_item():
    def body(self, g, x):
        return self.a(g, self.fc(x) * x.abs().max().item())

    return _model(body)
