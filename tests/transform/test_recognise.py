"""What is row-wise, what mixes nodes, and what is linear."""

import pytest
import torch
import torch.nn.functional as F
from dgl import nn as dglnn
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    features,
    model_of,
    random_graph,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize(
    ("name", "mix"),
    [
        ("cumsum", lambda h: torch.cumsum(h, 0)),
        ("roll", lambda h: torch.roll(h, 1, 0)),
        ("sort", lambda h: torch.sort(h, 0).values),
        ("flip", lambda h: h.flip(0)),
        ("normalize", lambda h: F.normalize(h, dim=0)),
        ("softmax", lambda h: F.softmax(h, dim=0)),
        ("gather", lambda h: h[torch.arange(h.shape[0]).flip(0)]),
        ("norm", lambda h: h / h.norm()),
        ("mean", lambda h: h - h.mean(0, keepdim=True)),
        ("attention", lambda h: torch.softmax(h @ h.T, 1) @ h),
        ("layer norm", lambda h: F.layer_norm(h, h.shape)),
        ("flat", lambda h: h.view(-1).softmax(0).view(-1, HID)),
    ],
)
def test_what_mixes_nodes_is_refused(name, mix):
    with pytest.raises(LCError):
        transform_body(lambda self, g, x: self.conv(g, mix(self.fc(x))))


@pytest.mark.parametrize(
    "function",
    [
        F.relu, F.elu, F.gelu, F.silu, F.leaky_relu, torch.tanh,
        torch.sigmoid, F.softplus, F.mish, F.selu, F.hardswish, F.celu,
        lambda h: F.softmax(h, dim=-1), lambda h: F.normalize(h, dim=1),
        lambda h: h.clamp(min=0), lambda h: h * torch.sigmoid(h),
        lambda h: torch.where(h > 0, h, 0.1 * h), lambda h: h**2,
        lambda h: F.layer_norm(h, h.shape[1:]),
        lambda h: h.view(h.shape[0], 2, -1).transpose(1, 2).flatten(1),
        lambda h: h.view(-1).relu().view(-1, HID),
        lambda h: torch.einsum("nd,de->ne", h, torch.eye(HID)),
        lambda h: torch.cat(h.chunk(2, dim=1), dim=1),
        lambda h: h / (h.norm(dim=1, keepdim=True) + 1e-3),
        lambda h: (h.T * 2).T.abs(), lambda h: h - h.max(1, True).values,
    ],
)  # fmt: skip
def test_row_wise_functions_are_taken(function):
    lc = transform_body(lambda self, g, x: self.conv(g, function(self.fc(x))))
    assert [str(entry) for entry in lc.inputs] == ["S x"]
    assert "permutation" in lc.report.checked or lc.report.exact


def test_a_norm_without_statistics():
    with pytest.raises(LCError, match="running statistics"):
        transform_body(
            lambda self, g, x: self.conv(g, self.norm(self.fc(x))),
            norm=nn.BatchNorm1d(HID, track_running_stats=False),
        )


def test_a_number_of_nodes_is_named():
    with pytest.raises(LCError, match="number from the graph"):
        transform_body(lambda self, g, x: self.conv(g, self.fc(x)) / x.shape[0])


@pytest.mark.parametrize("bend", [
    lambda h: h.clamp(-100, 100), lambda h: F.hardtanh(h, -50, 50),
    lambda h: F.softshrink(h, 1e-4), lambda h: torch.round(h, decimals=5),
    lambda h: h + 1e-6, torch.sqrt, torch.log1p,
])  # fmt: skip
def test_what_bends_out_of_sight_is_not_linear(bend):
    lc = transform_body(
        lambda self, g, x: self.conv(g, bend(self.fc(x))),
        fc=nn.Linear(IN, HID, bias=False),
    )
    assert not lc.report.exact


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_a_bias_beside_large_and_small_features(scale):
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    assert not lc_transform(
        model, random_graph(), scale * features()
    ).report.exact


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_models_are_exact_at_any_scale(scale, dtype):
    model = model_of(
        lambda self, g, x: self.conv(g, 0.5 * self.fc(x)),
        fc=nn.Linear(IN, HID, bias=False),
        conv=dglnn.GraphConv(HID, OUT, bias=False, allow_zero_in_degree=True),
    ).to(dtype)
    x = (scale * features()).to(dtype)
    assert lc_transform(model, random_graph(), x).report.exact
