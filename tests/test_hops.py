"""The container of hop features."""

import pytest
import torch
from dgl import DGLError

from dgl_lc import HopFeatures
from dgl_lc.hops import FilterSpec


@pytest.fixture
def hops():
    tensors = [torch.full((3, 2), float(k)) for k in (0, 2)]
    return HopFeatures(tensors, [0, 2], FilterSpec(), torch.tensor([5, 1, 1]))


def test_a_hop_is_found_by_its_number(hops):
    assert torch.equal(hops[2], torch.full((3, 2), 2.0))
    assert (hops.K, hops.hops, len(hops)) == (2, [0, 2], 2)
    assert hops.shape == (3, 2)
    assert hops.dtype == torch.float32
    assert hops.device == torch.device("cpu")
    assert hops.nbytes == 2 * 3 * 2 * 4
    assert [int(t[0, 0]) for t in hops] == [0, 2]


@pytest.mark.parametrize("wrong", [1, -1, 3, "a"])
def test_a_hop_that_is_missing_is_named(hops, wrong):
    with pytest.raises(
        DGLError, match=r"these hop features have hops \[0, 2\]"
    ):
        hops[wrong]


def test_it_can_be_read(hops):
    assert repr(hops) == (
        "HopFeatures(hops=[0, 2], rows=3, columns=2, dtype=torch.float32)"
    )
