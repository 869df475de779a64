"""Chunks: pieces of work of equal size, whatever the degrees are.

A chunk is a few rows of the filter with together at most ``CAPACITY``
entries (edges, and one self-loop for each row). A row with more of them, or
one that an edge block cuts, is *split*: each part is a chunk of its own that
writes to a slot, and the slots of a row are added up in order afterwards. So
a hub never serialises the work, and the sums do not depend on the number of
threads.
"""

import numpy as np

from ..._common.jit import jit

#: Entries in a chunk. Its buffers stay in a core's second-level cache.
CAPACITY = 32768

# The columns of a chunk table.
FIRST, LAST, FROM_EDGE, TO_EDGE, SLOT = range(5)


def cut_chunks(
    rows: np.ndarray,
    num_rows: int,
    indptr: np.ndarray,
    bounds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Cut rows into chunks that respect the edge blocks.

    Parameters
    ----------
    rows : int32 array
        Ascending ids of the rows to compute; empty for all of them.
    num_rows : int
        How many rows there are to compute.
    indptr : integer array
        Where the edges of each row begin.
    bounds : int64 array
        The first edge of each edge block, and the number of edges.

    Returns
    -------
    table : int64 array of shape (chunks, 5)
        First and last (exclusive) position in ``rows``, the range of edges,
        and the slot, -1 where the chunk's rows are whole.
    starts : int64 array
        The first chunk of each edge block, and the number of chunks.
    slots : int
        How many slots there are.
    """
    entries = int(num_rows + bounds[-1])
    most = 8 * (entries // CAPACITY + 1) + 4 * len(bounds) + 8
    table = np.empty((most, 5), np.int64)
    starts = np.zeros(len(bounds), np.int64)
    count, slots = _cut_chunks(rows, num_rows, indptr, bounds, table, starts)
    return table[:count].copy(), starts, slots


@jit
def _cut_chunks(rows, num_rows, indptr, bounds, table, starts):
    identity = len(rows) == 0
    count = 0
    slots = 0
    position = 0
    blocks = len(bounds) - 1
    # A row that began in an earlier block and goes on: its position, or -1.
    open_row = -1
    for block in range(blocks):
        begin, end = bounds[block], bounds[block + 1]
        last_block = block == blocks - 1
        starts[block] = count
        if open_row >= 0:
            row = open_row if identity else rows[open_row]
            stop = min(indptr[row + 1], end)
            count, slots = _split(table, count, slots, open_row, begin, stop)
            if indptr[row + 1] <= end:
                open_row = -1
        first = position
        load = 0
        while position < num_rows:
            row = position if identity else rows[position]
            start, stop = indptr[row], indptr[row + 1]
            if start >= end and not last_block:
                break
            weight = stop - start + 1
            whole = stop <= end and weight <= CAPACITY
            if first < position and (not whole or load + weight > CAPACITY):
                table[count, :] = (first, position, begin, end, -1)
                count += 1
                first, load = position, 0
            if whole:
                load += weight
            else:
                part = min(stop, end)
                count, slots = _split(
                    table, count, slots, position, start, part
                )
                first = position + 1
                if stop > end:
                    open_row = position
            position += 1
        if first < position:
            table[count, :] = (first, position, begin, end, -1)
            count += 1
    starts[blocks] = count
    return count, slots


@jit
def _split(table, count, slots, position, start, stop):
    """Chunks for edges start to stop of one row, a slot each."""
    edge = start
    while edge < stop:
        # One place is left for the row's self-loop.
        upto = min(edge + CAPACITY - 1, stop)
        table[count, :] = (position, position + 1, edge, upto, slots)
        count += 1
        slots += 1
        edge = upto
    return count, slots


@jit
def assemble(
    chunk, rows, indptr, indices, base, edge_ids, weight, left, right,
    self_loop, drop_loops, place, offsets, entries, coefs, scales,
):  # fmt: skip
    """Write a chunk's entries to the buffers; return how many rows it has.

    Empty arrays stand for the trivial case: ``rows`` and ``place`` (where a
    node's row lies in the input) for the identity, ``edge_ids`` for edges in
    order, ``weight``, ``left`` and ``right`` for ones. ``indices`` and
    ``weight`` begin at edge ``base``. ``self_loop`` puts an entry of weight
    1 first in each row, ``drop_loops`` leaves out the edges from a node to
    itself.
    """
    all_rows = len(rows) == 0
    weighted, ordered = len(weight) > 0, len(edge_ids) == 0
    used = 0
    count = 0
    offsets[0] = 0
    for position in range(chunk[FIRST], chunk[LAST]):
        row = position if all_rows else rows[position]
        start = max(indptr[row], chunk[FROM_EDGE])
        stop = min(indptr[row + 1], chunk[TO_EDGE])
        if self_loop and start == indptr[row]:
            entries[used] = row
            if weighted:
                coefs[used] = 1.0
            used += 1
        if drop_loops or weighted:
            for edge in range(start, stop):
                source = indices[edge - base]
                if drop_loops and source == row:
                    continue
                entries[used] = source
                if weighted:
                    at = edge - base if ordered else edge_ids[edge]
                    coefs[used] = weight[at]
                used += 1
        else:
            for edge in range(start, stop):
                entries[used + edge - start] = indices[edge - base]
            used += stop - start
        # The parts of a split row are scaled when they are added up.
        scaled = len(left) > 0 and chunk[SLOT] < 0
        scales[count] = left[row] if scaled else 1.0
        count += 1
        offsets[count] = used
    # Loops of their own: many cache misses of `right` are then under way at
    # once, where a branch between them would have each wait for the last.
    if not weighted:
        if len(right) > 0:
            for e in range(used):
                coefs[e] = right[entries[e]]
        else:
            coefs[:used] = 1.0
    elif len(right) > 0:
        for e in range(used):
            coefs[e] *= right[entries[e]]
    if len(place) > 0:
        for e in range(used):
            entries[e] = place[entries[e]]
    return count
