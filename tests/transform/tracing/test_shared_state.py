"""What a forward keeps outside of the model: of probes, nothing is kept."""

import functools
from typing import ClassVar

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_transform

CACHE: dict = {}
NUMBER = None
CALLS: list = []


class Kept:
    number = None


class Holder:
    def __init__(self):
        self.items = {"norms": {}}


HOLDER = Holder()


def mean_degree(g):
    return float(g.in_degrees().float().mean())


def in_dict(self, g, x):
    if "n" not in CACHE:
        CACHE["n"] = mean_degree(g)
    return dgl.ops.copy_u_sum(g, self.fc(x)) * CACHE["n"]


def in_global(self, g, x):
    global NUMBER
    if NUMBER is None:
        NUMBER = mean_degree(g)
    return dgl.ops.copy_u_sum(g, self.fc(x)) * NUMBER


def in_class(self, g, x):
    if Kept.number is None:
        Kept.number = mean_degree(g)
    return dgl.ops.copy_u_sum(g, self.fc(x)) * Kept.number


def in_default(self, g, x, kept={}):  # noqa: B006
    if "n" not in kept:
        kept["n"] = mean_degree(g)
    return dgl.ops.copy_u_sum(g, self.fc(x)) * kept["n"]


def in_attribute(self, g, x):
    if not hasattr(in_attribute, "number"):
        in_attribute.number = mean_degree(g)
    return dgl.ops.copy_u_sum(g, self.fc(x)) * in_attribute.number


def in_closure():
    number = None

    def body(self, g, x):
        nonlocal number
        if number is None:
            number = mean_degree(g)
        return dgl.ops.copy_u_sum(g, self.fc(x)) * number

    return body


def of(body):
    return Function(body, fc=nn.Linear(IN, OUT))


@pytest.mark.parametrize(
    "body",
    [in_dict, in_global, in_class, in_default, in_attribute, in_closure()],
)
def test_a_number_that_is_kept_is_one_of_the_graph(body):
    with pytest.raises(LCError) as caught:
        lc_transform(of(body), random_graph(), features().float())
    assert caught.value.code == "LC018"
    kept = in_default.__defaults__[0], vars(in_attribute)
    assert not any((CACHE, NUMBER, Kept.number, *kept))


class Cached(nn.Module):
    """Keeps the norm of the first graph, for all its instances."""

    norms: ClassVar[dict] = {}

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(IN, OUT)

    def forward(self, g, x):
        for norms in (self.norms, HOLDER.items["norms"]):
            if "in" not in norms:
                degrees = g.in_degrees().clamp(min=1)
                norms["in"] = degrees.float().rsqrt().unsqueeze(1)
            x = x * norms["in"]
        return dgl.ops.copy_u_sum(g, self.fc(x))


def test_a_cache_of_a_class_is_not_filled_by_probes():
    g, x = random_graph(), features().float()
    model = Cached()
    lc = lc_transform(model, g, x)
    assert not Cached.norms
    assert not HOLDER.items["norms"]
    with torch.no_grad():
        expected = model(g, x)
        model.fc.bias.zero_()
        found, expected = lc.module(*lc.precompute(g, x)), model(g, x)
    torch.testing.assert_close(found, expected)
    assert len(Cached.norms["in"]) == g.num_nodes()
    Cached.norms.clear()
    HOLDER.items["norms"].clear()


@functools.cache
def inverse(number):
    return 1 / number


def test_cached_functions_forget_numbers_of_probes():
    def body(self, g, x):
        return self.fc(dgl.ops.copy_u_sum(g, x) * inverse(g.num_nodes()))

    g, x = random_graph(), features().float()
    model = of(body)
    lc = lc_transform(model, g, x)
    assert inverse.cache_info().currsize == 0
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


def test_what_only_counts_calls_is_no_reason_to_refuse():
    def body(self, g, x):
        CALLS.append(1)
        return dgl.ops.copy_u_sum(g, self.fc(x))

    lc_transform(of(body), random_graph(), features().float())
    assert not CALLS
