"""Functions of edges and of mailboxes that users write."""

import math

import dgl.function as fn
import torch
import torch.nn.functional as F
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed


class Reducing(nn.Module):
    """A layer with a message function and a reduce function."""

    def __init__(self, in_feats, out_feats, message, reduce, apply=None):
        super().__init__()
        self.linear = nn.Linear(in_feats, out_feats)
        self.message, self.reduce, self.apply_nodes = message, reduce, apply

    def forward(self, g, h):
        with g.local_scope():
            degrees = g.in_degrees().to(h.dtype).clamp(min=1)
            g.ndata["norm"] = degrees.rsqrt().unsqueeze(1)
            g.ndata["h"] = self.linear(h)
            g.update_all(self.message, self.reduce, self.apply_nodes)
            return g.ndata["h"]


COPY = fn.copy_u("h", "m")


def two_layers(reduce, message=COPY, apply=None):
    def body(self, g, x):
        return self.b(g, torch.relu(self.a(g, x)))

    return Case(
        Function(
            body,
            a=Reducing(IN, HID, message, reduce, apply),
            b=Reducing(HID, OUT, message, reduce, apply),
        )
    )


@transformed("S² x")
def reduce_by_sum():
    return two_layers(lambda nodes: {"h": nodes.mailbox["m"].sum(1)})


@transformed("S² x")
def reduce_by_mean():
    return two_layers(lambda nodes: {"h": torch.mean(nodes.mailbox["m"], 1)})


@transformed("S² x")
def reduce_by_sum_over_degree():
    def reduce(nodes):
        mail = nodes.mailbox["m"]
        return {"h": torch.sum(mail, dim=1) / mail.shape[1]}

    return two_layers(reduce)


@transformed("S² x")
def reduce_by_a_loop():
    def reduce(nodes):
        total = 0
        for number in range(nodes.mailbox["m"].size(1)):
            total = total + nodes.mailbox["m"][:, number]
        return {"h": total / math.sqrt(nodes.mailbox["m"].size(1))}

    return two_layers(reduce)


@transformed("S² x")
def reduce_with_norms_of_nodes():
    def message(edges):
        return {"m": edges.src["h"] * edges.src["norm"]}

    def reduce(nodes):
        return {"h": nodes.mailbox["m"].sum(1) * nodes.data["norm"]}

    return two_layers(reduce, message)


@transformed("x", "S x", "S² x")
def reduce_and_add_the_node():
    def reduce(nodes):
        mean = nodes.mailbox["m"].sum(1) / nodes.mailbox["m"].shape[1]
        return {"h": nodes.data["h"] + mean}

    return two_layers(reduce)


@transformed("S² x")
def reduce_two_fields():
    def message(edges):
        return {"m": edges.src["h"], "w": edges.src["norm"]}

    def reduce(nodes):
        mail = nodes.mailbox
        return {"h": (mail["m"] * mail["w"]).sum(dim=1)}

    return two_layers(reduce, message, lambda nodes: {"h": 2 * nodes.data["h"]})


class SumThenLinear(nn.Module):
    """A reduce function with a layer inside, as in old tutorials."""

    def __init__(self):
        super().__init__()
        self.message = nn.Linear(IN, HID)
        self.update = nn.Linear(IN + HID, OUT)

    def reduce(self, nodes):
        mean = self.message(nodes.mailbox["m"]).mean(dim=1)
        both = torch.cat([nodes.data["h"], mean], dim=1)
        return {"h": F.elu(self.update(both))}

    def forward(self, g, x):
        g = g.local_var()
        g.ndata["h"] = x
        g.update_all(lambda edges: {"m": edges.src["h"]}, self.reduce)
        return g.ndata["h"]


@transformed("x", "S x")
def reduce_with_layers():
    return Case(SumThenLinear())


@transformed("S² x")
def integers_in_an_edge_function():
    def weights(edges):
        degrees = edges.src["d"] * edges.dst["d"]
        return {"w": torch.sqrt(1.0 / degrees).unsqueeze(1)}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["d"] = g.in_degrees().clamp(min=1)
            g.apply_edges(weights)
            g.edata["w"] = g.edata["w"].to(x)
            for fc in self.layers:
                g.ndata["h"] = fc(x)
                g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
                x = F.relu(g.ndata["h"])
            return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("S² x")
def booleans_in_an_edge_function():
    def message(edges):
        same = edges.src["big"] == edges.dst["big"]
        h = edges.src["h"]
        return {"m": torch.where(same.view(-1, 1), h, torch.zeros_like(h))}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["big"] = g.in_degrees() > 3
            for fc in self.layers:
                g.ndata["h"] = torch.tanh(fc(x))
                g.update_all(message, fn.sum("m", "h"))
                x = g.ndata["h"]
            return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("x", "S x", "in-degree")
def difference_messages():
    def message(edges):
        return {"m": edges.dst["h"] - edges.src["h"]}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(message, fn.sum("m", "h"))
            return g.ndata["h"]

    return Case(Function(body, fc=nn.Linear(IN, OUT)))


@transformed("S² x")
def layers_in_a_message_function():
    def body(self, g, x):
        for fc in self.layers:
            g.ndata["h"] = x
            g.update_all(
                lambda edges, fc=fc: {"m": F.relu(fc(edges.src["h"]))},
                fn.mean("m", "h"),
            )
            x = g.ndata.pop("h")
        return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


REDUCE = "a user-defined reduce function"


@refused(REDUCE, "max is neither a sum nor a mean")
def reduce_by_max():
    return two_layers(lambda nodes: {"h": nodes.mailbox["m"].max(1).values})


@refused(REDUCE, "median is neither a sum nor a mean")
def reduce_by_median():
    return two_layers(lambda nodes: {"h": nodes.mailbox["m"].median(1)[0]})


@refused(REDUCE, "softmax is neither a sum nor a mean")
def reduce_by_attention():
    def reduce(nodes):
        mail = nodes.mailbox["m"]
        score = torch.softmax(mail.sum(-1, keepdim=True), dim=1)
        return {"h": (score * mail).sum(1)}

    return two_layers(reduce)


@refused(REDUCE, "sort is neither a sum nor a mean")
def reduce_sorted_messages():
    def reduce(nodes):
        first = nodes.mailbox["m"].sort(dim=1, descending=True)[0][:, 0]
        return {"h": first}

    return two_layers(reduce)


@refused(REDUCE, "depends on the number of messages")
def reduce_with_a_branch_on_the_degree():
    def reduce(nodes):
        mail = nodes.mailbox["m"]
        few = mail.shape[1] < 3
        return {"h": nodes.data["h"] + (mail.sum(1) if few else mail.mean(1))}

    return two_layers(reduce)


@transformed("x", "S x")
def learned_product_messages():
    def message(edges):
        return {"m": edges.dst["h"] * edges.src["h"]}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["h"] = self.fc(x)
            g.update_all(message, fn.sum("m", "h"))
            return g.ndata["h"]

    return Case(Function(body, fc=nn.Linear(IN, OUT)))
