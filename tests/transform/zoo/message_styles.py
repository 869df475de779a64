"""More styles of message passing: loops, norms on edges, joined messages."""

import math

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, transformed

COPY, SUM, MEAN = fn.copy_u("h", "m"), fn.sum("m", "h"), fn.mean("m", "h")


def mean(g, h):
    with g.local_scope():
        g.ndata["h"] = h
        g.update_all(COPY, MEAN)
        return g.ndata["h"]


def two_linears(body, call=lambda g, x: ((g, x), {})):
    return Case(
        Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)), call
    )


@transformed("x", "S x", "S² x")
def pagerank_loop():
    def body(self, g, x):
        start = h = F.relu(self.a(x))
        for _ in range(2):
            h = 0.9 * mean(g, h) + 0.1 * start
        return self.b(h)

    return two_linears(body)


@transformed("x", "S x")
def high_pass():
    def body(self, g, x):
        h = F.relu(self.a(x))
        return self.b(h - mean(g, h))

    return two_linears(body)


@transformed("x", "S x", "S² x")
def heat_kernel_series():
    def body(self, g, x):
        term = total = torch.tanh(self.a(x))
        for k in (1, 2):
            term = mean(g, term) * (1.5 / k)
            total = total + term
        return self.b(total * math.exp(-1.5))

    return two_linears(body)


@transformed("S² x")
def normed_edge_weights():
    def body(self, g, x):
        w = self.norm(g, g.edata["w"])
        h = F.relu(self.a(g, x, edge_weight=w))
        return self.b(g, h, edge_weight=w)

    def call(g, x):
        g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)
        return (g, x), {}

    return Case(
        Function(
            body,
            norm=dglnn.EdgeWeightNorm(norm="both"),
            a=dglnn.GraphConv(IN, HID, norm="none"),
            b=dglnn.GraphConv(HID, OUT, norm="none"),
        ),
        call,
    )


@transformed("S² x")
def similarity_of_features_as_weights():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["p"] = F.normalize(x, dim=1)
            g.apply_edges(fn.u_dot_v("p", "p", "s"))
            g.edata["s"] = dgl.nn.functional.edge_softmax(g, g.edata["s"])
            for fc in (self.a, self.b):
                g.ndata["h"] = torch.relu(fc(x))
                g.update_all(fn.u_mul_e("h", "s", "m"), SUM)
                x = g.ndata["h"]
            return x

    return two_linears(body)


@transformed("S₁ x", "S₂ x", exact=True)
def two_hops_as_graphs():
    def body(self, g, x):
        far = dgl.khop_graph(g, 2)
        near = self.a(g, x)
        return torch.cat([near, self.b(far, x)], dim=1).relu()

    options = {"allow_zero_in_degree": True}
    a, b = (dglnn.GraphConv(IN, OUT, bias=False, **options) for _ in range(2))
    return Case(Function(body, a=a, b=b))


@transformed("S x")
def moments_of_messages():
    def message(edges):
        h = edges.src["h"]
        return {"m": torch.cat([h, h**2], dim=1)}

    def body(self, g, x):
        g = g.local_var()
        g.ndata["h"] = self.a(x)
        g.update_all(message, MEAN)
        return self.b(g.ndata["h"])

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(2 * HID, OUT)))


@transformed("x", "S x", "in-degree")
def layer_on_both_ends():
    def body(self, g, x):
        def message(edges):
            both = torch.cat([edges.src["h"], edges.dst["h"]], dim=1)
            return {"m": self.b(both)}

        g = g.local_var()
        g.ndata["h"] = F.relu(self.a(x))
        g.update_all(message, lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
        return g.ndata["h"]

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(2 * HID, OUT)))


@transformed("x", "P y", exact=True)
def propagated_labels_as_features():
    def body(self, g, x):
        y = start = g.ndata["y"]
        for _ in range(2):
            y = 0.5 * mean(g, y) + 0.5 * start
        return self.b(F.relu(self.a(torch.cat([x, y], dim=1))))

    def call(g, x):
        g.ndata["y"] = F.one_hot(torch.arange(60) % 3, 3).to(x)
        return (g, x), {}

    return Case(
        Function(body, a=nn.Linear(IN + 3, HID), b=nn.Linear(HID, OUT)), call
    )


@transformed("S² x")
def scatter_reduce_by_hand():
    def body(self, g, x):
        u, v = g.edges()
        for fc in (self.a, self.b):
            h = fc(x)
            index = v[:, None].repeat(1, h.shape[1])
            x = torch.zeros_like(h).scatter_reduce(0, index, h[u], "sum")
            x = torch.tanh(x)
        return x

    return two_linears(body)
