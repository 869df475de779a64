"""Published architectures, in the styles in which people write them."""

import math

import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn

from .cases import HID, IN, OUT, Case, Function, refused, transformed
from .propagation import hops_of, mean_over_edges, normed, sum_over_edges


def linears(*widths):
    return nn.ModuleList(nn.Linear(a, b) for a, b in widths)


class InitialResidual(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.beta = math.log(0.5 / number + 1)
        self.own = nn.Parameter(torch.randn(HID, HID))
        self.initial = nn.Parameter(torch.randn(HID, HID))

    def forward(self, g, h, h0, alpha):
        h, h0 = (1 - alpha) * normed(g, h), alpha * h0
        options = {"beta": 1 - self.beta, "alpha": self.beta}
        return torch.addmm(h, h, self.own, **options) + torch.addmm(
            h0, h0, self.initial, **options
        )


@transformed("x", "S x", "S² x")
def gcnii_variant():
    def body(self, g, x):
        h = h0 = F.relu(self.first(x))
        for layer in self.layers:
            h = F.dropout(h, 0.3, training=self.training)
            h = F.relu(layer(g, h, h0, alpha=0.1))
        return self.last(h).log_softmax(dim=-1)

    return Case(
        Function(
            body,
            first=nn.Linear(IN, HID),
            layers=nn.ModuleList(InitialResidual(k) for k in (1, 2)),
            last=nn.Linear(HID, OUT),
        )
    )


@transformed("x", "S x", "S² x")
def h2gcn_without_two_hop_graph():
    def body(self, g, x):
        rounds = [F.relu(self.embed(x))]
        for _ in range(2):
            once = mean_over_edges(g, rounds[-1])
            rounds.append(torch.cat([once, rounds[-1]], dim=-1))
        return self.out(self.drop(torch.cat(rounds, dim=-1)))

    return Case(
        Function(
            body,
            embed=nn.Linear(IN, 2),
            drop=nn.Dropout(0.5),
            out=nn.Linear(2 + 4 + 8, OUT),
        )
    )


@transformed("x", "S x", "S² x", exact=True)
def sign_from_the_graph():
    def body(self, g, x):
        hidden = [
            F.dropout(act(fc(h)), 0.3, training=self.training)
            for act, fc, h in zip(
                self.acts, self.fcs, hops_of(g, x, 2), strict=True
            )
        ]
        return self.out(torch.cat(hidden, dim=-1))

    return Case(
        Function(
            body,
            fcs=linears(*[(IN, HID)] * 3),
            acts=nn.ModuleList(nn.PReLU() for _ in range(3)),
            out=nn.Linear(3 * HID, OUT),
        )
    )


@transformed("x", "S x", "S² x", exact=True)
def gamlp_attention_over_hops():
    def body(self, g, x):
        hops = hops_of(g, x, 2)
        reference = self.reference(torch.cat(hops, dim=1))
        scores = [self.score(torch.cat([reference, h], dim=1)) for h in hops]
        weights = F.softmax(torch.cat(scores, dim=1), dim=1)
        mixed = sum(h * weights[:, k : k + 1] for k, h in enumerate(hops))
        return self.out(F.relu(self.fc(mixed)))

    return Case(
        Function(
            body,
            reference=nn.Linear(3 * IN, HID),
            score=nn.Linear(HID + IN, 1, bias=False),
            fc=nn.Linear(IN, HID),
            out=nn.Linear(HID, OUT),
        )
    )


class SecondOrder(nn.Module):
    """A layer of GraphSAINT: neighbours of order 0, 1 and 2."""

    def __init__(self, in_feats, out_feats):
        super().__init__()
        self.fcs = linears(*[(in_feats, out_feats)] * 3)
        self.scale = nn.ParameterList(torch.ones(out_feats) for _ in range(3))
        self.shift = nn.ParameterList(torch.zeros(out_feats) for _ in range(3))

    def _norm(self, h, order):
        mean = h.mean(dim=1).view(h.shape[0], 1)
        var = h.var(dim=1, unbiased=False).view(h.shape[0], 1) + 1e-5
        h = (h - mean) * torch.rsqrt(var)
        return h * self.scale[order] + self.shift[order]

    def forward(self, g, h):
        parts = hops_of(g, h, 2, mean_over_edges)
        return torch.cat(
            [
                self._norm(F.elu(fc(part)), order)
                for order, (fc, part) in enumerate(
                    zip(self.fcs, parts, strict=True)
                )
            ],
            dim=1,
        )


@transformed("x", "S x", "S² x", "S³ x", "S⁴ x")
def graphsaint_of_order_two():
    def body(self, g, x):
        h = self.b(g, self.a(g, x))
        return self.out(F.normalize(h, p=2, dim=1))

    return Case(
        Function(
            body, a=SecondOrder(IN, 4), b=SecondOrder(12, 4),
            out=nn.Linear(12, OUT),
        )
    )  # fmt: skip


class ConcatSage(nn.Module):
    def __init__(self, in_feats, out_feats, norm):
        super().__init__()
        self.linear = nn.Linear(2 * in_feats, out_feats)
        self.norm = nn.LayerNorm(out_feats) if norm else None
        self.dropout = nn.Dropout(0.2)

    def forward(self, g, h):
        g = g.local_var()
        norm = 1.0 / g.in_degrees().to(h).unsqueeze(1)
        norm[torch.isinf(norm)] = 0
        neighbours = sum_over_edges(g, h) * norm
        h = self.linear(self.dropout(torch.cat((h, neighbours), 1)))
        return h if self.norm is None else F.relu(self.norm(h))


@transformed("x", "S x", "S² x")
def clustergcn_sage():
    def body(self, g, x):
        for layer in self.layers:
            x = layer(g, x)
        return x

    layers = [ConcatSage(IN, HID, True), ConcatSage(HID, OUT, False)]
    return Case(Function(body, layers=nn.ModuleList(layers)))


class Isomorphism(nn.Module):
    def __init__(self, in_feats):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(
            nn.Linear(in_feats, HID),
            nn.BatchNorm1d(HID),
            nn.ReLU(inplace=True),
            nn.Linear(HID, HID),
        )

    def forward(self, g, h):
        return self.mlp((1 + self.eps) * h + sum_over_edges(g, h))


@transformed("x", "S x", "S² x")
def gin_with_jumping_predictions():
    def body(self, g, x):
        hidden = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            hidden.append(F.relu(norm(layer(g, hidden[-1]))))
        return sum(
            F.dropout(fc(h), 0.5, training=self.training)
            for fc, h in zip(self.fcs, hidden, strict=True)
        )

    return Case(
        Function(
            body,
            layers=nn.ModuleList([Isomorphism(IN), Isomorphism(HID)]),
            norms=nn.ModuleList(nn.BatchNorm1d(HID) for _ in range(2)),
            fcs=linears((IN, OUT), (HID, OUT), (HID, OUT)),
        )
    )


@transformed("x", "S x", "S² x")
def resgcn_before_activation():
    def body(self, g, x):
        h = self.first(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + self.gate * conv(g, F.relu(norm(h)))
        return self.last(h)

    return Case(
        Function(
            body,
            first=nn.Linear(IN, HID),
            last=nn.Linear(HID, OUT),
            convs=nn.ModuleList(dglnn.GraphConv(HID, HID) for _ in range(2)),
            norms=nn.ModuleList(nn.BatchNorm1d(HID) for _ in range(2)),
            gate=nn.Parameter(torch.tensor(0.5)),
        )
    )


@transformed("S x", "S² x")
def jknet_with_attention():
    def body(self, g, x):
        hidden = []
        for conv in self.convs:
            x = F.relu(conv(g, x))
            hidden.append(x)
        stacked = torch.stack(hidden, dim=1)
        states, _ = self.lstm(stacked)
        weights = self.score(states).squeeze(-1).softmax(dim=-1)
        return self.out((stacked * weights.unsqueeze(-1)).sum(dim=1))

    lstm = nn.LSTM(HID, 4, bidirectional=True, batch_first=True)
    convs = [dglnn.GraphConv(IN, HID), dglnn.GraphConv(HID, HID)]
    return Case(
        Function(
            body,
            convs=nn.ModuleList(convs),
            lstm=lstm,
            score=nn.Linear(8, 1, bias=False),
            out=nn.Linear(HID, OUT),
        )
    )


@transformed("x", "S x", "S² x", exact=True)
def gru_over_hops():
    def body(self, g, x):
        _, state = self.gru(torch.stack(hops_of(g, x, 2)))
        return self.out(state[-1])

    return Case(Function(body, gru=nn.GRU(IN, HID), out=nn.Linear(HID, OUT)))


@transformed("x", "S x", "S² x", exact=True)
def convolution_over_hops():
    def body(self, g, x):
        tokens = torch.stack(hops_of(g, x, 2), dim=1)
        return self.out(F.relu(self.mix(tokens)).squeeze(1))

    return Case(Function(body, mix=nn.Conv1d(3, 1, 1), out=nn.Linear(IN, OUT)))


@transformed("S x", exact=True)
def mixture_of_experts():
    def body(self, g, x):
        h = normed(g, x)
        weights = self.router(h).softmax(dim=-1)
        results = torch.stack([expert(h) for expert in self.experts], dim=1)
        return (weights.unsqueeze(1) @ results).squeeze(1)

    experts = (
        nn.Sequential(nn.Linear(IN, HID), nn.SiLU(), nn.Linear(HID, OUT))
        for _ in range(3)
    )
    return Case(
        Function(body, router=nn.Linear(IN, 3), experts=nn.ModuleList(experts))
    )


@refused("message passing (mul, sum)", "edge weights are learned")
def fagcn():
    def body(self, g, x):
        def gate(edges):
            both = torch.cat([edges.dst["h"], edges.src["h"]], dim=1)
            return {"a": torch.tanh(self.gate(both)).squeeze()}

        with g.local_scope():
            g.ndata["h"] = h = self.fc(x)
            g.apply_edges(gate)
            g.update_all(fn.u_mul_e("h", "a", "m"), fn.sum("m", "z"))
            return 0.3 * h + g.ndata["z"]

    return Case(
        Function(body, fc=nn.Linear(IN, OUT), gate=nn.Linear(2 * OUT, 1))
    )
