"""Random splits."""

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data.splits import make_split, random_split, split_by_words
from dgl_lc.data.user_ids import UserIds


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


LABELS = torch.tensor([0, 1, -1, 0, 1, 0])


def test_fractions_are_of_the_labelled_nodes():
    found = make_split((0.6, 0.2, 0.2), LABELS, seed=3)
    assert list(found) == ["train", "valid", "test"]
    assert sorted(torch.cat(list(found.values())).tolist()) == [0, 1, 3, 4, 5]
    again = make_split([0.6, 0.2, 0.2], LABELS, seed=3)
    assert all(torch.equal(found[name], again[name]) for name in found)


def test_parts_are_ids_or_masks_by_any_of_their_names():
    split = {
        "test_mask": [False, False, False, True, False, False],
        "val": np.array([1, 4]),
        "Train": torch.tensor([5, 0]),
    }
    found = make_split(split, LABELS, seed=0)
    assert {name: ids.tolist() for name, ids in found.items()} == {
        "train": [5, 0],
        "valid": [1, 4],
        "test": [3],
    }


def test_ids_are_the_users_own_and_masks_are_not_looked_up():
    ids = UserIds(list("abcdef"))
    split = {
        "train": ["f", "a"],
        "valid": np.arange(6) == 1,
        "test": [False] * 3 + [True] * 2 + [False],
    }
    found = make_split(split, LABELS, 0, ids.find)
    assert [found[name].tolist() for name in found] == [[5, 0], [1], [3, 4]]


PARTS = {"train": [0], "valid": [1], "test": [3]}


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ((0.5, 0.5), "three positive fractions"),
        ("train", "three positive fractions"),
        (PARTS | {"rest": [4]}, "split has the part 'rest'"),
        (PARTS | {"val": [4]}, "split has the part 'val'"),
        ({"train": [0], "test": [1]}, "split has no part valid"),
        (PARTS | {"test": [True]}, r"split\['test'\] is a mask of 1 entries"),
        (PARTS | {"test": ["a"]}, r"split\['test'\] should be"),
    ],
)
def test_a_wrong_split_is_refused(split, message):
    with pytest.raises(DGLError, match=message):
        make_split(split, LABELS, seed=0)


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(DGLError, match="seed should be an integer"):
        make_split((0.6, 0.2, 0.2), LABELS, seed)


def test_words_say_in_which_part_a_node_is():
    words = ["train", "Val", None, " test", float("nan"), "validation"]
    found = split_by_words(words, "split")
    assert np.flatnonzero(found["train"]).tolist() == [0]
    assert np.flatnonzero(found["valid"]).tolist() == [1, 5]
    assert np.flatnonzero(found["test"]).tolist() == [3]
    with pytest.raises(DGLError, match=r"holds 'x', and 1 others, which is no"):
        split_by_words(["train", "x", "y"], "split")
