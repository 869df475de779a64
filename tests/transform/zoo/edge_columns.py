"""Matrices and gates made from features of edges, and CompGCN's layers."""

import dgl
import dgl.function as fn
import torch
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed
from .edge_types import types_of_edges

KINDS, WIDTH = 3, 2


def with_columns(g, x):
    """Call a model as model(g, x, two features of each edge)."""
    rows = torch.linspace(-1, 1, g.num_edges() * WIDTH).sin()
    return (g, x, rows.view(-1, WIDTH).to(x)), {}


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def nnconv_of_given_sources():
    def body(self, g, x, edges):
        return self.conv(g, x, edges)

    edge_func = nn.Linear(WIDTH, IN * OUT)
    conv = dglnn.NNConv(IN, OUT, edge_func, "mean")
    return Case(Function(body, conv=conv), with_columns)


@transformed("x", "S₁ x", "S₂ x")
def nnconv_of_learned_sources():
    def body(self, g, x, edges):
        return self.conv(g, torch.relu(self.fc(x)), edges)

    edge_func = nn.Linear(WIDTH, 4 * OUT, bias=False)
    conv = dglnn.NNConv(4, OUT, edge_func, "sum", residual=True)
    return Case(Function(body, fc=nn.Linear(IN, 4), conv=conv), with_columns)


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def matrices_by_two_linear_layers():
    def body(self, g, x, edges):
        def message(e):
            matrix = self.edge(e.data["f"]).view(-1, IN, OUT)
            return {"m": torch.bmm(e.src["h"].unsqueeze(1), matrix).squeeze(1)}

        with g.local_scope():
            g.ndata["h"], g.edata["f"] = x, edges
            g.update_all(message, fn.sum("m", "z"))
            return g.ndata["z"]

    edge = nn.Sequential(nn.Linear(WIDTH, 4), nn.Linear(4, IN * OUT))
    return Case(Function(body, edge=edge), with_columns)


@transformed("S₁ x", "S₂ x")
def linear_gates_of_edge_features():
    def body(self, g, x, edges):
        h = torch.tanh(self.fc(x))
        return self.out(dgl.ops.u_mul_e_sum(g, h, self.gate(edges)))

    parts = {
        "fc": nn.Linear(IN, HID), "out": nn.Linear(HID, OUT),
        "gate": nn.Linear(WIDTH, HID, bias=False),
    }  # fmt: skip
    return Case(Function(body, **parts), with_columns)


@refused("message passing (mul, sum)", "edge weights are learned", "LC003")
def nnconv_with_an_activation():
    def body(self, g, x, edges):
        return self.conv(g, x, edges)

    edge_func = nn.Sequential(
        nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, IN * OUT)
    )
    with torch.no_grad():
        # On the probes, it looks as if there was no activation.
        edge_func[0].bias.fill_(1000.0)
    conv = dglnn.NNConv(IN, OUT, edge_func, "sum")
    return Case(Function(body, conv=conv), with_columns)


def with_directions(g, x):
    """Call a model as model(g, x, types of edges, a mask of edges)."""
    types = types_of_edges(g, KINDS)
    return (g, x, types, types > 0), {}


def composition(combine, nodes=None):
    """A layer of CompGCN: sources and relations are multiplied.

    ``combine`` applies one of two layers to each edge; ``nodes`` is a number
    of nodes that have learned embeddings.
    """

    def body(self, g, x, types, forward):
        with g.local_scope():
            h = x if nodes is None else self.n_embds
            g.ndata["h"], g.edata["r"] = h, self.relation[types]
            g.apply_edges(fn.u_mul_e("h", "r", "comp_h"))
            g.edata["m"] = combine(self, g.edata["comp_h"], forward)
            g.update_all(fn.copy_e("m", "m"), fn.sum("m", "z"))
            return torch.tanh(g.ndata["z"] + self.own(h * self.relation[0]))

    parts = {
        "relation": nn.Parameter(torch.ones(KINDS, IN)),
        "own": nn.Linear(IN, OUT), "a": nn.Linear(IN, OUT),
        "b": nn.Linear(IN, OUT),
    }  # fmt: skip
    if nodes is not None:
        parts["n_embds"] = nn.Parameter(torch.ones(nodes, IN))
    return Case(Function(body, **parts), with_directions)


def _of_all_edges(self, h, forward):
    return torch.where(forward.unsqueeze(1), self.a(h), self.b(h))


def _of_some_edges(self, h, forward):
    found = torch.zeros(len(h), OUT, dtype=h.dtype)
    there = torch.nonzero(forward).squeeze(1)
    back = torch.nonzero(~forward).squeeze(1)
    found[there] = self.a(h[there])
    found[back] = self.b(h[back])
    return found


@transformed(
    "x", "S₁ x", "S₂ x", "S₃ x", "S₄ x", "S₅ x", "S₆ x", "in-edges(x3)",
    "in-edges(logical_not(x3))", exact=True,
)  # fmt: skip
def composition_of_all_edges():
    return composition(_of_all_edges)


@transformed(
    "x", "S₁ x", "S₂ x", "S₃ x", "S₄ x", "S₅ x", "S₆ x",
    "in-edges(mask_of(nonzero(…x3)))", "in-edges(product(x3))", exact=True,
)  # fmt: skip
def composition_of_some_edges():
    return composition(_of_some_edges)


@transformed("S x")
def rows_of_some_edges_by_a_mask():
    def body(self, g, x, types, chosen):
        u, v = g.edges()
        h = self.fc(x)[u]
        messages = torch.zeros(len(h), OUT, dtype=h.dtype)
        messages[chosen] = torch.relu(self.out(h[chosen]))
        out = torch.zeros(len(x), OUT, dtype=x.dtype)
        return out.index_add(0, v, messages)

    parts = {"fc": nn.Linear(IN, HID), "out": nn.Linear(HID, OUT)}
    return Case(Function(body, **parts), with_directions)


@refused("getitem of some edges", "picks the values of some edges", "LC030")
def norm_over_some_edges():
    def norm(self, h, forward):
        found = torch.zeros(len(h), OUT, dtype=h.dtype)
        found[forward] = self.norm(self.a(h[forward]))
        found[~forward] = self.b(h[~forward])
        return found

    case = composition(norm)
    case.model.norm = nn.BatchNorm1d(OUT)
    return case


@refused("getitem of some edges", "picks the values of some edges", "LC030")
def rows_of_some_edges_in_another_order():
    def turned(self, h, forward):
        found = torch.zeros(len(h), OUT, dtype=h.dtype)
        ids = torch.nonzero(forward).squeeze(1)
        found[ids] = self.a(h[ids.flip(0)])
        return found + self.b(h)

    return composition(turned)


@refused("the parameter n_embds", "for each node of your graph", "LC016")
def composition_of_embedded_nodes():
    return composition(_of_all_edges, 60)
