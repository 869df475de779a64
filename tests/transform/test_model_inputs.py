"""Names of inputs."""

import pytest
import torch
from transform.zoo import (
    HID,
    features,
    model_of,
    random_graph,
)

from dgl_lc import lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize("name", ["class", "1", "-", "self", "torch", "特"])
def test_features_of_any_name(name):
    g = random_graph()
    g.ndata[name] = features()
    lc = lc_transform(
        model_of(lambda self, g: torch.tanh(self.fc(g.ndata[name]))), g
    )
    assert lc.module(*lc.precompute(g)).shape == (60, HID)
