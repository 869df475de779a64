"""What is linear, what is linear with a bias, and what is not."""

import pytest
import torch
from dgl import nn as dglnn
from night import every, in_turn
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import lc_transform

BIASES = [0.01, 0.3, 1.0, 2.0, 3.0, 10.0, 1e2, 1e3, 1e4]


def biased(bias, after=lambda h: h):
    def body(self, g, x):
        return self.conv(g, after(self.fc(x)))

    torch.manual_seed(0)
    fc = nn.Linear(IN, IN)
    nn.init.constant_(fc.bias, bias)
    conv = dglnn.GraphConv(IN, OUT, allow_zero_in_degree=True)
    nn.init.constant_(conv.bias, bias)
    return Function(body, fc=fc, conv=conv)


# By day each bias with one scale, and with one function; at night with all.
@pytest.mark.parametrize(("bias", "scale"), in_turn(BIASES, [1e-3, 1.0, 1e3]))
def test_a_bias_of_any_size_is_aggregated(bias, scale):
    x = scale * features().float()
    g = random_graph()
    model = biased(bias)
    lc = lc_transform(model, g, x, bias="exact")
    assert lc.report.exact
    found, expected = lc.module(*lc.precompute(g, x)), model(g, x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * bias)
    outside = lc_transform(model, g, x)
    assert [entry.kind for entry in outside.report.inexact] == ["bias"]


@pytest.mark.parametrize(
    ("bias", "bend"),
    in_turn(
        BIASES,
        [
            torch.relu,
            torch.tanh,
            lambda h: h + 1e-3 * h**2,
            lambda h: h + 1e-4 * h.abs(),
        ],
    ),
)
def test_what_is_not_linear_is_found_beside_a_bias(bias, bend):
    def after(h):
        return bend(h) + bias

    lc = lc_transform(
        biased(bias, after), random_graph(), features().float(), bias="exact"
    )
    assert not lc.report.exact


@pytest.mark.parametrize("bias", every(3, BIASES))
def test_one_operation_with_a_small_non_linear_term_and_a_bias(bias):
    """A module of torch that is nearly linear, and adds a number."""
    bend, large = nn.Softplus(10.0, threshold=1e9), torch.linspace(5, 15, 99)
    alone = torch.cat([bend(one) for one in large.split(1)])
    if not torch.allclose(bend(large), alone):
        pytest.skip("softplus of this torch depends on the place of a number")
    for beta in (1.0, 10.0):
        lc = lc_transform(
            biased(bias, nn.Softplus(beta, threshold=1e9)),
            random_graph(), features().float(), bias="exact",
        )  # fmt: skip
        assert not lc.report.exact
