"""Layers of polynomials of one filter: as few inputs as can be, and right."""

import operator
from functools import reduce

import numpy as np
import pytest
import torch
from dgl import function as fn
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases
from torch import nn
from transform.zoo import IN, OUT, permutation_graph, random_graph

from dgl_lc import lc_transform
from dgl_lc.testing.random_graphs import make_features

pytestmark = pytest.mark.usefixtures("double_precision")

HID = 5


def _degrees(g, h):
    return g.in_degrees().to(h.dtype).clamp(min=1)


def _aggregate(g, h, message, **features):
    with g.local_scope():
        g.ndata["h"] = h
        for name, value in features.items():
            g.edata[name] = value
        g.update_all(message, fn.sum("m", "h"))
        return g.ndata["h"]


def _between(norm):
    """D A D, with a norm before and one after the aggregation."""

    def apply(g, h):
        n = norm(_degrees(g, h))
        return _aggregate(g, h * n, fn.copy_u("h", "m")) * n

    return apply


def _on_edges(g, h):
    """The same filter, with both norms folded into edge weights."""
    n = _degrees(g, h).rsqrt()
    with g.local_scope():
        g.ndata["n"] = n
        g.apply_edges(fn.u_mul_v("n", "n", "w"))
        w = g.edata["w"]
    return _aggregate(g, h, fn.u_mul_e("h", "w", "m"), w=w)


def _half_on_edges(g, h):
    """The same filter, with one norm on edges and one on nodes."""
    n = _degrees(g, h) ** -0.5
    with g.local_scope():
        g.ndata["n"] = n
        g.apply_edges(fn.copy_u("n", "w"))
        w = g.edata["w"]
    return _aggregate(g, h, fn.u_mul_e("h", "w", "m"), w=w) * n.unsqueeze(1)


def _weighted_by_one(g, h):
    """The same filter, with weights that are all 2, and norms of a half."""
    n = _degrees(g, h).unsqueeze(-1) ** -0.5
    w = torch.full((g.num_edges(), 1), 2.0, dtype=h.dtype)
    return _aggregate(g, h * n, fn.u_mul_e("h", "w", "m"), w=w) * (n / 2)


FILTERS = {
    "power": _between(lambda d: (d**-0.5).unsqueeze(1)),
    "pow": _between(lambda d: d.unsqueeze(-1).pow(-0.5)),
    "sqrt": _between(lambda d: (1 / d.sqrt()).view(-1, 1)),
    "rsqrt": _between(lambda d: torch.rsqrt(d)[:, None]),
    "exp": _between(lambda d: torch.exp(-0.5 * d.log()).reshape(-1, 1)),
    "edges": _on_edges,
    "half": _half_on_edges,
    "twos": _weighted_by_one,
}


def _powers(apply, g, h, coefficients):
    found = [h]
    for _ in coefficients[1:]:
        found.append(apply(g, found[-1]))
    return found


def _sum(apply, g, h, c):
    powers = _powers(apply, g, h, c)
    return sum(a * p for a, p in zip(c, powers, strict=True))


def _accumulate(apply, g, h, c):
    total = torch.zeros_like(h)
    for a, p in zip(c, _powers(apply, g, h, c), strict=True):
        total += p * a
    return total


def _horner(apply, g, h, c):
    total = c[-1] * h
    for a in c[-2::-1]:
        total = apply(g, total) + a * h
    return total


def _alpha(apply, g, h, c):
    powers = _powers(apply, g, h, c)
    total = c[0] * powers[0]
    for a, p in zip(c[1:], powers[1:], strict=True):
        total = torch.add(total, p, alpha=a)
    return total


def _tensors(apply, g, h, c):
    scales = [torch.tensor(a, dtype=h.dtype) for a in c]
    powers = _powers(apply, g, h, c)
    terms = [p * a for a, p in zip(scales, powers, strict=True)]
    return reduce(operator.add, terms)


def _of_all_rows(apply, g, h, c):
    return _sum(apply, g, h[: g.num_dst_nodes()], c)[: h.shape[0]]


def _columns(apply, g, h, c):
    powers = _powers(apply, g, h, c)
    terms = [
        p * torch.full((g.num_nodes(), 1), a, dtype=h.dtype)
        for a, p in zip(c, powers, strict=True)
    ]
    return reduce(operator.add, terms)


SUMS = {
    "sum": _sum, "accumulate": _accumulate, "horner": _horner,
    "alpha": _alpha, "tensors": _tensors, "rows": _of_all_rows,
    "columns": _columns,
}  # fmt: skip


class Net(nn.Module):
    """Two layers, each a polynomial of one filter with fixed coefficients."""

    def __init__(self, layers, activation, linear_first):
        super().__init__()
        self.a = nn.Linear(IN, HID, bias=False)
        self.b = nn.Linear(HID, OUT, bias=False)
        self.layers, self.activation = layers, activation
        self.linear_first = linear_first

    def forward(self, g, x):
        for number, fc in enumerate((self.a, self.b)):
            filtered, summed, coefficients = self.layers[number]
            x = fc(x) if self.linear_first else x
            x = SUMS[summed](FILTERS[filtered], g, x, coefficients)
            x = x if self.linear_first else fc(x)
            x = x if number else self.activation(x)
        return x


def dense(g):
    """D^-1/2 A D^-1/2 as a matrix, with in-degrees at both ends."""
    n = g.num_nodes()
    u, v = (ends.numpy() for ends in g.edges())
    matrix = np.zeros((n, n))
    np.add.at(matrix, (v, u), 1.0)
    norm = np.maximum(matrix.sum(1), 1) ** -0.5
    return torch.from_numpy(norm[:, None] * matrix * norm)


def reference(model, g, x):
    """The model in float64 with a dense filter and no activation."""
    S = dense(g)
    for fc, (_, _, coefficients) in zip(
        (model.a, model.b), model.layers, strict=True
    ):
        total, power = torch.zeros_like(x), x
        for a in coefficients:
            total, power = total + a * power, S @ power
        x = fc(total)
    return x


coefficients = st.lists(
    st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 0.3, 2.0]),
    min_size=1, max_size=4,
).filter(any)  # fmt: skip
layer = st.tuples(
    st.sampled_from(sorted(FILTERS)), st.sampled_from(sorted(SUMS)),
    coefficients,
)  # fmt: skip


@settings(max_examples=cases(8, 100), deadline=None)
@given(layers=st.tuples(layer, layer), linear_first=st.booleans())
def test_two_layers_of_polynomials(layers, linear_first):
    g, x = random_graph(), make_features(60, IN, 1, torch.float64)
    torch.manual_seed(0)
    linear = Net(layers, lambda h: h, linear_first)
    lc = lc_transform(linear, g, x)
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, linear(g, x))
    torch.testing.assert_close(found, reference(linear, g, x))
    model = Net(layers, torch.relu, linear_first)
    ring = permutation_graph()
    lc = lc_transform(model, ring, x)
    found = lc.module(*lc.precompute(ring, x))
    torch.testing.assert_close(found, model(ring, x))
    first, second = ({k for k, a in enumerate(c) if a} for _, _, c in layers)
    # Of features, the first polynomial is one filter.
    hops = {i + j for i in first for j in second}
    assert len(lc.inputs) == (len(hops) if linear_first else len(second))
