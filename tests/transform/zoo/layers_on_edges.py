"""Layers on messages of given features: of both ends, and of edges."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed

WIDTH = 4


def with_edge_features(g, x):
    """Call a model as model(g, x, features of edges)."""
    rows = torch.linspace(-1, 1, g.num_edges() * WIDTH).sin()
    return (g, x, rows.view(-1, WIDTH).to(x)), {}


@transformed("x", "S x", "in-degree", "clamp(in-degree)", exact=True)
def layer_on_both_ends_of_features():
    def body(self, g, x):
        def message(edges):
            both = torch.cat([edges.src["h"], edges.dst["h"]], dim=1)
            return {"m": self.fc(both)}

        g = g.local_var()
        g.ndata["h"] = x
        g.update_all(message, fn.mean("m", "h"))
        return g.ndata["h"]

    return Case(Function(body, fc=nn.Linear(2 * IN, OUT)))


@transformed("x", "S x", "in-degree", exact=True)
def layer_on_a_difference_of_features():
    def body(self, g, x):
        difference = dgl.ops.u_sub_v(g, x, x)
        return dgl.ops.copy_e_sum(g, self.fc(difference))

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@transformed("x", "S₁ x", "S₂ x", "S₁² x", "in-degree", "S₁ in-degree")
def two_layers_on_differences():
    def body(self, g, x):
        for fc in (self.a, self.b):
            with g.local_scope():
                g.ndata["h"] = x
                g.apply_edges(fn.u_sub_v("h", "h", "d"))
                g.edata["m"] = fc(g.edata["d"])
                g.update_all(fn.copy_e("m", "m"), fn.sum("m", "h"))
                x = torch.relu(g.ndata["h"])
        return x

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


@transformed("x", "S x", "in-degree", exact=True)
def layer_on_indexed_ends():
    def body(self, g, x):
        u, v = g.edges()
        messages = self.fc(torch.cat([x[u], x[v]], dim=1))
        out = torch.zeros(x.shape[0], OUT, dtype=x.dtype)
        return out.index_add(0, v, messages)

    return Case(Function(body, fc=nn.Linear(2 * IN, OUT)))


@transformed("S x", "in-degree", exact=True)
def layer_on_weighted_features():
    def body(self, g, x, w):
        messages = dgl.ops.u_mul_e(g, x, w[:, :1])
        return dgl.ops.copy_e_sum(g, self.fc(messages))

    return Case(Function(body, fc=nn.Linear(IN, OUT)), with_edge_features)


@transformed("S x", "in-edges(x2)", "in-degree", "clamp(in-degree)")
def edge_features_added_to_messages():
    def body(self, g, x, edges):
        g = g.local_var()
        g.ndata["h"], g.edata["e"] = F.relu(self.a(x)), self.b(edges)
        g.update_all(fn.u_add_e("h", "e", "m"), fn.mean("m", "h"))
        return g.ndata["h"]

    model = Function(body, a=nn.Linear(IN, OUT), b=nn.Linear(WIDTH, OUT))
    return Case(model, with_edge_features)


@transformed("x", "in-edges(x2)", exact=True)
def summed_layer_on_edge_features():
    def body(self, g, x, edges):
        return self.a(x) + dgl.ops.copy_e_sum(g, 2 * self.b(edges))

    b = nn.Linear(WIDTH, OUT, bias=False)
    return Case(Function(body, a=nn.Linear(IN, OUT), b=b), with_edge_features)


@transformed("S x", "in-edges(x2)")
def edge_features_beside_those_of_sources():
    def body(self, g, x, edges):
        def message(e):
            return {"m": self.b(torch.cat([e.src["h"], e.data["f"]], dim=1))}

        g = g.local_var()
        g.ndata["h"], g.edata["f"] = F.relu(self.a(x)), edges
        g.update_all(message, fn.sum("m", "h"))
        return g.ndata["h"]

    b = nn.Linear(HID + WIDTH, OUT)
    return Case(Function(body, a=nn.Linear(IN, HID), b=b), with_edge_features)


@refused("a layer on edge features", "is not linear alone", "LC005")
def nonlinear_layer_on_edge_features():
    def body(self, g, x, edges):
        return self.a(x) + dgl.ops.copy_e_sum(g, F.relu(self.b(edges)))

    model = Function(body, a=nn.Linear(IN, OUT), b=nn.Linear(WIDTH, OUT))
    return Case(model, with_edge_features)


@refused("a layer on edge features", "is not linear alone", "LC005")
def nonlinear_messages_with_edge_features():
    def body(self, g, x, edges):
        g = g.local_var()
        g.ndata["h"], g.edata["e"] = self.a(x), F.gelu(self.b(edges))
        g.update_all(fn.u_add_e("h", "e", "m"), fn.mean("m", "h"))
        return g.ndata["h"]

    model = Function(body, a=nn.Linear(IN, OUT), b=nn.Linear(WIDTH, OUT))
    return Case(model, with_edge_features)


@transformed("x", "S x", "in-degree", exact=True)
def heads_of_a_layer_on_differences():
    def body(self, g, x):
        messages = self.fc(dgl.ops.u_sub_v(g, x, x)).view(-1, 2, OUT)
        return dgl.ops.copy_e_sum(g, messages).mean(dim=1)

    return Case(Function(body, fc=nn.Linear(IN, 2 * OUT)))
