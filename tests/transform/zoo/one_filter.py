"""Models of one filter that is rebuilt, summed or stacked in several ways."""

from itertools import pairwise
from math import comb

import dgl
import torch
import torch.nn.functional as F
from dgl import function as fn
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, Layers, transformed


def _linears(*widths):
    return nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))


def _scaled_sum(g, h, norm):
    """D A D h, as a user writes it."""
    with g.local_scope():
        g.ndata["h"] = h * norm
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"] * norm


@transformed("x", "S x", "S² x", "S³ x", "S⁴ x", "S⁵ x", "S⁶ x")
def cheb_three_layers():
    widths = [IN, HID, HID, OUT]
    layers = [dglnn.ChebConv(a, b, 3) for a, b in pairwise(widths)]
    return Case(Layers(*layers))


@transformed("x", "S x", "S² x")
def cheb_with_an_eigenvalue():
    def body(self, g, x):
        h = self.a(g, x, self.largest)
        return self.b(g, h, self.largest)

    return Case(
        Function(
            body, a=dglnn.ChebConv(IN, HID, 2), b=dglnn.ChebConv(HID, OUT, 2),
            largest=[1.6],
        )
    )  # fmt: skip


@transformed("S x")
def appnp_without_teleport():
    def body(self, g, x):
        return self.propagate(g, F.relu(self.fc(x)))

    return Case(
        Function(body, fc=nn.Linear(IN, OUT), propagate=dglnn.APPNPConv(1, 0.0))
    )


@transformed("S² x")
def norms_written_in_two_ways():
    def body(self, g, x):
        d = g.in_degrees().float().clamp(min=1).to(x)
        h = F.relu(self.fcs[0](_scaled_sum(g, x, (d**-0.5).unsqueeze(1))))
        return self.fcs[1](_scaled_sum(g, h, 1 / d.sqrt().view(-1, 1)))

    return Case(Function(body, fcs=_linears(IN, HID, OUT)))


@transformed("S² x")
def norms_on_edges_and_on_nodes():
    def body(self, g, x):
        with g.local_scope():
            norm = g.in_degrees().clamp(min=1).to(x) ** -0.5
            h = F.elu(self.fcs[0](_scaled_sum(g, x, norm[:, None])))
            g.ndata["norm"] = norm
            g.apply_edges(fn.u_mul_v("norm", "norm", "w"))
            g.ndata["h"] = self.fcs[1](h)
            g.update_all(fn.u_mul_e("h", "w", "m"), fn.sum("m", "h"))
            return g.ndata["h"]

    return Case(Function(body, fcs=_linears(IN, HID, OUT)))


@transformed("x", "S x", "S² x")
def rows_of_destinations():
    """As written for blocks, whose destinations come first."""

    def body(self, g, x):
        for layer in self.layers:
            own = x[: g.num_dst_nodes()]
            x = torch.tanh(layer(torch.cat([own, _mean(g, x)], dim=-1)))
        return x

    def _mean(g, h):
        with g.local_scope():
            g.srcdata["h"] = h
            g.update_all(fn.copy_u("h", "m"), fn.mean("m", "n"))
            return g.dstdata["n"]

    layers = nn.ModuleList([nn.Linear(2 * IN, HID), nn.Linear(2 * HID, OUT)])
    return Case(Function(body, layers=layers))


@transformed("x", "S x", "S² x")
def low_and_high_frequencies():
    """h + S h and h - S h, each with weights of its own."""

    def body(self, g, x):
        d = g.in_degrees().clamp(min=1).to(x).pow(-0.5).view(-1, 1)
        for low, high in zip(self.low, self.high, strict=True):
            smooth = _scaled_sum(g, x, d)
            x = F.relu(low(x + smooth)) + F.relu(high(x - smooth))
        return x

    return Case(
        Function(body, low=_linears(IN, HID, OUT), high=_linears(IN, HID, OUT))
    )


@transformed("x", "S x", "S² x", "S³ x")
def bernstein_polynomial():
    """Sums of (2 I - L)^(K-k) L^k, with L = I - S and learned weights."""

    def body(self, g, x):
        d = g.in_degrees().clamp(min=1).to(x).pow(-0.5).view(-1, 1)
        h = self.mlp(x)
        smoothed = [h]
        for _ in range(3):
            last = smoothed[-1]
            smoothed.append(2 * last - (last - _scaled_sum(g, last, d)))
        out = 0
        for k in range(4):
            term = smoothed[3 - k]
            for _ in range(k):
                term = term - _scaled_sum(g, term, d)
            out = out + comb(3, k) / 8 * F.relu(self.theta[k]) * term
        return out

    mlp = nn.Sequential(nn.Linear(IN, HID), nn.ReLU(), nn.Linear(HID, OUT))
    return Case(Function(body, mlp=mlp, theta=nn.Parameter(torch.ones(4))))


@transformed("S₁ x", "S₂ x")
def filters_stacked_by_columns():
    def body(self, g, x):
        h = F.relu(self.fc(x))
        both = [dgl.ops.copy_u_mean(g, h), dgl.ops.copy_u_sum(g, h)]
        heads = torch.cat(both, 1).view(h.shape[0], 2, -1)
        return self.out((heads * self.weight.view(1, 2, 1)).sum(1))

    return Case(
        Function(
            body, fc=nn.Linear(IN, HID), out=nn.Linear(HID, OUT),
            weight=nn.Parameter(torch.rand(2)),
        )
    )  # fmt: skip


@transformed("S₁ x", "S₂ x")
def filters_stacked_by_rows():
    def body(self, g, x):
        h = F.relu(self.fc(x))
        both = [dgl.ops.copy_u_mean(g, h), dgl.ops.copy_u_sum(g, h)]
        rows = torch.tanh(self.shared(torch.cat(both, 0)))
        return self.out(rows.view(2, g.num_nodes(), -1).mean(0))

    return Case(
        Function(
            body, fc=nn.Linear(IN, HID), shared=nn.Linear(HID, HID),
            out=nn.Linear(HID, OUT),
        )
    )  # fmt: skip


@transformed("S x")
def heads_as_rows():
    def body(self, g, x):
        h = F.relu(self.fc(x))
        rows = h.view(h.shape[0] * 2, -1)
        rows = F.elu(self.head(rows)).view(h.shape[0], -1)
        return self.out(dgl.ops.copy_u_mean(g, rows))

    return Case(
        Function(
            body, fc=nn.Linear(IN, HID), head=nn.Linear(HID // 2, HID // 2),
            out=nn.Linear(HID, OUT),
        )
    )  # fmt: skip


@transformed("x", "S x", "S² x")
def halves_of_joined_rows():
    """Two branches through the same layer, as one batch of rows."""

    def body(self, g, x):
        for fc in self.fcs:
            joined = torch.cat([x, dgl.ops.copy_u_mean(g, x)])
            own, others = F.relu(fc(joined)).chunk(2)
            x = own - 0.5 * others
        return x

    return Case(Function(body, fcs=_linears(IN, HID, OUT)))
