"""Message passing that users write by hand."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, Layers, gcn, transformed


class NodeApply(nn.Module):
    """The first GCN tutorial's style."""

    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.linear = nn.Linear(in_feats, out_feats)

    def forward(self, g, feature):
        with g.local_scope():
            g.ndata["h"] = feature
            g.update_all(fn.copy_u("h", "m"), fn.mean("m", "h"))
            return self.linear(g.ndata["h"])


@transformed("S² x")
def by_hand_mean():
    return Case(Layers(NodeApply(IN, HID), NodeApply(HID, OUT)))


class NormedByHand(nn.Module):
    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_feats, out_feats))

    def forward(self, g, h):
        degrees = g.in_degrees().float().clamp(min=1)
        norm = torch.pow(degrees, -0.5).unsqueeze(1).to(h.device)
        g = g.local_var()
        g.ndata["h"] = torch.mm(h, self.weight) * norm
        g.update_all(fn.copy_u(u="h", out="m"), fn.sum(msg="m", out="h"))
        return g.ndata.pop("h") * norm


@transformed("S² x")
def by_hand_degree_norm():
    return Case(Layers(NormedByHand(IN, HID), NormedByHand(HID, OUT)))


@transformed("S² x")
def by_hand_norm_in_ndata():
    def body(self, g, x):
        for fc in self.layers:
            h = fc(x) * g.ndata["norm"]
            g.ndata["h"] = h
            g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
            x = F.relu(g.ndata.pop("h") * g.ndata["norm"])
        return x

    def call(g, x):
        degrees = g.in_degrees().clamp(min=1).to(x)
        g.ndata["norm"] = degrees.pow(-0.5).unsqueeze(1)
        return (g, x), {}

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers), call)


@transformed("S₁ S₂ x")
def by_hand_dgl_ops():
    def body(self, g, x):
        h = F.gelu(self.a(dgl.ops.copy_u_mean(g, x)))
        h = dgl.ops.u_mul_e_sum(g, h, g.edata["w"])
        return self.b(h)

    def call(g, x):
        g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)
        return (g, x), {}

    return Case(
        Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)), call
    )


@transformed("S² x")
def by_hand_message_function():
    def message(edges):
        return {"m": edges.src["h"] * edges.data["w"] * edges.src["c"]}

    def body(self, g, x):
        with g.local_scope():
            g.ndata["c"] = 1 / g.out_degrees().to(x).clamp(min=1).view(-1, 1)
            for fc in self.layers:
                g.ndata["h"] = torch.sigmoid(fc(x))
                g.update_all(message, fn.sum("m", "h"))
                x = g.ndata["h"]
            return x

    def call(g, x):
        g.edata["w"] = torch.linspace(0.1, 1, g.num_edges()).to(x)[:, None]
        return (g, x), {}

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers), call)


@transformed("S² x")
def self_loops_in_forward():
    def body(self, g, x):
        g = dgl.add_self_loop(dgl.remove_self_loop(g))
        return self.b(g, F.relu(self.a(g, x)))

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@transformed("S₁² x", "S₂ S₁ x", "S₁ S₂ x", "S₂² x")
def both_directions():
    def body(self, g, x):
        back = dgl.reverse(g)
        h = torch.cat([self.a(g, x), self.b(back, x)], dim=1)
        h = F.leaky_relu(h)
        return self.c(g, h) + self.d(back, h)

    options = {"allow_zero_in_degree": True}
    return Case(
        Function(
            body,
            a=dglnn.GraphConv(IN, HID, **options),
            b=dglnn.GraphConv(IN, HID, **options),
            c=dglnn.GraphConv(2 * HID, OUT, **options),
            d=dglnn.GraphConv(2 * HID, OUT, **options),
        )
    )
