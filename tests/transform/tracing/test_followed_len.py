"""The length of a tensor in the user's code."""

import builtins

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import HID, IN, features, model_of, random_graph

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def body(self, g, x):
    n = g.in_degrees().to(x) / len(x)
    h = dgl.ops.copy_u_sum(g, self.fc(x)) * n.view(len(n), 1)
    return h if len(h) < 100 else 2 * h


def make(function):
    return model_of(function, fc=nn.Linear(IN, HID, bias=False))


def test_the_length_of_a_tensor_is_followed():
    model, g, x = make(body), random_graph(), features()
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))
    with pytest.raises(LCError, match="another branch"):
        lc.precompute(random_graph(200), features(200))


def test_names_are_as_before():
    before = builtins.len
    lc_transform(make(body), random_graph(), features())
    with pytest.raises(LCError):
        lc_transform(make(lambda self, g, x: x / 0), random_graph(), None)
    assert "len" not in globals()
    assert builtins.len is before


def test_a_length_that_is_taken_in_another_way_is_refused():
    size = builtins.len

    def hidden(self, g, x):
        return dgl.ops.copy_u_sum(g, self.fc(x)) * size(x)

    with pytest.raises(LCError, match=r"len\(\) of a tensor"):
        lc_transform(make(hidden), random_graph(), features())


def test_other_lengths_are_plain():
    def plain(self, g, x):
        parts = [self.fc(x), self.fc(2 * x)]
        return dgl.ops.copy_u_sum(g, sum(parts) / len(parts)) * len("ab")

    assert lc_transform(make(plain), random_graph(), features()).report.exact
