"""Outputs in dataclasses, and those that no tensors can be found in."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transform.zoo import IN, OUT, Function, random_graph
from transform.zoo.propagation import mean_over_edges

from dgl_lc import LCError, lc_transform


@dataclass
class Output:
    logits: torch.Tensor
    rest: dict
    loss: torch.Tensor | None = None


class Opaque:
    def __init__(self, rows):
        self.rows = rows


def model_that_returns(make):
    torch.manual_seed(0)

    def body(self, g, x):
        h = mean_over_edges(g, x)
        return make(self.fc(h), h)

    return Function(body, fc=nn.Linear(IN, OUT))


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: Output(a, {"hidden": b}),
        lambda a, b: SimpleNamespace(logits=a, rest={"hidden": b}, loss=None),
        lambda a, b: {"logits": a, "rest": {"hidden": b}, "loss": None},
    ],
    ids=["dataclass", "namespace", "dict"],
)
def test_a_dataclass_becomes_a_dict(make):
    model = model_that_returns(make)
    g, x = random_graph(), torch.randn(60, IN)
    lc = lc_transform(model, g, x)
    found, h = lc.module(*lc.precompute(g, x)), mean_over_edges(g, x)
    assert list(found) == ["logits", "rest", "loss"]
    assert found["loss"] is None
    torch.testing.assert_close(found["logits"], model.fc(h))
    torch.testing.assert_close(found["rest"]["hidden"], h)
    assert lc.drift(g, x).relative < 1e-5


def test_an_object_in_the_output_is_refused():
    model = model_that_returns(lambda a, b: (a, Opaque(b)))
    with pytest.raises(
        LCError, match="an object of the class Opaque"
    ) as caught:
        lc_transform(model, random_graph(), torch.randn(60, IN))
    assert caught.value.code == "LC028"
