"""Functions that a model holds and that refer to the model."""

from functools import partial

import dgl
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transform.zoo import HID, IN, OUT, random_graph

from dgl_lc import LCError, lc_transform

outside = nn.Linear(IN, HID)


def add_lambda(self):
    self.encode = lambda v: self.b(F.relu(self.a(v)))


def add_default(self):
    self.encode = lambda v, model=self: model.b(F.relu(model.a(v)))


def add_layers(self):
    layers = [self.a, nn.ReLU(), self.b]

    def encode(v, place=0):
        if place == len(layers):
            return v
        return encode(layers[place](v), place + 1)

    self.encode = encode


def add_list(self):
    steps = [lambda v: F.relu(self.a(v)), lambda v: self.b(v)]
    self.steps = {"all": steps}
    self.encode = lambda v: self.steps["all"][1](self.steps["all"][0](v))


def add_parameters(self):
    a, b = self.a, self.b
    self.encode = lambda v: F.linear(
        F.relu(F.linear(v, a.weight, a.bias)), b.weight, b.bias
    )


def add_method(self):
    self.encode = partial(Held._encode, self)


class Held(nn.Module):
    """A model whose layers are called by a function that it holds."""

    def __init__(self, add):
        super().__init__()
        self.a, self.b = nn.Linear(IN, HID), nn.Linear(HID, OUT)
        add(self)

    def _encode(self, v):
        return self.b(F.relu(self.a(v)))

    def forward(self, g, x):
        return dgl.ops.copy_u_mean(g, self.encode(x))


@pytest.mark.parametrize(
    "add",
    [
        add_lambda, add_default, add_layers, add_list, add_parameters,
        add_method,
    ],
)  # fmt: skip
def test_layers_are_called_by_a_function_that_the_model_holds(add):
    torch.manual_seed(0)
    model, g, x = Held(add), random_graph(), torch.randn(60, IN)
    encode, before = model.encode, model(g, x)
    lc = lc_transform(model, g, x)
    assert list(lc.module.state_dict()) == list(model.state_dict())
    for name, parameter in model.named_parameters():
        assert dict(lc.module.named_parameters())[name] is parameter
    (inputs,) = lc.precompute(g, x)
    expected = model.b(F.relu(model.a(inputs)))
    torch.testing.assert_close(lc.module(inputs), expected)
    assert model.encode is encode
    torch.testing.assert_close(model(g, x), before)


def test_a_layer_that_is_no_part_of_the_model_is_refused():
    def add(self):
        self.encode = lambda v: self.b(F.relu(self.a(v) + outside(v)))

    with pytest.raises(LCError, match="neither a parameter of the model"):
        lc_transform(Held(add), random_graph(), torch.randn(60, IN))
