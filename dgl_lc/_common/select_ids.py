"""A kernel that other kernels share: which ids are in a range."""

import numpy as np

from .jit import jit


@jit
def select_into(
    ids: np.ndarray,
    begin: int,
    end: int,
    low: int,
    high: int,
    places: np.ndarray,
) -> int:
    """Write places from begin to end whose ids are in the range; how many.

    Without a branch: whether an id is in the range is a coin toss, and a
    wrongly guessed jump costs more than the rest of the work.
    """
    count = 0
    for i in range(begin, end):
        places[count] = i
        count += (ids[i] >= low) & (ids[i] < high)
    return count
