"""Published models that are polynomials of one filter."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .cases import HID, IN, OUT, Case, Function, transformed
from .propagation import hops_of, normed


@transformed("x", "S x", "S² x", "S³ x")
def gprgnn_with_numpy_weights():
    def body(self, g, x):
        h = self.b(F.dropout(F.relu(self.a(x)), 0.5, self.training))
        hops = hops_of(g, h, 3)
        return F.log_softmax(
            sum(w * h for w, h in zip(self.gamma, hops, strict=True)), dim=1
        )

    gamma = 0.1 * 0.9 ** np.arange(4)
    return Case(
        Function(
            body,
            a=nn.Linear(IN, HID),
            b=nn.Linear(HID, OUT),
            gamma=nn.Parameter(torch.tensor(gamma)),
        )
    )


@transformed("x", "S x", "S² x", "S³ x")
def ssgc_after_a_layer():
    def body(self, g, x):
        h = F.relu(self.a(x))
        total = torch.zeros_like(h)
        for step in hops_of(g, h, 3)[1:]:
            total += step
        return self.b(0.05 * h + 0.95 * total / 3)

    return Case(Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT)))


@transformed("x", "S x", "S² x", exact=True)
def lightgcn_on_features():
    def body(self, g, x):
        return torch.stack(hops_of(g, self.fc(x), 2), dim=1).mean(dim=1)

    return Case(Function(body, fc=nn.Linear(IN, OUT, bias=False)))


@transformed("x", "S x", "S² x")
def mixhop_by_powers():
    def body(self, g, x):
        columns = []
        for power, fc in self.powers.items():
            columns.append(hops_of(g, fc(x), int(power))[-1])
        return torch.hstack(columns).relu() @ self.weight

    return Case(
        Function(
            body,
            powers=nn.ModuleDict({str(p): nn.Linear(IN, 4) for p in range(3)}),
            weight=nn.Parameter(torch.randn(12, OUT)),
        )
    )


@transformed("x", "S x", "S² x")
def bernnet():
    def body(self, g, x):
        h = self.b(F.relu(self.a(x)))
        weights, K = F.softplus(self.weights), 2
        sums = [h]
        for _ in range(K):
            sums.append(sums[-1] + normed(g, sums[-1]))
        total = 0
        for k in range(K + 1):
            term = sums[K - k]
            for _ in range(k):
                term = term - normed(g, term)
            total = total + math.comb(K, k) / 2**K * weights[k] * term
        return total

    return Case(
        Function(
            body,
            a=nn.Linear(IN, HID),
            b=nn.Linear(HID, OUT),
            weights=nn.Parameter(torch.ones(3)),
        )
    )


@transformed("x", "S x", "S² x", "S³ x")
def chebnet_with_interpolation():
    def body(self, g, x):
        h, K = self.fc(x), 3
        terms = [h, -normed(g, h)]
        for _ in range(2, K + 1):
            terms.append(-2 * normed(g, terms[-1]) - terms[-2])
        angles = [(K - j + 0.5) * math.pi / (K + 1) for j in range(K + 1)]
        total = 0
        for k, term in enumerate(terms):
            weight = sum(
                self.values[j] * math.cos(k * angle)
                for j, angle in enumerate(angles)
            )
            total = total + 2 / (K + 1) * weight * term
        return total

    return Case(
        Function(
            body, fc=nn.Linear(IN, OUT), values=nn.Parameter(torch.rand(4))
        )
    )


@transformed("x", "S x", "S² x")
def arma():
    def body(self, g, x):
        h = self.first(x)
        for _ in range(2):
            skip = self.skip(F.dropout(x, 0.2, self.training))
            h = F.relu(normed(g, self.step(h)) + skip)
        return h

    return Case(
        Function(
            body,
            first=nn.Linear(IN, OUT),
            step=nn.Linear(OUT, OUT),
            skip=nn.Linear(IN, OUT),
        )
    )
