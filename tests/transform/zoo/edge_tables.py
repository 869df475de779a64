"""Learned rows for types of edges, several weights per edge, odd layouts."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed
from .edge_types import types_of_edges

KINDS = 3


def with_types(g, x):
    """Call a model as model(g, x, types of edges)."""
    return (g, x, types_of_edges(g, KINDS)), {}


def with_channels(g, x):
    """Call a model as model(g, x, three weights of each edge)."""
    weights = torch.linspace(0.1, 3, g.num_edges() * KINDS).cos().abs()
    return (g, x, weights.view(-1, KINDS).to(x)), {}


@transformed("S x", "in-edges(one_hot(x2))", exact=True)
def embedded_types_are_added_to_messages():
    def body(self, g, x, types):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.edata["e"] = self.bond(types)
            g.update_all(fn.u_add_e("h", "e", "m"), fn.sum("m", "h"))
            return g.ndata["h"]

    fc = nn.Linear(IN, OUT, bias=False)
    return Case(
        Function(body, fc=fc, bond=nn.Embedding(KINDS, OUT)), with_types
    )


@transformed("S x", "in-edges(one_hot(x2))", "clamp(in-degree)")
def mean_of_joined_embeddings():
    def body(self, g, x, types):
        def message(edges):
            kind = F.embedding(edges.data["t"], self.table)
            both = torch.cat([edges.src["h"], torch.tanh(kind)], dim=-1)
            return {"m": both}

        g = g.local_var()
        g.ndata["h"], g.edata["t"] = torch.relu(self.fc(x)), types
        g.update_all(message, fn.mean("m", "z"))
        return self.out(g.ndata["z"])

    parts = {
        "fc": nn.Linear(IN, HID),
        "table": nn.Parameter(torch.ones(KINDS, 2)),
        "out": nn.Linear(HID + 2, OUT),
    }
    return Case(Function(body, **parts), with_types)


@transformed("S₁ x", "S₂ x", "S₃ x")
def learned_number_for_each_type():
    def body(self, g, x, types):
        gate = torch.softmax(self.gate, 0)[types].view(-1, 1)
        return self.out(dgl.ops.u_mul_e_sum(g, torch.relu(self.fc(x)), gate))

    parts = {
        "fc": nn.Linear(IN, HID),
        "gate": nn.Parameter(torch.zeros(KINDS)),
        "out": nn.Linear(HID, OUT),
    }
    return Case(Function(body, **parts), with_types)


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def matrices_of_types_by_hand():
    def body(self, g, x, types):
        def message(edges):
            own = self.weight.index_select(0, edges.data["t"])
            return {"m": torch.bmm(edges.src["h"].unsqueeze(1), own).squeeze(1)}

        with g.local_scope():
            g.ndata["h"], g.edata["t"] = x, types
            g.update_all(message, fn.sum("m", "h"))
            return torch.relu(g.ndata["h"])

    weight = nn.Parameter(torch.ones(KINDS, IN, OUT))
    return Case(Function(body, weight=weight), with_types)


@transformed("x", "S₁ x", "S₂ x", "S₃ x", exact=True)
def relations_multiply_both_ends():
    """DistMult's composition, with the node itself."""

    def body(self, g, x, types):
        with g.local_scope():
            g.ndata["h"] = x
            g.edata["r"] = self.relation[types]
            g.apply_edges(fn.u_mul_e("h", "r", "c"))
            g.update_all(fn.copy_e("c", "m"), fn.sum("m", "z"))
            return self.fc(g.ndata["z"]) + self.own(x * self.relation[0])

    parts = {
        "relation": nn.Parameter(torch.ones(KINDS, IN)),
        "fc": nn.Linear(IN, OUT), "own": nn.Linear(IN, OUT),
    }  # fmt: skip
    return Case(Function(body, **parts), with_types)


@transformed("S₁ x", "S₂ x", "S₃ x")
def weights_for_each_head():
    def body(self, g, x, weights):
        heads = torch.relu(self.fc(x)).view(-1, KINDS, 2)
        found = dgl.ops.u_mul_e_sum(g, heads, weights.unsqueeze(-1))
        return self.out(found.flatten(1))

    fc, out = nn.Linear(IN, 2 * KINDS), nn.Linear(2 * KINDS, OUT)
    return Case(Function(body, fc=fc, out=out), with_channels)


@transformed("S₁ x", "S₂ x", "S₃ x")
def several_weights_in_a_message_function():
    def body(self, g, x, weights):
        def message(edges):
            return {"m": edges.data["w"].unsqueeze(2) * edges.src["h"][:, None]}

        with g.local_scope():
            g.ndata["h"], g.edata["w"] = torch.tanh(self.fc(x)), weights
            g.update_all(message, fn.mean("m", "h"))
            return self.out(g.ndata["h"].flatten(1))

    fc, out = nn.Linear(IN, 4), nn.Linear(KINDS * 4, OUT)
    return Case(Function(body, fc=fc, out=out), with_channels)


@transformed("x", "S x", "S² x")
def norms_beside_stacks():
    """Stacks come first, and nodes second, as in ARMA by hand."""

    def body(self, g, x):
        norm = g.in_degrees().clamp(min=1).to(x.dtype).rsqrt().view(1, -1, 1)
        h = x.unsqueeze(0)
        for weight, skip in ((self.a, self.c), (self.b, self.d)):
            sent = (h @ weight * norm).transpose(0, 1)
            h = dgl.ops.copy_u_sum(g, sent).transpose(0, 1) * norm
            h = torch.relu(h + x @ skip)
        return h.mean(0)

    shapes = {
        "a": (2, IN, HID), "b": (2, HID, OUT), "c": (2, IN, HID),
        "d": (2, IN, OUT),
    }  # fmt: skip
    parts = {name: nn.Parameter(torch.ones(s)) for name, s in shapes.items()}
    return Case(Function(body, **parts))


@transformed("S² x")
def edges_dropped_in_training():
    def body(self, g, x):
        some = self.drop(g) if self.training else g
        return self.b(g, torch.relu(self.a(some, x)))

    options = {"allow_zero_in_degree": True}
    parts = {
        "drop": dgl.DropEdge(0.3),
        "a": dglnn.GraphConv(IN, HID, **options),
        "b": dglnn.GraphConv(HID, OUT, **options),
    }
    return Case(Function(body, **parts), options={"ignore_edge_dropout": True})


@refused("a random mask of edges (bernoulli)", "dropped at random", "LC007")
def drop_edge_in_training():
    return Case(edges_dropped_in_training().model)


@refused("dropout of messages (dropout)", "random for each edge", "LC007")
def dropout_of_messages():
    def body(self, g, x):
        def message(edges):
            return {"m": F.dropout(edges.src["h"], 0.5, self.training)}

        with g.local_scope():
            g.ndata["h"] = torch.relu(self.fc(x))
            g.update_all(message, fn.mean("m", "h"))
            return g.ndata["h"]

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@refused("getitem of some nodes", "rows of some nodes", "LC024")
def rows_of_a_mask():
    def body(self, g, x):
        return self.out(g, torch.relu(self.fc(x)))[self.mask[: len(x)] > 0]

    mask = torch.arange(5000) % 2
    parts = {"fc": nn.Linear(IN, HID), "out": dglnn.GraphConv(HID, OUT)}
    return Case(Function(body, mask=mask, **parts))


@refused("a user-defined reduce function", "lstm is neither a sum", "LC006")
def lstm_over_neighbours():
    def body(self, g, x):
        return self.conv(g, torch.relu(self.fc(x)))

    conv = dglnn.SAGEConv(HID, OUT, "lstm")
    return Case(Function(body, fc=nn.Linear(IN, HID), conv=conv))


@refused("attention over neighbours (edge softmax)", "are learned", "LC004")
def attention_on_stacked_edges():
    def body(self, g, x):
        h = self.fc(x)
        score = dgl.ops.u_mul_v(g, h, h).view(-1, 2, HID // 2)
        parts = [part.sum(-1, keepdim=True) for part in score.unbind(1)]
        weight = dgl.nn.functional.edge_softmax(g, torch.cat(parts, 1))
        return dgl.ops.u_mul_e_sum(g, h, weight[:, :1])

    return Case(Function(body, fc=nn.Linear(IN, HID)))


def _scalars(weights):
    """Messages times a learned number of their type."""

    def body(self, g, x, types):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.edata["r"] = weights(self.scales, g, types)
            g.update_all(fn.u_mul_e("h", "r", "m"), fn.sum("m", "h"))
            return g.ndata["h"]

    scales = nn.Parameter(torch.linspace(0.5, 2, KINDS))
    fc = nn.Linear(IN, OUT, bias=False)
    model = Function(body, fc=fc, scales=scales)
    return Case(model, with_types)


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def learned_number_of_each_type():
    return _scalars(lambda scales, g, types: scales[types])


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def learned_number_of_each_type_as_a_column():
    return _scalars(lambda scales, g, types: scales.exp()[types].view(-1, 1))


@transformed("S₁ x", "S₂ x", "S₃ x", exact=True)
def learned_number_of_each_type_times_weights():
    def weights(scales, g, types):
        fixed = g.in_degrees()[g.edges()[1]].to(scales).rsqrt()
        return fixed * scales[types]

    return _scalars(weights)


@refused("message passing (mul, sum)", "edge weights are learned", "LC003")
def learned_numbers_of_other_edges():
    def weights(scales, g, types):
        return scales[types].flip(0).reshape(g.num_edges(), 1)

    return _scalars(weights)


@refused("message passing (mul, sum)", "edge weights are learned", "LC003")
def learned_decay_of_each_type():
    def weights(scales, g, types):
        age = g.in_degrees()[g.edges()[1]].to(scales)
        return torch.exp(-age * scales[types])

    return _scalars(weights)
