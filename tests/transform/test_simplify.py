"""Scalars are coefficients, and what is 0 or 1 vanishes."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    Function,
    features,
    permutation_graph,
    random_graph,
    randomised,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = [
    pytest.mark.usefixtures("double_precision"),
    pytest.mark.filterwarnings("ignore:.*lambda_max"),
]


def names(lc):
    return [str(entry) for entry in lc.inputs]


class Cheb(nn.Module):
    """ChebConv layers, with an eigenvalue that the model knows."""

    def __init__(self, layers, k=3, largest=None):
        super().__init__()
        self.layers = nn.ModuleList(
            dglnn.ChebConv(IN if n == 0 else HID, HID, k) for n in range(layers)
        )
        self.largest = largest

    def forward(self, g, x):
        for layer in self.layers:
            x = layer(g, x, self.largest)
        return x


@pytest.mark.parametrize("largest", [None, [1.7]])
@pytest.mark.parametrize(("layers", "powers"), [(1, 3), (2, 5), (3, 7)])
def test_chebyshev_layers_need_the_powers_of_one_filter(
    layers, powers, largest
):
    torch.manual_seed(0)
    model = randomised(Cheb(layers, largest=largest)).double()
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    assert len(lc.inputs) == powers
    assert len(lc.report.filters) == 1
    ring = permutation_graph()
    found = lc.module(*lc.precompute(ring, x))
    torch.testing.assert_close(found, model(ring, x))
    lc.precompute(random_graph(seed=8), x)


@pytest.mark.parametrize(
    "change",
    [
        lambda g, h: h[: g.num_dst_nodes()],
        lambda g, h: h[: h.shape[0]],
        lambda g, h: h[: g.num_nodes(), :],
        lambda g, h: h * 1.0,
        lambda g, h: h / 1,
        lambda g, h: 0 + h - 0.0,
        lambda g, h: h + 0.0 * torch.tanh(g.in_degrees().to(h).view(-1, 1) * h),
        lambda g, h: torch.zeros_like(h) + h,
        lambda g, h: torch.add(h, h.exp(), alpha=0.0),
        lambda g, h: h + dgl.ops.copy_u_sum(g, 0.0 * h),
        lambda g, h: h - -(h * 0.0),
        lambda g, h: (0.0 * h) @ torch.eye(HID, dtype=h.dtype) + h,
        lambda g, h: h * torch.ones(g.num_nodes(), 1, dtype=h.dtype),
        lambda g, h: 4 * h * torch.full((g.num_nodes(), 1), 0.25).to(h.dtype),
    ],
)
def test_what_changes_nothing_vanishes(change):
    def body(self, g, x):
        return self.conv(g, change(g, torch.relu(self.fc(x))))

    lc = transform_body(body)
    plain = transform_body(
        lambda self, g, x: self.conv(g, torch.relu(self.fc(x)))
    )
    assert names(lc) == ["S x"]
    assert lc.code.count("=") == plain.code.count("=")


def test_terms_with_a_coefficient_of_zero_vanish():
    def body(self, g, x):
        return self.conv(g, torch.relu(self.fc(x)))

    lc = transform_body(body, conv=dglnn.APPNPConv(1, 0.0))
    assert names(lc) == ["S x"]


def test_a_scalar_is_not_swapped_with_what_is_not_linear():
    """A factor stays where it is: tanh(2 S h) is not 2 tanh(S h)."""

    def body(self, g, x):
        h = torch.tanh(self.fc(x)) * torch.full((g.num_nodes(), 1), 2.0).to(x)
        return self.conv(g, h)

    lc = transform_body(body)
    assert names(lc) == ["S x"]
    assert "* 2.0" in lc.code


def has_edges(g, h):
    return (g.in_degrees() > 0).to(h).view(-1, 1)


def masked():
    def body(self, g, x):
        h = torch.tanh(self.fc(x)) * has_edges(g, x)
        return self.conv(g, h)

    return Function(
        body, fc=nn.Linear(IN, HID),
        conv=dglnn.GraphConv(HID, OUT, allow_zero_in_degree=True),
    ).double()  # fmt: skip


def with_sources():
    """A graph in which ten nodes have edges out, and none in."""
    u, v = random_graph().edges()
    more = torch.arange(60, 70)
    return dgl.graph((torch.cat([u, more]), torch.cat([v, more - 60])))


def test_a_factor_that_is_one_number_only_elsewhere_stays_a_factor():
    (plain,) = lc_transform(masked(), random_graph(), features()).inputs
    lc = lc_transform(masked(), with_sources(), features(70))
    assert len(lc.inputs[0].word) == len(plain.word) + 1


def test_a_number_is_checked_again_on_another_graph():
    lc = lc_transform(masked(), random_graph(), features())
    lc.precompute(random_graph(seed=5), features())
    with pytest.raises(LCError, match="but not on this graph"):
        lc.precompute(with_sources(), features(70))


def test_buffers_are_no_coefficients():
    """A buffer can be changed later: it stays in the LC version."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.tensor(0.0))
            self.fc, self.conv = nn.Linear(IN, HID), dglnn.GraphConv(HID, OUT)

        def forward(self, g, x):
            h = torch.relu(self.fc(x))
            return self.conv(g, h + self.scale * h.tanh())

    assert (
        "self.scale"
        in lc_transform(Scaled().double(), random_graph(), features()).code
    )


def test_sums_of_features_need_as_few_inputs_as_can_be():
    """Polynomials of features that are sums of each other are not inputs."""

    def body(self, g, x):
        h1 = self.conv(g, x)
        first, second = x + h1, x - 2 * h1
        both = torch.cat([first, second, 3 * first], 1)
        return self.out(torch.relu(self.fc(both)))

    def conv(g, x):
        return dgl.ops.copy_u_sum(g, x)

    parts = {"fc": nn.Linear(3 * IN, HID), "out": nn.Linear(HID, OUT)}
    lc = transform_body(body, conv=conv, **parts)
    assert names(lc) == ["x", "S x"]
    lc = transform_body(
        lambda self, g, x: self.fc(
            torch.cat([x + conv(g, x), 2 * (x + conv(g, x)), x * 0], 1)
        ),
        **parts,
    )
    assert len(lc.inputs) == 2
