"""Dropout inside ``if self.training:``."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import features, random_graph, transform_body

from dgl_lc import LCError

pytestmark = pytest.mark.usefixtures("double_precision")


def functional(self, h):
    return F.dropout(h, 0.4)


def of_torch(self, h):
    return torch.dropout(h, p=0.4, train=True)


def module(self, h):
    return self.drop(h)


def twice(self, h):
    return F.dropout(self.drop(F.dropout(h, 0.2)), p=0.1)


@pytest.mark.parametrize("drop", [functional, of_torch, module, twice])
@pytest.mark.parametrize("place", ["input", "hidden", "output"])
def test_dropout_in_training_alone(drop, place):
    def body(self, g, x):
        if self.training and place == "input":
            x = drop(self, x)
        h = F.relu(self.fc(x))
        skip = h
        if self.training and place == "hidden":
            h = drop(self, h)
        h = self.conv(g, h + skip)
        if self.training and place == "output":
            h = drop(self, h)
        return h

    lc = transform_body(body, drop=nn.Dropout(0.3))
    plain = transform_body(
        lambda self, g, x: self.conv(g, 2 * F.relu(self.fc(x)))
    )
    plain.module.load_state_dict(lc.module.state_dict(), strict=False)
    inputs = lc.precompute(random_graph(), features())
    lc.module.train()
    assert not torch.equal(lc.module(*inputs), lc.module(*inputs))
    lc.module.eval()
    torch.testing.assert_close(lc.module(*inputs), plain.module(*inputs))
    counted = 3 if drop is twice else 1
    assert lc.code.count("drop") >= counted


def other_value(self, h):
    return F.dropout(h) if self.training else 2 * h


def noise(self, h):
    return h + torch.randn_like(h) if self.training else h


def doubled(self, h):
    return F.dropout(2 * h) if self.training else h


@pytest.mark.parametrize("change", [other_value, noise, doubled])
def test_other_differences_are_refused(change):
    with pytest.raises(LCError):
        transform_body(
            lambda self, g, x: self.conv(g, change(self, self.fc(x)))
        )


def test_another_value_that_is_dropped_is_refused():
    def body(self, g, x):
        a, b = self.fc(x), F.relu(self.fc(x))
        h = F.dropout(a) if self.training else b
        return self.conv(g, h + a + b)

    with pytest.raises(LCError):
        transform_body(body)
