"""Ways of torch and NumPy that users' models have: writes, numbers, shapes."""

import dgl.function as fn
import numpy as np
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, gcn, transformed


def propagate(g, h):
    """Sum over incoming edges."""
    with g.local_scope():
        g.ndata["h"] = h
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"]


@transformed("x", "S x", "S² x")
def numpy_coefficients():
    def body(self, g, x):
        h = F.leaky_relu(self.fc(x), np.float64(0.2))
        weights = np.float32(0.5) ** np.arange(3)
        total = weights[0] * h
        for weight in weights[1:]:
            h = self.conv(g, h)
            total = total + weight * h
        return total * torch.from_numpy(np.linspace(1, 2, OUT)).to(h)

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, OUT),
            conv=dglnn.GraphConv(OUT, OUT, weight=False, bias=False),
        )
    )


@transformed("S² x")
def norm_with_infinities_removed():
    def body(self, g, x):
        norm = g.in_degrees().to(x) ** -0.5
        norm[torch.isinf(norm)] = 0
        norm = norm.unsqueeze(1)
        for fc in self.layers:
            x = F.relu(fc(propagate(g, x * norm) * norm))
        return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("S² x")
def edge_weights_written_in_place():
    def body(self, g, x):
        w = torch.ones(g.num_edges(), dtype=x.dtype)
        out = g.out_degrees().to(x)
        out.clamp_(min=1).pow_(-1)
        g.ndata["w"] = out
        g.apply_edges(fn.copy_u("w", "w"))
        w.mul_(g.edata.pop("w"))
        w.view(-1, 1)[:, 0].masked_fill_(w > 1, 1)
        g.edata["w"] = w
        for fc in self.layers:
            g.ndata["h"] = torch.tanh(fc(x))
            g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
            x = g.ndata["h"]
        return x

    layers = nn.ModuleList([nn.Linear(IN, HID), nn.Linear(HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("S² x")
def columns_written_in_place():
    def body(self, g, x):
        h = self.a(g, x)
        h[:, : HID // 2].relu_()
        h.view(-1, 2, HID // 2)[:, 1] *= 0.5
        h[h > 5] = 5
        return self.b(g, h)

    a, b = gcn()
    return Case(Function(body, a=a, b=b))
