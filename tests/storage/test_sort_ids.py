"""Sorting the neighbours of a node: as NumPy sorts, whatever they are."""

import numba as nb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.storage.sort_ids import ENDS, ROOM, sort_ids

LAST = 2**31 - 1


# Not kept on disk: what is kept would not notice that the kernel has changed.
@nb.njit
def sort_in_new_room(ids):
    sort_ids(ids, np.empty(ROOM, np.int32), np.empty((3, ENDS), np.int64))


def check(ids):
    ids = np.array(ids, np.int32)
    expected = np.sort(ids)
    sort_in_new_room(ids)
    assert np.array_equal(ids, expected)


@given(st.lists(st.integers(0, LAST), max_size=200))
def test_any_ids(ids):
    check(ids)


@given(
    size=st.sampled_from([0, 1, 15, 16, 17, 18, 500, ROOM - 1, ROOM, ROOM + 1,
                          5 * ROOM]),
    last=st.sampled_from([0, 1, 7, 1023, 1024, 10**6, LAST]),
    power=st.sampled_from([1, 3, 20]),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_rows_of_every_length_and_spread(size, last, power, seed):
    """A high power crowds most ids into a few buckets, even of a long row."""
    values = np.random.default_rng(seed).random(size) ** power
    check((last * values).astype(np.int32))


@pytest.mark.parametrize("size", [100, 3 * ROOM])
def test_one_id_far_from_all_others(size):
    """All others are in one bucket, which is as long as the row."""
    ids = np.random.default_rng(0).integers(0, 1000, size)
    ids[size // 2] = LAST
    check(ids)


@pytest.mark.parametrize("size", [17, 1023, 1024, 1025, ROOM + 1])
@pytest.mark.parametrize("more", [0, 1, 2])
def test_as_many_buckets_as_there_may_be(size, more):
    """The span of the ids is their number, or one less, or one more."""
    ids = np.append(np.arange(size - 1), size - 1 + more)
    check(np.random.default_rng(0).permutation(ids))


@pytest.mark.parametrize("size", [17, ROOM, ROOM + 1])
def test_sorted_and_reversed_ids(size):
    check(np.arange(size))
    check(np.arange(size)[::-1])
    check(LAST - np.arange(size))
