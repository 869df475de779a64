"""Options are checked before the model is traced, and errors name them."""

import pytest
import torch
from dgl import DGLError
from transform.zoo import Layers, features, gcn, random_graph

from dgl_lc import LCError, lc_transform


class Untraced(torch.nn.Module):
    """A model that must not be called."""

    def forward(self, g, x):
        raise AssertionError("the model was called")


@pytest.mark.parametrize(
    "options",
    [
        {"max_inputs": "abc"},
        {"max_inputs": -1},
        {"max_inputs": 0},
        {"max_inputs": 2.5},
        {"max_inputs": True},
        {"fold": "yes"},
        {"fold": None},
        {"copy": 1},
        {"ignore_edge_dropout": "no"},
        {"bias": "no"},
        {"bias": True},
        {"bias": torch.zeros(3)},
    ],
    ids=str,
)
def test_a_wrong_option_is_named(options):
    with pytest.raises(LCError) as caught:
        lc_transform(Untraced(), random_graph(), features(), **options)
    (name,) = options
    assert caught.value.code == "LC001"
    assert caught.value.operation.startswith(f"{name}=")
    assert name in caught.value.advice


@pytest.mark.parametrize("samples", [0, -3, 2.5, "all"])
def test_a_wrong_number_of_samples_is_named(samples):
    g, x = random_graph(), features().float()
    lc = lc_transform(Layers(*gcn()), g, x)
    with pytest.raises(DGLError, match="samples="):
        lc.drift(g, x, samples=samples)
