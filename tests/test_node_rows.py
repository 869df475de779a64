"""Rows of nodes: taking batches of them, whatever they are rows of."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.node_rows import ModelInputs, NodeRows, check_ids
from dgl_lc.training import HopLoader

NODES = torch.tensor([5, 1, 8, 3])


def tensors(count=3, rows=4, columns=2):
    values = torch.arange(float(count * rows * columns))
    return list(values.reshape(count, rows, columns))


KINDS = {
    "all nodes": lambda: NodeRows(tensors()),
    "some nodes": lambda: NodeRows(tensors(), NODES),
    "one matrix": lambda: NodeRows(tensors(1), NODES),
    "a batch": lambda: NodeRows(tensors(rows=9)).rows(NODES),
    "inputs": lambda: ModelInputs(tensors(), ["X", "S X", "P X"], NODES),
}
EVERY = pytest.mark.parametrize("kind", KINDS)


@EVERY
def test_matrices_are_given_in_order(kind):
    rows = KINDS[kind]()
    assert len(rows) == len(rows.tensors) == len(list(rows))
    assert rows.shape == (4, 2)
    assert rows.dtype == torch.float32
    assert rows.device == torch.device("cpu")
    assert rows.nbytes == len(rows) * 4 * 2 * 4
    for place, tensor in enumerate(rows):
        assert torch.equal(rows[place], tensor)
        assert torch.equal(rows.tensors[place], tensor)
    with pytest.raises(IndexError):
        rows[len(rows)]


@EVERY
def test_rows_are_found_by_their_nodes(kind):
    rows = KINDS[kind]()
    ids = torch.tensor([3, 1, 3])
    places = [3, 1, 3]
    found = rows.rows(ids)
    assert type(found) is type(rows)
    assert torch.equal(found.nodes, ids)
    for batch, whole in zip(found, rows, strict=True):
        assert torch.equal(batch, whole[places])
    # A batch is rows of nodes again.
    again = found.rows(torch.tensor([3]))
    assert torch.equal(again[0], rows[0][[3]])


@EVERY
def test_the_stack_holds_matrix_after_matrix(kind):
    rows = KINDS[kind]()
    expected = torch.cat(list(rows))
    assert torch.equal(rows.stack, expected)
    # From then on the matrices are views of it.
    assert rows.stack is rows.stack
    assert rows[-1].data_ptr() == rows.stack[-4:].data_ptr()


def test_the_stack_of_a_batch_is_no_copy():
    batch = NodeRows(tensors()).rows(torch.tensor([2, 0]))
    assert batch.stack is batch.stack
    assert batch[1].data_ptr() == batch.stack[2:].data_ptr()


def test_a_batch_goes_where_it_is_told():
    rows = NodeRows(tensors())
    out = torch.empty(3 * 2, 2)
    batch = rows.take(torch.tensor([2, 0]), torch.tensor([2, 0]), out)
    assert batch.stack is out
    assert torch.equal(out, torch.cat([t[[2, 0]] for t in rows]))


def test_matrices_share_memory_with_what_they_were_made_of():
    given = tensors()
    rows = NodeRows(given)
    assert all(a is b for a, b in zip(rows, given, strict=True))


@EVERY
def test_to_converts_all_matrices(kind):
    rows = KINDS[kind]()
    found = rows.to(torch.float64)
    assert type(found) is type(rows)
    assert found.nodes is rows.nodes
    assert found.stack.dtype == torch.float64
    torch.testing.assert_close(found.stack, rows.stack.double())


def test_gradients_reach_the_rows_that_were_taken():
    given = [t.requires_grad_() for t in tensors()]
    rows = NodeRows(given)
    assert rows.requires_grad
    batch = rows.rows(torch.tensor([2, 2, 0]))
    batch.stack.sum().backward()
    for tensor in given:
        assert tensor.grad[:, 0].tolist() == [1, 0, 2, 0]


def test_matrices_may_differ_in_their_columns():
    rows = NodeRows([torch.eye(4), torch.arange(4), torch.zeros(4, 2, 3)])
    assert not rows.same_shape
    ids = torch.tensor([3, 0])
    for found in (rows.rows(ids), next(iter(HopLoader(rows, ids)))):
        assert torch.equal(found[0], torch.eye(4)[[3, 0]])
        assert found[1].tolist() == [3, 0]
        assert found[2].shape == (2, 2, 3)
    with pytest.raises(DGLError, match="different shapes"):
        rows.stack  # noqa: B018
    mixed = NodeRows([torch.zeros(2, 1), torch.zeros(2, 1).double()])
    assert [t.dtype for t in mixed.rows(torch.tensor([1]))] == [
        torch.float32, torch.float64,
    ]  # fmt: skip


@EVERY
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_hold_the_same(kind, again):
    rows = KINDS[kind]()
    found = again(rows)
    assert type(found) is type(rows)
    assert repr(found) == repr(rows)
    assert torch.equal(found.stack, rows.stack)
    ids = torch.tensor([1, 3])
    assert torch.equal(found.rows(ids).stack, rows.rows(ids).stack)


def test_a_file_of_a_batch_holds_its_rows_once():
    batch = NodeRows(tensors(count=50, rows=100)).rows(torch.arange(100))
    assert len(pickle.dumps(batch)) < 1.5 * batch.nbytes


def test_a_copy_that_is_stacked_leaves_the_first_alone():
    rows = NodeRows(tensors())
    first = rows[0]
    assert copy.copy(rows).stack is not None
    assert rows[0] is first


@EVERY
def test_nodes_without_a_row_are_named(kind):
    with pytest.raises(DGLError, match="ids holds 7"):
        KINDS[kind]().rows(torch.tensor([1, 7]))


def test_what_they_are_made_of_is_checked():
    with pytest.raises(DGLError, match="tensors is empty"):
        NodeRows([])
    with pytest.raises(DGLError, match=r"as many rows each, got \[3, 2\]"):
        NodeRows([torch.eye(3), torch.eye(2)])
    with pytest.raises(DGLError, match="2 entries for 3 rows"):
        NodeRows([torch.eye(3)], torch.tensor([0, 1]))
    with pytest.raises(DGLError, match="names"):
        ModelInputs([torch.eye(3)], ["X", "S X"])


def test_they_can_be_read():
    assert repr(NodeRows(tensors())) == (
        "NodeRows(count=3, rows=4, columns=2, dtype=torch.float32)"
    )
    assert repr(ModelInputs(tensors(1), ["X"])) == (
        "ModelInputs(['X'], rows=4, columns=2, dtype=torch.float32)"
    )


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.ones(5, dtype=torch.bool), "mask of 5 entries.* 4 nodes"),
        ([True, False], "nids is a mask of 2 entries.* 4 nodes"),
        ([True, 0, 1], "holds both bools and integers"),
        (torch.tensor([0, 1, 1, 0], dtype=torch.uint8), "convert it to bool"),
        (np.array([0, 1, 1, 0], np.uint8), "convert it to bool"),
        (torch.ones(4).bool().to_sparse(), "nids is sparse"),
        ([0.5], "integer ids"),
        (torch.zeros(2, 2).long(), "one dimension"),
        ([3, -1], "holds -1"),
    ],
)
def test_ids_that_are_none_are_refused(ids, message):
    with pytest.raises(DGLError, match=message):
        check_ids(ids, "nids", 4)


@given(st.lists(st.booleans(), max_size=9))
def test_a_mask_of_any_kind_becomes_the_ids_of_its_nodes(mask):
    wanted = [node for node, chosen in enumerate(mask) if chosen]
    array = np.array(mask, bool)
    for given_as in (
        mask, tuple(mask), list(array), array, pd.Series(array),
        np.repeat(array, 2)[::2], array[::-1].copy()[::-1],
        torch.tensor(mask, dtype=torch.bool),
    ):  # fmt: skip
        found = check_ids(given_as, "nids", len(mask))
        assert found.dtype == torch.int64
        assert found.tolist() == wanted


def test_rows_of_a_mask_are_those_of_its_nodes():
    rows = NodeRows(tensors())
    mask = torch.tensor([False, True, False, True])
    wanted = rows.rows(torch.tensor([1, 3]))
    for given_as in (mask, mask.numpy(), mask.tolist()):
        found = rows.rows(given_as)
        assert torch.equal(found.stack, wanted.stack)
        assert torch.equal(found.nodes, wanted.nodes)
    with pytest.raises(DGLError, match=r"mask of 3 entries.* 4 nodes"):
        rows.rows(mask[:3])


def test_a_mask_of_rows_of_some_nodes_has_an_entry_for_each_node():
    rows = NodeRows(tensors(), torch.tensor([5, 0, 3, 6]))
    mask = torch.zeros(8, dtype=torch.bool)
    mask[[0, 5]] = True
    assert torch.equal(rows.rows(mask)[0], tensors()[0][[1, 0]])
    # A mask of the rows, not of the nodes, would be read wrongly.
    with pytest.raises(DGLError, match=r"mask of 4 entries.* nodes up to 6"):
        rows.rows(torch.ones(4, dtype=torch.bool))
    mask[1] = True
    with pytest.raises(DGLError, match="holds 1 without a row"):
        rows.rows(mask)


def test_the_nodes_of_rows_can_be_a_mask():
    rows = NodeRows(tensors(), [False, True, True, False, True, True])
    assert rows.nodes.tolist() == [1, 2, 4, 5]
    with pytest.raises(DGLError, match="2 entries for 4 rows"):
        NodeRows(tensors(), [True, True])


def test_ids_are_int64_on_the_cpu():
    for ids in ([2, 1], (2, 1), torch.tensor([2, 1], dtype=torch.int16)):
        found = check_ids(ids, "nids")
        assert found.dtype == torch.int64
        assert found.tolist() == [2, 1]
    assert check_ids([], "nids").dtype == torch.int64


@pytest.mark.parametrize(
    "ids",
    [np.array([1, 2], ">i8"), np.array([1, 2], np.uint16),
     np.array([2, 0, 1])[::-2], [1, 2], (1, 2)],
)  # fmt: skip
def test_ids_of_any_layout(ids):
    assert check_ids(ids, "ids").tolist() == [int(i) for i in ids]


@pytest.mark.parametrize(
    "value",
    [
        5, np.int64(5), np.array(5), torch.tensor(5), True, 5.0, None, "12",
        b"12", {1: 2}, {1, 2}, [[1], [2, 3]], [[1, 2]], ["1"], [None], object(),
        np.array(["1"]), (place for place in range(2)), [2**70],
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_list_of_ids_is_named(value):
    with pytest.raises(DGLError, match=r"^nodes should ") as refused:
        check_ids(value, "nodes", 100)
    assert len(str(refused.value)) < 150
