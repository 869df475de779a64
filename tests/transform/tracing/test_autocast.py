"""Models that use autocast in forward."""

import copy
import pickle

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import HID, IN, OUT, Function, random_graph

from dgl_lc import lc_transform
from dgl_lc.testing.random_graphs import make_features


def make(body):
    torch.manual_seed(0)
    return Function(
        body, a=nn.Linear(IN, HID, bias=False), b=nn.Linear(HID, OUT)
    )


def half(self, g, x):
    """The first layer in 16 bits, the second one in 32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = self.a(x)
        assert h.dtype == torch.bfloat16
        h = h @ torch.eye(HID)
    return self.b(dgl.ops.copy_u_sum(g, F.relu(h.float())))


def test_autocast_is_in_the_lc_version():
    model, g, x = make(half), random_graph(), make_features(60, IN)
    lc = lc_transform(model, g, x)
    assert "autocast_linear" in lc.code
    assert "b = self.b(" in lc.code
    inputs = lc.precompute(g, x)
    for module in (
        lc.module,
        copy.deepcopy(lc.module),
        pickle.loads(pickle.dumps(lc.module)),
    ):
        found = module(*inputs)
        rows = (inputs[0].bfloat16() @ model.a.weight.bfloat16().T).float()
        torch.testing.assert_close(found, model.b(F.relu(rows)))


def test_a_linear_model_stays_exact():
    def body(self, g, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.a(x)
        return dgl.ops.copy_u_sum(g, h.float())

    model, g, x = make(body), random_graph(), make_features(60, IN)
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(
        lc.module(*lc.precompute(g, x)), model(g, x), rtol=0.05, atol=0.1
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_autocast_around_the_call_has_no_effect(enabled):
    def body(self, g, x):
        with torch.autocast("cpu", enabled=False):
            return self.b(dgl.ops.copy_u_sum(g, F.relu(self.a(x))))

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        lc = lc_transform(make(body), random_graph(), make_features(60, IN))
    assert "autocast" not in lc.code
