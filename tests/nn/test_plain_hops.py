"""What the layers on plain hop tensors share."""

import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from dgl_lc.nn.plain import LCGraphConv


@pytest.mark.parametrize(
    "activation",
    [lambda x: F.softmax(x, dim=1), F.normalize, nn.LayerNorm(3)],
)
def test_an_activation_sees_rows_of_one_tensor_of_hops(activation):
    conv = LCGraphConv(4, 3, activation=activation)
    # As many rows as columns, so that a wrong axis is not an error.
    hops = torch.randn(4, 3, 4)
    expected = conv(None, list(hops))
    found = conv(None, hops)
    assert found.shape == (3, 3, 3)
    for hop in range(3):
        torch.testing.assert_close(found[hop], expected[hop])
    assert conv(None, hops[:2, :0]).shape == (0, 3)


def test_a_pair_of_features_is_not_taken_for_two_hops():
    pair = torch.randn(5, 4), torch.randn(3, 4)
    with pytest.raises(DGLError, match="pair of features"):
        LCGraphConv(4, 3)(None, pair)


def test_an_activation_that_is_a_module_can_be_printed():
    assert "ReLU()" in repr(LCGraphConv(4, 3, activation=nn.ReLU()))
    assert "activation=<built-in" in repr(
        LCGraphConv(4, 3, activation=torch.tanh)
    )
