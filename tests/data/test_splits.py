"""Random splits."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data.splits import random_split


@given(
    st.integers(3, 200),
    st.tuples(*[st.floats(0.001, 1)] * 3),
    st.integers(0, 9),
)
def test_parts_are_disjoint_not_empty_and_near_their_share(n, shares, seed):
    shares = np.array(shares) / sum(shares)
    nodes = np.arange(n) * 2 + 1
    parts = random_split(nodes, shares, np.random.default_rng(seed))
    assert list(parts) == ["train", "valid", "test"]
    together = torch.cat(list(parts.values()))
    assert sorted(together.tolist()) == nodes.tolist()
    for part, share in zip(parts.values(), shares, strict=True):
        assert part.dtype == torch.int64
        assert torch.equal(part, part.sort().values)
        assert len(part) >= 1
        assert abs(len(part) - n * share) <= 3


def test_shares_below_one_leave_nodes_out():
    rng = np.random.default_rng(0)
    parts = random_split(np.arange(100), (0.1, 0.2, 0.3), rng)
    assert [len(part) for part in parts.values()] == [10, 20, 30]


def test_a_seed_gives_the_same_split():
    def split(seed):
        rng = np.random.default_rng(seed)
        return random_split(np.arange(50), (0.6, 0.2, 0.2), rng)["train"]

    assert torch.equal(split(3), split(3))
    assert not torch.equal(split(3), split(4))


@pytest.mark.parametrize(
    "shares",
    [(0.5, 0.5), (0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (2, -1, 0.5), 0.6, "abc"],
)
def test_wrong_shares_are_refused(shares):
    with pytest.raises(DGLError, match="split should be three"):
        random_split(np.arange(9), shares, np.random.default_rng(0))


def test_two_nodes_cannot_be_split():
    with pytest.raises(DGLError, match="2 labelled nodes"):
        random_split(np.arange(2), (0.6, 0.2, 0.2), np.random.default_rng(0))
