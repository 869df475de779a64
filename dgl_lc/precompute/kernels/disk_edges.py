"""Kernels that sort edges by destination, one range of rows at a time.

As in :mod:`.edges`, threads share the work by ranges of rows. ``first`` is
the row that the arrays begin with. With ``back`` every edge goes both ways;
a self-loop goes once.
"""

import numpy as np

from .edges import _select
from .jit import jit


@jit
def bounds(ids):
    """The least and the greatest id."""
    low, high = ids[0], ids[0]
    for i in range(len(ids)):
        low, high = min(low, ids[i]), max(high, ids[i])
    return low, high


@jit
def count_rows(source, target, low, high, first, back, drop_loops, counts):
    """Count the edges of each row."""
    for i in _select(target, low, high):
        if drop_loops and source[i] == target[i]:
            continue
        counts[target[i] - first] += 1
    if back:
        for i in _select(source, low, high):
            if source[i] != target[i]:
                counts[source[i] - first] += 1


@jit
def count_sources(source, target, low, high, first, drop_loops, out, loops):
    """Count edges by source, and self-loops."""
    for i in _select(source, low, high):
        u = source[i]
        if u == target[i]:
            if drop_loops:
                continue
            loops[u - first] += 1
        out[u - first] += 1


@jit
def place(source, target, low, high, first, back, drop_loops, cursor, indices):
    """Put sources behind those that their row has already.

    ``cursor[row - first]`` is where the next one goes.
    """
    # Never beyond the end, even if the edges are not those that were counted.
    size = len(indices)
    for i in _select(target, low, high):
        u, v = source[i], target[i]
        if drop_loops and u == v:
            continue
        at = cursor[v - first]
        cursor[v - first] = at + 1
        if at < size:
            indices[at] = u
    if back:
        for i in _select(source, low, high):
            u, v = source[i], target[i]
            if u == v:
                continue
            at = cursor[u - first]
            cursor[u - first] = at + 1
            if at < size:
                indices[at] = v


@jit
def _sort(ids):
    # Most rows are short, and Numba's sort allocates memory at every call.
    if len(ids) > 64:
        ids.sort()
        return
    for i in range(1, len(ids)):
        mine = ids[i]
        j = i
        while j > 0 and ids[j - 1] > mine:
            ids[j] = ids[j - 1]
            j -= 1
        ids[j] = mine


@jit
def merge_rows(starts, low, high, first, indices, counts, loops):
    """Sort rows low to high, merge duplicates and close the gaps.

    ``starts``, ``counts`` and ``loops`` begin with the row ``first``, from
    which low and high count too. Returns how many edges are left; they
    begin at ``starts[low]``.
    """
    end = starts[low]
    for row in range(low, high):
        mine = indices[starts[row] : starts[row + 1]]
        _sort(mine)
        begin, last = end, -1
        for i in range(len(mine)):
            if mine[i] != last:
                last = mine[i]
                # Never ahead of what is read: edges only get fewer.
                indices[end] = last
                end += 1
                if last == row + first:
                    loops[row] = 1
        counts[row] = end - begin
    return end - starts[low]


@jit
def begins(counts, begin, out):
    """``out[i] = begin + counts[0] + … + counts[i - 1]``"""
    for i in range(len(counts)):
        out[i] = begin
        begin += np.int64(counts[i])
    return begin
