"""A kernel that other kernels share: which ids are in a range."""

import numpy as np

from .jit import jit


@jit
def select_ids(ids, low, high):
    """Places of the ids that are in the range.

    Without a branch: whether an id is in the range is a coin toss, and a
    wrongly guessed jump costs more than the rest of the work.
    """
    places = np.empty(len(ids), np.int32)
    count = 0
    for i in range(len(ids)):
        places[count] = i
        count += (ids[i] >= low) & (ids[i] < high)
    return places[:count]


@jit
def select_into(ids, low, high, places):
    """As :func:`select_ids`, into a given array; returns how many."""
    count = 0
    for i in range(len(ids)):
        places[count] = i
        count += (ids[i] >= low) & (ids[i] < high)
    return count
