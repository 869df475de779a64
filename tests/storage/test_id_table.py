"""The hash table from ids to node numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.storage.id_table import (
    ELSEWHERE,
    UNKNOWN,
    IdTable,
    least_room,
    num_parts,
    random_keys,
)
from dgl_lc.storage.texts import Texts, parse_integers


def as_ids(values):
    if isinstance(values[0], str):
        return Texts.of(values)
    return np.array(values, np.int64)


texts = st.lists(st.text(max_size=30), min_size=1, max_size=40, unique=True)
integers = st.lists(
    st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40, unique=True
)


@given(values=st.one_of(texts, integers), data=st.data())
def test_ids_are_found_and_others_are_not(values, data):
    known = data.draw(st.integers(1, len(values)))
    table = IdTable(known)
    assert table.add(as_ids(values[:known]), 0).tolist() == list(range(known))
    found = table.find(as_ids(values)).tolist()
    others = [UNKNOWN] * (len(values) - known)
    assert found == [*range(known), *others]


def test_an_id_that_is_added_twice_has_its_first_number():
    table = IdTable(4)
    table.add(Texts.of(["a", "b"]), 0)
    assert table.add(Texts.of(["c", "a"]), 2).tolist() == [2, 0]


def test_texts_that_only_zeros_tell_apart():
    values = ["", "\0", "\0\0", "a", "a\0", "\0a", "\0" * 7, "\0" * 8]
    table = IdTable(len(values))
    assert table.add(as_ids(values), 0).tolist() == list(range(len(values)))


def test_parts_share_out_all_ids():
    n, parts, keys = 5000, 4, random_keys()
    ids = Texts.of([f"user {i}" for i in range(n)])
    found = np.full(n, UNKNOWN)
    for part in range(parts):
        table = IdTable(n, least_room(n, parts), part, parts, keys)
        table.add(ids, 0)
        own = table.find(ids)
        here = own != ELSEWHERE
        assert n / parts / 2 < here.sum() < 2 * n / parts
        assert (found[here] == UNKNOWN).all()
        found[here] = own[here]
    assert found.tolist() == list(range(n))


def test_a_table_that_is_too_small_says_so():
    with pytest.raises(MemoryError, match="full"):
        IdTable(1000, room=16 * 100).add(np.arange(1000), 0)
    assert num_parts(10**6, 10**6) > 16
    assert num_parts(1000, 10**6) == 1


@given(st.integers(-(2**66), 2**66))
def test_integers_are_read_as_python_does(value):
    values, wrong = parse_integers(Texts.of([str(value)]))
    if -(2**63) <= value < 2**63:
        assert (values.tolist(), wrong) == ([value], -1)
    else:
        assert wrong == 0


@pytest.mark.parametrize("text", ["", "-", "+1", "01", "-0", "1 ", "1.0", "٣"])
def test_texts_that_are_no_integers(text):
    assert parse_integers(Texts.of(["5", text]))[1] == 1
