"""Kernels that sort edges by destination, one range of rows at a time.

Threads share the work by ranges of rows: no locks, and the order of a row's
edges does not depend on the number of threads. ``first`` is the row that the
arrays begin with. With ``back`` every edge goes both ways;
a self-loop goes once.
"""

import numpy as np

from .._common.jit import jit
from .._common.select_ids import select_ids


@jit
def bounds(ids):
    """The least and the greatest id."""
    low, high = ids[0], ids[0]
    for i in range(len(ids)):
        low, high = min(low, ids[i]), max(high, ids[i])
    return low, high


@jit
def count_sources(source, target, low, high, first, drop_loops, out, loops):
    """Count edges by source, and self-loops."""
    for i in select_ids(source, low, high):
        u = source[i]
        if u == target[i]:
            if drop_loops:
                continue
            loops[u - first] += 1
        out[u - first] += 1


@jit
def _deal(rows, others, low, high, shift, skip_loops, ends, pairs):
    """Put (row, other) of each edge where its bucket ends so far."""
    for i in select_ids(rows, low, high):
        if skip_loops and rows[i] == others[i]:
            continue
        row = rows[i] - low
        at = ends[row >> shift]
        ends[row >> shift] = at + 1
        if len(pairs) > 0:
            pairs[at, 0] = row
            pairs[at, 1] = others[i]


@jit
def scatter(source, target, low, high, shift, back, drop_loops, pairs, begins):
    """Sort a slice's edges roughly, into buckets of ``2 ** shift`` rows.

    Pairs of a row, counted from ``low``, and the other end; a bucket's are
    in the order of the slice. ``begins`` says where each bucket begins, and
    is one longer than there are buckets.
    """
    none = pairs[:0]
    ends = np.zeros(len(begins) - 1, np.int64)
    for turn in range(2):
        if turn == 1:
            begins[0] = 0
            for bucket in range(len(ends)):
                begins[bucket + 1] = begins[bucket] + ends[bucket]
                ends[bucket] = begins[bucket]
        out = pairs if turn == 1 else none
        _deal(target, source, low, high, shift, drop_loops, ends, out)
        if back:
            _deal(source, target, low, high, shift, True, ends, out)


@jit
def count(pairs, firsts, begins, bucket, counts):
    """Count a bucket's pairs by row; they are as in :func:`place`."""
    for piece in range(len(firsts)):
        first = firsts[piece]
        low, high = begins[piece, bucket], begins[piece, bucket + 1]
        for i in range(first + low, first + high):
            counts[pairs[i, 0]] += 1


@jit
def place(pairs, firsts, begins, bucket, cursor, indices):
    """Put the other ends of a bucket's pairs behind those of their row.

    The pairs are in pieces: piece i begins at ``firsts[i]``, and its bucket
    at ``begins[i]``. ``cursor[row]`` is where the next one goes.
    """
    # Never beyond the end, even if the edges are not those that were counted.
    size = len(indices)
    for piece in range(len(firsts)):
        first = firsts[piece]
        low, high = begins[piece, bucket], begins[piece, bucket + 1]
        for i in range(first + low, first + high):
            row = pairs[i, 0]
            at = cursor[row]
            cursor[row] = at + 1
            if at < size:
                indices[at] = pairs[i, 1]


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
