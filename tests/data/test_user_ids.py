"""The user's own ids of nodes."""

import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data.user_ids import UserIds

IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
    st.lists(st.text(min_size=1), min_size=1, unique=True),
    st.lists(st.tuples(st.integers(), st.text()), min_size=1, unique=True),
    st.lists(st.integers(), min_size=1, unique=True),
)


@given(ids=IDS, data=st.data())
def test_every_id_is_found_where_it_is(ids, data):
    own = UserIds(ids)
    places = data.draw(st.lists(st.integers(0, len(ids) - 1)))
    found = own.find([ids[place] for place in places])
    assert found.dtype == torch.int64
    assert found.tolist() == places
    assert list(own.ids[found.numpy()]) == [ids[place] for place in places]


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([3, 1], np.int64),
        (torch.tensor([3, 1], dtype=torch.int32), np.int64),
        (np.array([3, 1], ">u2"), np.int64),
        (pd.Series([3, 1], dtype="Int64"), np.int64),
        (np.array(["c", "a"]), object),
        (pd.Series(["c", "a"]), object),
        (pd.Series(["c", "a"], dtype="category"), object),
        (pd.Index(["c", "a"]), object),
        (["c", 1], object),
        ([2**80, 1], object),
    ],
)
def test_ids_come_in_any_container(ids, dtype):
    own = UserIds(ids)
    assert own.ids.dtype == dtype
    assert own.find(ids).tolist() == [0, 1]
    if dtype is object:
        assert all(type(value) in (str, int) for value in own.ids)


WRONG = {
    "twice": ([4, 5, 4, 4], "node_ids holds 4, and 1 others, more than once"),
    "text twice": (["a", "b", "b"], "holds 'b' more than once"),
    "None": (["a", None], "has no id for node 1: give one"),
    "nan": (["a", float("nan"), ""], "no id for node 1, and 1 others,:"),
    "rows": (np.zeros((2, 2), int), r"one dimension, got shape \(2, 2\)"),
    "text": ("abc", "should be a list of ids, got 'abc'"),
    "number": (3, "should be a list of ids, got 3"),
    "lists": ([[1], [2]], "node_ids: unhashable type"),
}


@pytest.mark.parametrize(("ids", "message"), WRONG.values(), ids=WRONG.keys())
def test_ids_that_are_none_are_refused(ids, message):
    with pytest.raises(DGLError, match=message):
        UserIds(ids)


@pytest.mark.parametrize(
    ("ids", "asked", "message"),
    [
        ([7, 5], [5, 6, 8], r"edges holds 6, and 1 others, which no node has"),
        ([7, 5], ["7"], r"edges holds '7' which no .* such as .*7"),
        (["a", "b"], ["b", "c"], r"edges holds 'c' which no node has.*'a'"),
        (["1", "2"], [1], "edges holds 1 which"),
        (["1", "2"], [[1]], "edges: unhashable"),
    ],
)
def test_unknown_ids_are_named_and_counted(ids, asked, message):
    with pytest.raises(DGLError, match=message):
        UserIds(ids).find(asked, "edges")
