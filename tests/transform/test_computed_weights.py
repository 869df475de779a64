"""Layers whose weights are computed before each call."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from transform.zoo import HID, IN, features, model_of, random_graph

from dgl_lc import LCError, lc_transform

pytestmark = [
    pytest.mark.usefixtures("double_precision"),
    pytest.mark.filterwarnings("ignore:.*weight_norm"),
]


@pytest.mark.parametrize("options", [{}, {"copy": True}, {"bias": "exact"}])
@pytest.mark.parametrize(
    "norm",
    [
        weight_norm,
        spectral_norm,
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
    ],
)
def test_weights_are_computed_in_the_lc_version_too(norm, options):
    model = model_of(
        lambda self, g, x: self.conv(g, F.relu(self.wn(x))),
        wn=norm(nn.Linear(IN, HID)),
    )
    del model.fc
    g, x = random_graph(), features()
    # After a call, the weight that was computed last can't be copied.
    model(g, x)
    if options.get("bias") and norm is spectral_norm:
        with pytest.raises(LCError, match="in wn"):
            lc_transform(model, g, x, **options)
        return
    lc = lc_transform(model, g, x, **options)
    inputs = lc.precompute(g, x)
    lc.module.eval()
    before = lc.module(*inputs)
    before.sum().backward()
    mine = dict(lc.module.wn.named_parameters())
    assert all(p.grad is not None for p in mine.values())
    with torch.no_grad():
        for parameter in mine.values():
            parameter.add_(torch.randn_like(parameter))
    after = lc.module(*inputs)
    assert not torch.equal(before, after)
    copied = copy.deepcopy(lc.module)
    assert torch.equal(copied(*inputs), after)
