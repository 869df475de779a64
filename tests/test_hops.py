"""Hop features: hops by their numbers, and what is made of them."""

import copy
import io
import pickle

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc import HopFeatures, block_aggregate
from dgl_lc.hops import FilterSpec
from dgl_lc.testing.random_graphs import make_features


@pytest.fixture
def hops():
    g = dgl.graph(([0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]))
    return block_aggregate(g, make_features(5, 4), 3)


@pytest.fixture
def two():
    tensors = [torch.full((3, 2), float(k)) for k in (0, 2)]
    return HopFeatures(tensors, [0, 2], FilterSpec(), torch.tensor([5, 1, 1]))


def forms(hops):
    """The same rows as one tensor for each hop, and as one stack."""
    stack = torch.cat(list(hops))
    whole = HopFeatures.from_stack(stack, hops.hops, hops.filter)
    return [hops, whole, hops.rows(torch.arange(hops.shape[0]))]


def test_a_hop_is_found_by_its_number(two):
    assert torch.equal(two[2], torch.full((3, 2), 2.0))
    assert (two.K, two.hops, len(two)) == (2, [0, 2], 2)
    assert two.shape == two.size() == (3, 2)
    assert two.size(1) == two.ndim == two.dim() == 2
    assert [int(t[0, 0]) for t in two] == [0, 2]


@pytest.mark.parametrize("wrong", [1, -1, 3, "a"])
def test_a_hop_that_is_missing_is_named(two, wrong):
    with pytest.raises(
        DGLError, match=r"these hop features have hops \[0, 2\]"
    ):
        two[wrong]


def test_it_can_be_read(two):
    assert repr(two) == (
        "HopFeatures(hops=[0, 2], rows=3, columns=2, dtype=torch.float32)"
    )


@pytest.mark.parametrize("hops", [[], [1, 0], [0, 0], [-1, 0]])
def test_hops_have_to_ascend(hops):
    tensors = [torch.zeros(2, 1)] * 2
    with pytest.raises(DGLError, match="ascending"):
        HopFeatures(tensors, hops, FilterSpec())
    with pytest.raises(DGLError, match="ascending"):
        HopFeatures.from_stack(torch.cat(tensors), hops, FilterSpec())


def test_there_is_a_tensor_for_each_hop():
    with pytest.raises(DGLError, match=r"1 tensors .* hops \[0, 1\]"):
        HopFeatures([torch.zeros(2, 1)], [0, 1], FilterSpec())
    with pytest.raises(DGLError, match="multiple"):
        HopFeatures.from_stack(torch.zeros(3, 1), [0, 1], FilterSpec())


def test_hop_0_shares_memory_with_the_features():
    x = make_features(5, 4)
    hops = block_aggregate(dgl.graph(([0, 1], [1, 2]), num_nodes=5), x, 2)
    assert hops[0].data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "chosen", [[1], [0, 1], [1, 2, 3], [0, 3], [3, 0], [0, 2, 1, 3], [2, 2]]
)
def test_selected_hops_are_those_of_their_numbers(hops, chosen):
    for form in forms(hops):
        found = form.select(chosen)
        assert found.hops == sorted(set(chosen))
        for k in found.hops:
            assert torch.equal(found[k], hops[k])
            assert found[k].data_ptr() == form[k].data_ptr()
        expected = torch.cat([hops[k] for k in found.hops])
        assert torch.equal(found.stack, expected)


def test_hops_that_can_not_be_selected_are_named(hops):
    with pytest.raises(
        DGLError, match=r"hops \[5\] do not exist.*hops=\[1, 5\]"
    ):
        hops.select([1, 5])
    with pytest.raises(DGLError, match="no hop was selected"):
        hops.select([])


def test_shifting_renames_later_hops(hops):
    for form in forms(hops):
        found = form.shift(2)
        assert found.hops == [0, 1]
        for k in (0, 1):
            assert torch.equal(found[k], hops[k + 2])
        assert form.hops == [0, 1, 2, 3]
        assert torch.equal(form[1:].shift()[2], hops[3])


def test_shifting_back_is_refused(hops):
    with pytest.raises(DGLError, match="by=-1"):
        hops.shift(-1)


def test_hop_0_alone_is_a_plain_tensor(hops):
    assert torch.equal(hops.shift(3), hops[3])
    assert isinstance(torch.relu(hops[:1]), torch.Tensor)


def test_shifting_past_the_last_hop_says_what_to_precompute(hops):
    with pytest.raises(DGLError, match="K= the number of times"):
        hops.shift(4)


def test_slices_are_of_hops(hops):
    assert hops[1:3].hops == [1, 2]
    assert hops[:2].hops == [0, 1]
    assert torch.equal(hops[1:3][2], hops[2])
    with pytest.raises(DGLError, match="no hop was selected"):
        hops[7:]


@pytest.mark.parametrize(
    "perm",
    [
        torch.randperm(5),
        torch.randperm(5).int(),
        np.array([3, 0, 1, 4, 2]),
        [4, 3, 2, 1, 0],
        range(5),
    ],
)
def test_rows_are_shuffled_before_the_precomputation(hops, perm):
    for values in (hops, hops[1:], torch.relu(hops), hops[:, :2]):
        with pytest.raises(DGLError, match="before") as error:
            values[perm]
        assert "block_aggregate(g, x[ids], K)" in str(error.value)
        assert "hops.rows" not in str(error.value)


@pytest.mark.parametrize(
    "ids",
    [
        torch.tensor([1, 0]),
        torch.tensor([True, False, True, False, False]),
        [True, False, True, False, False],
        np.array([True, False, True, False, False]),
        np.array([1, 0]),
        [1, 0],
    ],
)
def test_a_batch_is_taken_with_rows(hops, ids):
    with pytest.raises(DGLError, match=r"hops\.rows\(ids\)"):
        hops[ids]


@pytest.mark.parametrize("key", [100, slice(0, 100), slice(5)])
def test_what_may_be_meant_for_rows_is_sent_to_rows(hops, key):
    with pytest.raises(DGLError, match=r"hops\.rows\(ids\)"):
        hops[key]


def test_hop_features_are_not_assigned_to(hops):
    with pytest.raises(DGLError, match="before block_aggregate"):
        hops[:, 0] = 0
    with pytest.raises(DGLError, match="before block_aggregate"):
        hops[hops > 0] = 0
    with pytest.raises(DGLError, match="before block_aggregate"):
        hops[..., 1] += 1
    with pytest.raises(DGLError, match=r"h\.select\(hops\)"):
        del hops[0]


def test_rows_are_found_by_their_nodes(hops):
    ids = torch.tensor([4, 0, 4])
    batch = hops.rows(ids)
    assert batch.shape == (3, 4)
    for k in hops.hops:
        assert torch.equal(batch[k], hops[k][ids])
    again = batch.rows(torch.tensor([0, 4]))
    assert torch.equal(again[2], hops[2][[0, 4]])
    with pytest.raises(DGLError, match="without a row"):
        batch.rows(torch.tensor([3]))
    with pytest.raises(DGLError, match="nodes 0 to 4"):
        hops.rows(torch.tensor([5]))
    with pytest.raises(DGLError, match=r"mask of 6 entries.* 5 nodes"):
        hops.rows(torch.ones(6, dtype=torch.bool))


def test_to_converts_all_hops(hops):
    half = hops.to(torch.float16)
    assert half.dtype == torch.float16
    assert half[3].dtype == torch.float16
    assert hops.dtype == torch.float32
    assert hops.rows(torch.tensor([1])).to(torch.float64)[1].dtype == (
        torch.float64
    )


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda hops: pickle.loads(pickle.dumps(hops))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_hold_the_same(hops, again):
    for form in forms(hops):
        found = again(form)
        assert isinstance(found, HopFeatures)
        assert (found.hops, found.filter) == (form.hops, form.filter)
        assert torch.equal(found[3], hops[3])
        assert torch.equal(torch.relu(found - 1)[2], torch.relu(hops[2] - 1))
        ids = torch.tensor([4, 1])
        assert torch.equal(found.rows(ids).stack, form.rows(ids).stack)


def test_a_file_of_torch_holds_the_same(hops):
    for form in forms(hops):
        file = io.BytesIO()
        torch.save(form, file)
        file.seek(0)
        # Written by this test itself.
        found = torch.load(file, weights_only=False)
        assert torch.equal(found.stack, form.stack)


def test_hop_features_of_different_graphs_do_not_meet():
    x = make_features(4, 3)
    g = dgl.graph(([0, 1, 2], [1, 2, 3]))
    first = block_aggregate(g, x, 1)
    for other in (dgl.add_self_loop(g), dgl.graph(([0, 1, 2], [2, 3, 1]))):
        # The same graph, as the filter sees it, or one with such degrees.
        assert (first + block_aggregate(other, x, 1)).hops == [0, 1]
    for other in (
        dgl.add_edges(g, [0], [2]),
        dgl.graph(([0, 1, 2, 3],) * 2),
        dgl.reverse(g),
    ):
        second = block_aggregate(other, x, 1)
        with pytest.raises(DGLError, match="hop features of different graphs"):
            torch.cat([first, second], dim=1)
    own = block_aggregate(g, x, 1, self_loop=False)
    looped = block_aggregate(dgl.add_self_loop(g), x, 1, self_loop=False)
    with pytest.raises(DGLError, match="one with 4 nodes, 3 edges"):
        own + looped
    unknown = HopFeatures([x, x], [0, 1], FilterSpec())
    assert (first + unknown).hops == [0, 1]
    assert (unknown + first).hops == [0, 1]
