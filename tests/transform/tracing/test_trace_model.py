"""Branches, numbers and random numbers that could escape a trace."""

import math
import random

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from transform.zoo import (
    IN,
    OUT,
    features,
    model_of,
    random_graph,
    transform_body,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.testing.random_graphs import make_features

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize("n", [40, 150, 300])
def test_hidden_branches_around_a_small_graphs_size(n):
    """Nobody sees the comparison, but probes lie on both sides."""

    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h if math.log(g.num_nodes()) > 5 else 2 * h)

    model = model_of(body)
    g, x = random_graph(n, 4 * n), features(n)
    try:
        lc = lc_transform(model, g, x)
    except LCError as error:
        assert "size or the degrees" in str(error)  # noqa: PT017
        return
    one = dgl.add_self_loop(dgl.graph(([], []), num_nodes=n))
    found = lc.module(*lc.precompute(one, x))
    torch.testing.assert_close(found, model(one, x))


@pytest.mark.parametrize("number", [
    lambda n: round(n / 1000), lambda n: int(n / 1000), lambda n: n >> 10,
    lambda n: divmod(n, 1000)[0], lambda n: math.ceil(n / 5000),
    lambda n: math.floor(n / 1000), lambda n: round(math.log10(n)),
    lambda n: math.isqrt(n) // 30, lambda n: int(math.sqrt(n)) // 30,
    lambda n: n & 1024,
])  # fmt: skip
def test_sizes_that_become_small_numbers(number):
    """Equal on all probes, and another number on a larger graph."""
    body = lambda self, g, x: self.conv(g, x) * (number(g.num_nodes()) + 1)  # noqa: E731
    conv = dglnn.GraphConv(IN, OUT, bias=False, allow_zero_in_degree=True)
    model = model_of(body, conv=conv)
    g = random_graph(3000, 9000)
    x = make_features(3000, IN, dtype=torch.float64)
    try:
        lc = lc_transform(model, g, x)
    except LCError:
        return
    found = lc.module(*lc.precompute(g, x))
    torch.testing.assert_close(found, model(g, x))


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_random_numbers_of_others(draw):
    def body(self, g, x):
        h = self.fc(x)
        return self.conv(g, h if draw() < 0.5 else F.relu(h))

    for _ in range(5):
        with pytest.raises(LCError, match="random numbers of Python"):
            transform_body(body)
