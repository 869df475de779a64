"""Kernels that sort edges by destination, one range of rows at a time.

Threads share the work by ranges of rows: no locks, and the order of a row's
edges does not depend on the number of threads. Nothing here allocates more
than a few KiB. Edges without weights have an empty array of them.
"""

from typing import NamedTuple

import numpy as np

from .._common.jit import jit
from .._common.select_ids import select_into
from .sort_ids import ENDS, ROOM, sort_ids

#: Edges that are looked at, at a time: their places stay in the cache.
_BLOCK = 4096
NO_WEIGHTS = np.empty(0, np.float32)


class Spread(NamedTuple):
    """How edges go to buckets.

    Attributes
    ----------
    low, high : int
        The rows whose edges are taken.
    every : bool
        Whether these are all rows, so that no edge is looked at twice.
    shift : int
        A bucket has ``2 ** shift`` rows.
    back : bool
        Whether every edge goes both ways; a self-loop goes once.
    drop_loops : bool
        Whether self-loops are omitted.
    """

    low: int
    high: int
    every: bool
    shift: int
    back: bool
    drop_loops: bool


class Pieces(NamedTuple):
    """Pairs of a row and the other end of an edge, in pieces.

    Attributes
    ----------
    pairs : array
        Rows, counted from the first one of the range, in the low 32 bits, and
        other ends in the high ones.
    weights : array
        Their weights; empty for none.
    firsts : array
        Where each piece begins in ``pairs``.
    begins : array
        Where each bucket begins in each piece; one more than buckets.
    """

    pairs: np.ndarray
    weights: np.ndarray
    firsts: np.ndarray
    begins: np.ndarray


class Rows(NamedTuple):
    """Rows of the graph while they are filled, from the row ``first`` on.

    Attributes
    ----------
    starts : array
        Where the edges of each row begin, and the end of the last one.
    counts, loops : array
        The edges of each row, and those that are self-loops.
    """

    first: int
    starts: np.ndarray
    counts: np.ndarray
    loops: np.ndarray


@jit
def count_sources(
    source: np.ndarray,
    target: np.ndarray,
    low: int,
    high: int,
    first: int,
    drop_loops: bool,
    out: np.ndarray,
    loops: np.ndarray,
) -> None:
    """Count edges by source, and self-loops, for sources low to high.

    ``out`` and ``loops`` begin with the row ``first``.
    """
    places = np.empty(_BLOCK, np.int32)
    for begin in range(0, len(source), _BLOCK):
        end = min(begin + _BLOCK, len(source))
        for at in range(select_into(source, begin, end, low, high, places)):
            u = source[places[at]]
            if u == target[places[at]]:
                if drop_loops:
                    continue
                loops[u - first] += 1
            out[u - first] += 1


@jit
def _pair(row: np.int64, other: np.int64) -> np.uint64:
    """Put two ids below 2**31 into one number: one store is less than two."""
    return np.uint64(row) | (np.uint64(other) << np.uint64(32))


@jit
def _take_place(ends: np.ndarray, bucket: np.uint64) -> np.uint64:
    """The place where a bucket ends, which is one further from now on."""
    # An unsigned index is not looked at whether it counts from the end.
    place = ends[bucket]
    ends[bucket] = place + 1
    return np.uint64(place)


@jit
def _tally_all(
    source: np.ndarray, target: np.ndarray, spread: Spread, ends: np.ndarray
) -> None:
    """Count the edges of each bucket, where all rows are taken."""
    shift, drop = spread.shift, spread.drop_loops
    for i in range(len(source)):
        no_loop = source[i] != target[i]
        ends[np.uint64(target[i] >> shift)] += no_loop or not drop
        if spread.back:
            ends[np.uint64(source[i] >> shift)] += no_loop


@jit
def _deal_all(
    source: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    spread: Spread,
    ends: np.ndarray,
    pairs: np.ndarray,
    pair_weights: np.ndarray,
) -> None:
    """Put the pairs of each edge where their buckets end so far.

    All rows are taken, and both directions in one go.
    """
    shift = spread.shift
    for i in range(len(source)):
        u, v = source[i], target[i]
        if u == v and spread.drop_loops:
            continue
        place = _take_place(ends, np.uint64(v >> shift))
        pairs[place] = _pair(v, u)
        if len(pair_weights) > 0:
            pair_weights[place] = weights[i]
        if spread.back and u != v:
            place = _take_place(ends, np.uint64(u >> shift))
            pairs[place] = _pair(u, v)
            if len(pair_weights) > 0:
                pair_weights[place] = weights[i]


@jit
def _tally(
    rows: np.ndarray,
    others: np.ndarray,
    spread: Spread,
    skip_loops: bool,
    ends: np.ndarray,
) -> None:
    """Count the edges of each bucket, of rows in the range."""
    places = np.empty(_BLOCK, np.int32)
    low, high, shift = spread.low, spread.high, spread.shift
    for begin in range(0, len(rows), _BLOCK):
        end = min(begin + _BLOCK, len(rows))
        for at in range(select_into(rows, begin, end, low, high, places)):
            i = places[at]
            loop = skip_loops and rows[i] == others[i]
            ends[np.uint64((rows[i] - low) >> shift)] += not loop


@jit
def _deal(
    rows: np.ndarray,
    others: np.ndarray,
    weights: np.ndarray,
    spread: Spread,
    skip_loops: bool,
    ends: np.ndarray,
    pairs: np.ndarray,
    pair_weights: np.ndarray,
) -> None:
    """Put the pair of each edge where its bucket ends so far."""
    places = np.empty(_BLOCK, np.int32)
    low, high = spread.low, spread.high
    for begin in range(0, len(rows), _BLOCK):
        end = min(begin + _BLOCK, len(rows))
        for at in range(select_into(rows, begin, end, low, high, places)):
            i = places[at]
            if skip_loops and rows[i] == others[i]:
                continue
            row = rows[i] - low
            place = _take_place(ends, np.uint64(row >> spread.shift))
            pairs[place] = _pair(row, others[i])
            if len(pair_weights) > 0:
                pair_weights[place] = weights[i]


@jit
def scatter(
    source: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray,
    spread: Spread,
    pairs: np.ndarray,
    pair_weights: np.ndarray,
    begins: np.ndarray,
) -> None:
    """Sort a slice's edges roughly, into buckets of rows.

    A bucket's pairs, and their weights, are in the order of the slice, as
    long as edges go one way. ``begins`` says where each bucket begins, and is
    one longer than there are buckets.
    """
    ends = np.zeros(len(begins) - 1, np.int64)
    drop, back = spread.drop_loops, spread.back
    if spread.every:
        _tally_all(source, target, spread, ends)
    else:
        _tally(target, source, spread, drop, ends)
        if back:
            _tally(source, target, spread, True, ends)
    begins[0] = 0
    for bucket in range(len(ends)):
        begins[bucket + 1] = begins[bucket] + ends[bucket]
        ends[bucket] = begins[bucket]
    if spread.every:
        _deal_all(source, target, weights, spread, ends, pairs, pair_weights)
        return
    _deal(target, source, weights, spread, drop, ends, pairs, pair_weights)
    if back:
        _deal(source, target, weights, spread, True, ends, pairs, pair_weights)


@jit
def _row_of(pair: np.uint64) -> np.uint64:
    return pair & np.uint64(0xFFFFFFFF)


@jit
def count(pieces: Pieces, bucket: int, counts: np.ndarray) -> None:
    """Count a bucket's pairs by row."""
    for piece in range(len(pieces.firsts)):
        first = pieces.firsts[piece]
        low = first + pieces.begins[piece, bucket]
        high = first + pieces.begins[piece, bucket + 1]
        for i in range(low, high):
            counts[_row_of(pieces.pairs[i])] += 1


@jit
def place(
    pieces: Pieces,
    bucket: int,
    cursor: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Put the other ends of a bucket's pairs behind those of their row.

    ``cursor[row]`` is where the next one goes, and its weight.
    """
    # Never beyond the end, even if the edges are not those that were counted.
    size = len(indices)
    for piece in range(len(pieces.firsts)):
        first = pieces.firsts[piece]
        low = first + pieces.begins[piece, bucket]
        high = first + pieces.begins[piece, bucket + 1]
        for i in range(low, high):
            row = _row_of(pieces.pairs[i])
            at = cursor[row]
            cursor[row] = at + 1
            if at < size:
                indices[at] = pieces.pairs[i] >> np.uint64(32)
                if len(weights) > 0:
                    weights[at] = pieces.weights[i]


@jit
def _sift(ids: np.ndarray, weights: np.ndarray, place: int, end: int) -> None:
    """Let an id sink to its place in the heap of the ids before ``end``."""
    own, weight = ids[place], weights[place]
    while 2 * place + 1 < end:
        child = 2 * place + 1
        if child + 1 < end and ids[child + 1] > ids[child]:
            child += 1
        if ids[child] <= own:
            break
        ids[place], weights[place] = ids[child], weights[child]
        place = child
    ids[place], weights[place] = own, weight


@jit
def _sort_with_weights(ids: np.ndarray, weights: np.ndarray) -> None:
    """Sort ids, and their weights with them, in place (heapsort)."""
    size = len(ids)
    for place in range(size // 2 - 1, -1, -1):
        _sift(ids, weights, place, size)
    for end in range(size - 1, 0, -1):
        ids[0], ids[end] = ids[end], ids[0]
        weights[0], weights[end] = weights[end], weights[0]
        _sift(ids, weights, 0, end)


@jit
def _first_conflict(ids: np.ndarray, weights: np.ndarray) -> int:
    """Find an id, of sorted ones, that repeats with another weight, or -1."""
    for i in range(1, len(ids)):
        if ids[i] == ids[i - 1] and weights[i] != weights[i - 1]:
            return i
    return -1


@jit
def merge_rows(
    rows: Rows, low: int, high: int, indices: np.ndarray, weights: np.ndarray
) -> int:
    """Sort rows low to high, merge duplicates and close the gaps.

    Returns how many edges are left; they begin at ``starts[low]``. The
    counts of these rows are set, and their self-loops, 0 or 1.

    Duplicates should have the same weight. If those at ``place - 1`` and
    ``place`` have not, the result is ``-place``.
    """
    starts = rows.starts
    weighted = len(weights) > 0
    room, ends = np.empty(ROOM, np.int32), np.empty((3, ENDS), np.int64)
    end = starts[low]
    for row in range(low, high):
        mine = indices[starts[row] : starts[row + 1]]
        if weighted:
            own = weights[starts[row] : starts[row + 1]]
            _sort_with_weights(mine, own)
            conflict = _first_conflict(mine, own)
            if conflict >= 0:
                return -(starts[row] + conflict)
        else:
            sort_ids(mine, room, ends)
        begin, last = end, -1
        loops = 0
        for i in range(len(mine)):
            if mine[i] != last:
                last = mine[i]
                # Never ahead of what is read: edges only get fewer.
                indices[end] = last
                if weighted:
                    # 0 and -0 are equal: 0 is kept, whatever the order.
                    weights[end] = weights[starts[row] + i] + 0
                end += 1
                loops += last == row + rows.first
        rows.counts[row] = end - begin
        rows.loops[row] = loops
    return end - starts[low]


@jit
def begins(counts: np.ndarray, begin: np.int64, out: np.ndarray) -> np.int64:
    """Set ``out[i] = begin + counts[0] + … + counts[i - 1]``; give the end."""
    for i in range(len(counts)):
        out[i] = begin
        begin += np.int64(counts[i])
    return begin


@jit
def rows_that_fit(
    counts: np.ndarray, edge_bytes: int, row_bytes: int, room: np.int64
) -> tuple[int, np.int64]:
    """Count the rows that fit into so many bytes, and what is then left."""
    for row in range(len(counts)):
        size = edge_bytes * np.int64(counts[row]) + row_bytes
        if size > room:
            return row, room
        room -= size
    return len(counts), room


@jit
def is_filled(starts: np.ndarray, counts: np.ndarray) -> bool:
    """Check that each row has as many edges as were counted."""
    for row in range(len(counts)):
        if starts[row + 1] - starts[row] != counts[row]:
            return False
    return True
