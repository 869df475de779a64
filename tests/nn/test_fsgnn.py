"""FSGNN's forms of two and of three layers."""

import pytest
import torch
import torch.nn.functional as F
from model_cases import (
    HID,
    IN,
    OUT,
    make_feat,
    make_graph,
)

from dgl_lc import nn

graph, feat = pytest.fixture(make_graph), pytest.fixture(make_feat)


def test_dropouts_of_fsgnn_come_before_the_hidden_and_the_output_layer(
    graph, feat
):
    def alike(found, row):
        return torch.allclose(found, row.expand_as(found))

    made = {
        rates: nn.FSGNN(
            IN, HID, OUT, num_layers=3, dropout=rates[0], dropout2=rates[1]
        ).double()
        for rates in [(1.0, 0.0), (0.0, 1.0), (1.0, None)]
    }
    # Of what is dropped entirely, the next layer's bias is left.
    model = made[1.0, 0.0]
    hidden = F.relu(model.hidden.bias)
    assert alike(model(graph, feat), model.output(hidden))
    model = made[0.0, 1.0]
    assert alike(model(graph, feat), model.output.bias)
    model = made[1.0, None]
    assert model.dropout2.p == 1.0
    assert alike(model(graph, feat), model.output.bias)


def test_fsgnn_of_two_layers_is_read_from_an_older_config():
    made = nn.FSGNN(IN, HID, OUT, K=1, dropout=0.5)
    config = {
        name: value
        for name, value in made.config.items()
        if name not in ("num_layers", "dropout2")
    }
    again = nn.FSGNN(**config)
    again.load_state_dict(made.state_dict())
    assert again.config == made.config
    assert {name.split(".")[0] for name in made.state_dict()} == {
        "layers", "att", "output",
    }  # fmt: skip
