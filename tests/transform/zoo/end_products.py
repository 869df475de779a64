"""Messages that multiply learned values of both ends of an edge."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed
from .layers_on_edges import WIDTH, with_edge_features


def without_bias(*widths):
    return nn.Linear(*widths, bias=False)


@transformed("x", "S x", exact=True)
def source_times_target():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(fn.u_mul_v("h", "h", "m"), fn.sum("m", "z"))
            return self.out(g.ndata["z"])

    return Case(
        Function(body, fc=without_bias(IN, HID), out=nn.Linear(HID, OUT))
    )


@transformed(
    "x", "S x", "S² x", "in-edges(product(in-degree, x))",
    "S in-edges(product(in-degree, x))", "in-edges(product(in-degree))",
    "S in-edges(product(in-degree))",
)  # fmt: skip
def two_layers_of_ngcf():
    """Norms times the sum of W₁ h_u and W₂ (h_u * h_v), with biases."""

    def body(self, g, x):
        norm = g.in_degrees().clamp(min=1).to(x.dtype).rsqrt().view(-1, 1)
        for own, both in ((self.a, self.b), (self.c, self.d)):

            def message(edges, own=own, both=both):
                u, v = edges.src["h"], edges.dst["h"]
                weight = edges.src["n"] * edges.dst["n"]
                return {"m": weight * (own(u) + both(u * v))}

            with g.local_scope():
                g.ndata["h"], g.ndata["n"] = x, norm
                g.update_all(message, fn.sum("m", "z"))
                x = F.leaky_relu(g.ndata["z"] + own(x), 0.2)
        return x

    parts = {
        "a": nn.Linear(IN, HID), "b": nn.Linear(IN, HID),
        "c": nn.Linear(HID, OUT), "d": nn.Linear(HID, OUT),
    }  # fmt: skip
    return Case(Function(body, **parts))


@transformed("x", "S x", "clamp(in-degree)", exact=True)
def mean_of_products_of_heads():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["q"] = self.query(x).view(-1, 2, 4)
            g.ndata["k"] = self.key(x).view(-1, 2, 4)
            g.update_all(fn.u_mul_v("k", "q", "m"), fn.mean("m", "z"))
            return g.ndata["z"].flatten(1)

    parts = {"query": nn.Linear(IN, HID), "key": without_bias(IN, HID)}
    return Case(Function(body, **parts))


@transformed("x", "S x", exact=True)
def sum_of_dot_products():
    def body(self, g, x):
        h = self.fc(x)
        return self.out(dgl.ops.copy_e_sum(g, dgl.ops.u_dot_v(g, h, h)))

    parts = {"fc": without_bias(IN, HID), "out": nn.Linear(1, OUT)}
    return Case(Function(body, **parts))


@transformed("x", "S₁ x", "S₂ x", exact=True)
def gate_of_the_target_by_indices():
    """The weights of edges are static, and the gate is the target's."""

    def body(self, g, x, weights):
        u, v = g.edges()
        h, gate = self.fc(x), torch.sigmoid(self.gate(x))
        messages = weights[:, :1] * (h[u] * gate[v]) - 2 * h[u] * h[v]
        out = torch.zeros(len(x), OUT, dtype=x.dtype)
        return out.index_add(0, v, messages)

    parts = {"fc": without_bias(IN, OUT), "gate": nn.Linear(IN, 1)}
    return Case(Function(body, **parts), with_edge_features)


@transformed("x", "S x", "in-edges(x2)", "in-degree", exact=True)
def joined_products_and_edge_features():
    def body(self, g, x, edges):
        def message(e):
            v = e.dst["h"]
            parts = [(e.src["h"] - v) * v, e.data["f"] * self.own(v)]
            return {"m": self.out(torch.cat(parts, dim=1))}

        with g.local_scope():
            g.ndata["h"], g.edata["f"] = self.fc(x), edges
            g.update_all(message, fn.sum("m", "z"))
            return g.ndata["z"]

    parts = {
        "fc": without_bias(IN, HID), "own": nn.Linear(HID, WIDTH),
        "out": nn.Linear(HID + WIDTH, OUT),
    }  # fmt: skip
    return Case(Function(body, **parts), with_edge_features)


@transformed("x", "S x", "in-degree")
def layer_on_squared_differences():
    def body(self, g, x):
        h = self.fc(x)
        return dgl.ops.copy_e_sum(g, self.out(dgl.ops.u_sub_v(g, h, h) ** 2))

    parts = {"fc": without_bias(IN, HID), "out": nn.Linear(HID, OUT)}
    return Case(Function(body, **parts))


@refused("message passing (copy_rhs, sum)", "learned value of the edge")
def activation_of_products():
    def body(self, g, x):
        def message(edges):
            return {"m": torch.tanh(edges.src["h"] * edges.dst["h"])}

        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(message, fn.sum("m", "z"))
            return g.ndata["z"]

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@refused("message passing (copy_rhs, max)", "learned value of the edge")
def maximum_of_products():
    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(fn.u_mul_v("h", "h", "m"), fn.max("m", "z"))
            return g.ndata["z"]

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@refused("message passing (mul, sum)", "edge weights are learned")
def dot_products_as_weights():
    def body(self, g, x):
        h = self.fc(x)
        return dgl.ops.u_mul_e_sum(g, h, dgl.ops.u_dot_v(g, h, h))

    return Case(Function(body, fc=nn.Linear(IN, OUT)))
