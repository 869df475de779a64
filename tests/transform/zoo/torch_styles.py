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


@transformed("S² x")
def length_of_the_features():
    def body(self, g, x):
        h = self.fc(x).view(len(x), 2, HID // 2)
        h = propagate(g, h).reshape(len(h), HID)
        return self.out(propagate(g, F.relu(h)))

    return Case(Function(body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT)))


@transformed("S₁ S₂ x")
def weights_transposed_in_place():
    def body(self, g, x):
        weight = self.weight.clone()
        weight.t_()
        h = torch.mm(x, weight).unsqueeze_(1)
        h = propagate(g, h).squeeze_(1).transpose_(0, 1).relu_().t_()
        return self.b(g, h)

    _, b = gcn()
    weight = nn.Parameter(torch.randn(HID, IN))
    return Case(Function(body, weight=weight, b=b))


@transformed("S² x")
def rrelu_between_layers():
    def body(self, g, x):
        h = F.rrelu(self.a(g, x), 0.1, 0.4, self.training)
        return self.b(g, h)

    a, b = gcn()
    return Case(Function(body, a=a, b=b))


@transformed("x", "S x", "S² x")
def transformer_over_hops():
    def body(self, g, x):
        hops = [self.fc(x)]
        for _ in range(2):
            hops.append(self.conv(g, hops[-1]))
        tokens = torch.stack(hops, dim=1) + self.place
        return self.out(self.encoder(tokens)[:, 0])

    layer = nn.TransformerEncoderLayer(
        HID, 2, 2 * HID, dropout=0.2, batch_first=True, activation="gelu"
    )
    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            conv=dglnn.GraphConv(HID, HID, weight=False, bias=False),
            place=nn.Parameter(torch.randn(3, HID)),
            encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            out=nn.Linear(HID, OUT),
        )
    )


@transformed("x", "S x", "S² x")
def attention_over_hops():
    def body(self, g, x):
        hops = [self.fc(x)]
        for _ in range(2):
            hops.append(self.conv(g, hops[-1]))
        tokens = torch.stack(hops)
        mixed, _ = self.attention(tokens[:1], tokens, tokens)
        return self.out(F.dropout(mixed[0], 0.3, self.training))

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            conv=dglnn.GraphConv(HID, HID, weight=False, bias=False),
            attention=nn.MultiheadAttention(HID, 2, dropout=0.1),
            out=nn.Linear(HID, OUT),
        )
    )


@transformed("S² x")
def weight_norm_of_layers():
    def body(self, g, x):
        h = self.act(propagate(g, self.fc(x)))
        return propagate(g, self.out(h))

    norm = nn.utils.parametrizations.weight_norm
    return Case(
        Function(
            body,
            fc=norm(nn.Linear(IN, HID)),
            act=nn.RReLU(0.1, 0.3),
            out=norm(nn.Linear(HID, OUT)),
        )
    )


@transformed("S x", "S² x")
def heads_below_each_other():
    def body(self, g, x):
        heads, n = 2, x.shape[0]
        results = []
        h = self.fc(x)
        for _ in range(2):
            h = propagate(g, h).view(n * heads, -1)
            h = F.normalize(self.head(h), dim=1).view(n, -1)
            results.append(h)
        return self.out(torch.cat(results, dim=1).reshape(n, 2 * HID))

    return Case(
        Function(
            body,
            fc=nn.Linear(IN, HID),
            head=nn.Linear(HID // 2, HID // 2),
            out=nn.Linear(2 * HID, OUT),
        )
    )
