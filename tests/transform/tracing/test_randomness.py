"""Dropout in its many forms: in training only, always, inside attention."""

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import (
    HID,
    OUT,
    features,
    model_of,
    random_graph,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def is_random_in(lc, training):
    lc.module.train(training)
    inputs = lc.precompute(random_graph(), features())
    with torch.no_grad():
        return not torch.equal(lc.module(*inputs), lc.module(*inputs))


def test_dropout_without_a_flag_is_always_on():
    lc = transform_body(lambda self, g, x: F.dropout(self.conv(g, self.fc(x))))
    for training in (True, False):
        assert is_random_in(lc, training)


@pytest.mark.parametrize("drop", [
    lambda self, h: F.dropout(h, 0.5),
    lambda self, h: torch.dropout(h, 0.5, True),
])  # fmt: skip
def test_swapping_with_dropout_that_is_always_on_is_not_exact(drop):
    model = model_of(
        lambda self, g, x: dgl.ops.copy_u_sum(g, drop(self, self.fc(x))),
        fc=nn.Linear(7, OUT, bias=False),
    )
    lc = lc_transform(model, random_graph(), features())
    assert not lc.report.exact
    assert is_random_in(lc, False)


@pytest.mark.parametrize("act", [
    lambda self, h: F.rrelu(h, training=self.training),
    lambda self, h: self.rrelu(h),
    lambda self, h: F.rrelu_(h, 0.1, 0.3, self.training),
])  # fmt: skip
def test_rrelu_is_random_in_training_and_never_linear(act):
    lc = transform_body(
        lambda self, g, x: dgl.ops.copy_u_sum(g, act(self, self.fc(x))),
        fc=nn.Linear(7, OUT, bias=False), rrelu=nn.RReLU(),
    )  # fmt: skip
    assert not lc.report.exact
    assert is_random_in(lc, True)
    assert not is_random_in(lc, False)


def over_hops(self, g, x, dim):
    h = self.fc(x)
    hops = [h, dgl.ops.copy_u_mean(g, h)]
    hops.append(dgl.ops.copy_u_mean(g, hops[-1]))
    return torch.stack(hops, dim)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", ["attention", "layer", "encoder"])
def test_attention_over_hops_with_dropout(kind, first):
    dim = 1 if first else 0

    def body(self, g, x):
        h = over_hops(self, g, x, dim)
        h = self.mix(h, h, h)[0] if kind == "attention" else self.mix(h)
        return h.mean(dim)

    options = {"dropout": 0.3, "batch_first": first}
    mix = nn.MultiheadAttention(HID, 2, **options)
    if kind != "attention":
        mix = nn.TransformerEncoderLayer(HID, 2, 6, **options)
    if kind == "encoder":
        mix = nn.TransformerEncoder(mix, 2, enable_nested_tensor=False)
    lc = transform_body(body, mix=mix)
    assert len(lc.inputs) == 3
    assert is_random_in(lc, True)
    assert not is_random_in(lc, False)


def test_a_probability_that_is_zero_in_evaluation():
    def body(self, g, x):
        h = over_hops(self, g, x, 1)
        p = 0.4 if self.training else 0.0
        return F.scaled_dot_product_attention(h, h, h, dropout_p=p).sum(1)

    lc = transform_body(body)
    assert "if_training(training, 0.4, 0.0)" in lc.code
    assert is_random_in(lc, True)
    assert not is_random_in(lc, False)


def test_attention_between_nodes_is_refused():
    def body(self, g, x):
        h = self.fc(x).unsqueeze(0)
        return self.conv(g, self.mix(h, h, h)[0].squeeze(0))

    mix = nn.MultiheadAttention(HID, 2, dropout=0.3, batch_first=True)
    with pytest.raises(LCError, match="mixes nodes"):
        transform_body(body, mix=mix)
