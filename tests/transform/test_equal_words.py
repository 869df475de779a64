"""Equal filters are one letter, and filters that differ never are."""

import dgl
import pytest
import torch
from dgl import function as fn
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    Function,
    Layers,
    features,
    permutation_graph,
    random_graph,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.assumptions import SameFilter

pytestmark = pytest.mark.usefixtures("double_precision")


def aggregate(g, h):
    with g.local_scope():
        g.ndata["h"] = h
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
        return g.ndata["h"]


def two_layers(first, second):
    """Two linear layers, with filters that are written as functions."""

    def body(self, g, x):
        h = torch.relu(self.a(first(g, x)))
        return self.b(second(g, h))

    return Function(body, a=nn.Linear(IN, HID), b=nn.Linear(HID, OUT))


def scaled(norm):
    """D A, with a norm made of the in-degrees."""
    return lambda g, h: aggregate(g, h) * norm(g.in_degrees().to(h)).view(-1, 1)


def names(model, g, n=60):
    return [str(entry) for entry in lc_transform(model, g, features(n)).inputs]


def with_hub(n=60, degree=300):
    """A ring, with many edges into one of its nodes."""
    ring = torch.arange(n)
    u = torch.cat([ring, torch.arange(degree) % n])
    v = torch.cat([ring.roll(1), torch.zeros(degree, dtype=torch.int64)])
    return dgl.graph((u, v), num_nodes=n)


def mean(d):
    return 1 / d.clamp(min=1)


def mean_of_100(d):
    return 1 / d.clamp(1, 100)


def test_spellings_of_one_norm_are_one_filter():
    spellings = [
        mean, lambda d: d.clamp(min=1) ** -1,
        lambda d: d.clamp(min=1.0).pow(-1),
        lambda d: torch.reciprocal(torch.maximum(d, torch.ones_like(d))),
        lambda d: torch.where(d > 1, 1 / d, torch.ones_like(d)),
    ]  # fmt: skip
    for other in spellings:
        model = two_layers(scaled(mean), scaled(other))
        assert names(model, random_graph()) == ["S² x"]


def test_layers_of_dgl_and_filters_by_hand_are_one_filter():
    def by_hand(g, h):
        out = g.out_degrees().to(h).clamp(min=1).rsqrt().unsqueeze(1)
        into = g.in_degrees().to(h).clamp(min=1).sqrt().unsqueeze(1)
        return aggregate(g, h * out) / into

    def body(self, g, x):
        h = torch.relu(self.a(g, x))
        return self.c(by_hand(g, torch.relu(self.b(g, h))))

    model = Function(
        body, a=dglnn.GraphConv(IN, HID), b=dglnn.GraphConv(HID, HID),
        c=nn.Linear(HID, OUT),
    )  # fmt: skip
    assert names(model, random_graph()) == ["S³ x"]


def test_a_product_of_norms_is_the_norm_of_the_product():
    """D A D^-1 A D is a power of D A D: the same with another grouping."""

    def body(self, g, x):
        d = g.in_degrees().to(x).clamp(min=1).view(-1, 1)
        once = aggregate(g, self.a(x) * d**-0.5) * d**-0.5
        twice = aggregate(g, self.b(x) * d**-0.5) / d
        twice = aggregate(g, twice) * d**-0.5
        both = aggregate(g, torch.tanh(once) * d**-0.5) * d**-0.5
        return self.c(torch.tanh(twice) + both)

    model = Function(
        body, a=nn.Linear(IN, HID), b=nn.Linear(IN, HID),
        c=nn.Linear(HID, OUT),
    )  # fmt: skip
    assert len(names(model, random_graph())) == 1


def test_a_limit_of_degrees_counts_where_it_has_an_effect():
    model = two_layers(scaled(mean), scaled(mean_of_100))
    assert names(model, random_graph()) == ["S² x"]
    assert names(model, with_hub()) == ["S₁ S₂ x"]


def test_filters_are_compared_again_on_another_graph():
    x = features()
    model = two_layers(scaled(mean), scaled(mean_of_100)).double()
    lc = lc_transform(model, random_graph(), x)
    lc.precompute(random_graph(seed=4), x)
    for method in (lc.precompute, lc.drift):
        with pytest.raises(LCError, match="differ on this graph"):
            method(with_hub(), x)


def test_factors_of_nodes_without_edges_have_no_effect():
    def other(d):
        return torch.where(d > 0, 1 / d, torch.zeros_like(d))

    g = dgl.graph(([0, 1, 2, 3, 3], [1, 2, 3, 0, 0]), num_nodes=60)
    model = two_layers(scaled(mean), scaled(other))
    assert names(model, g) == ["S² x"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (aggregate, scaled(mean)),
        (aggregate, lambda g, h: aggregate(dgl.reverse(g), h)),
        (scaled(mean), scaled(lambda d: d.clamp(min=1) ** -0.9)),
        (scaled(mean), scaled(lambda d: 1 / (d + 1e-3))),
        (scaled(mean), lambda g, h: aggregate(g, h / g.in_degrees()[:, None])),
    ],
)
def test_filters_that_differ_are_kept_apart(first, second):
    """Even on a graph on which most filters are equal."""
    model = two_layers(first, second)
    for g in (permutation_graph(), random_graph()):
        assert names(model, g) == ["S₁ S₂ x"]


def test_high_powers_of_a_filter_are_not_one_power():
    """On a connected graph, they converge to the same matrix."""
    model = Layers(*(dglnn.GraphConv(IN, IN) for _ in range(40)))

    def body(self, g, x):
        return self.layers(g, x) + x

    g = dgl.add_self_loop(random_graph())
    model = Function(body, layers=model)
    assert names(model, g) == ["x", "S⁴⁰ x"]


def test_a_row_that_differs_is_noticed():
    g = with_hub(n=2000)
    x = features(2000)
    model = two_layers(scaled(mean), scaled(lambda d: 1 / d.clamp(1, 300)))
    # One of 2,000 rows has another factor: 301 instead of 300.
    lc = lc_transform(model.double(), g, x)
    assert len(lc.report.filters) == 2


def test_nothing_is_compared_where_filters_are_written_alike(monkeypatch):
    """On the user's graph, which may be large."""
    asked = []
    right = SameFilter.holds

    def holds(self, evaluate):
        asked.append(evaluate.call.num_nodes)
        return right(self, evaluate)

    monkeypatch.setattr(SameFilter, "holds", holds)
    model = Layers(dglnn.GraphConv(IN, HID), dglnn.GraphConv(HID, OUT))
    assert names(model, random_graph()) == ["S² x"]
    assert 60 not in asked
