"""Chunks: pieces of work of equal size, whatever the degrees are.

A chunk is a few rows of the filter with together at most ``CAPACITY``
entries (edges, and one self-loop for each row). A row with more of them, or
one that an edge block cuts, is *split*: each part is a chunk of its own that
writes to a slot, and the slots of a row are added up in order afterwards. So
a hub never serialises the work, and the sums do not depend on the number of
threads.
"""

from typing import Any, NamedTuple

import numpy as np

from ..._common.jit import jit
from ..graph.edge_kernels import or_empty

#: Entries in a chunk. Its buffers stay in a core's second-level cache.
CAPACITY = 32768

# The columns of a chunk table.
FIRST, LAST, FROM_EDGE, TO_EDGE, SLOT = range(5)


class Chunks(NamedTuple):
    """The chunks of a hop.

    Attributes
    ----------
    table : int64 array of shape (chunks, 5)
        First and last (exclusive) position in the hop's rows, the range of
        edges, and the slot, -1 where the chunk's rows are whole.
    starts : int64 array
        The first chunk of each edge block, and the number of chunks.
    num_slots : int
        How many slots there are.
    """

    table: np.ndarray
    starts: np.ndarray
    num_slots: int


def cut_chunks(
    rows: np.ndarray | None, indptr: np.ndarray, bounds: np.ndarray
) -> Chunks:
    """Cut rows into chunks that respect the edge blocks.

    Parameters
    ----------
    rows : int32 array or None
        Ascending ids of the rows to compute; None for all of them.
    indptr : integer array
        Where the edges of each row begin.
    bounds : int64 array
        The first edge of each edge block, and the end of the last one.
    """
    num_rows = len(indptr) - 1 if rows is None else len(rows)
    entries = int(num_rows + bounds[-1] - bounds[0])
    table = np.empty((_most_chunks(entries, len(bounds) - 1), 5), np.int64)
    starts = np.zeros(len(bounds), np.int64)
    count, slots = _cut_chunks(
        or_empty(rows, np.int32), num_rows, indptr, bounds, table, starts
    )
    return Chunks(table[:count].copy(), starts, slots)


def _most_chunks(entries: int, num_blocks: int) -> int:
    return 8 * (entries // CAPACITY + 1) + 4 * (num_blocks + 1) + 8


def table_bytes(entries: int, num_blocks: int) -> int:
    """Count the bytes that :func:`cut_chunks` allocates.

    A table is copied to its final size, and again to find split rows.
    """
    return 2 * 5 * 8 * _most_chunks(entries, num_blocks) + 8 * num_blocks + 8


def slot_bytes(num_edges: int, num_blocks: int, width: int, size: int) -> int:
    """Count the bytes of the slots of split rows, and of adding them up."""
    slots = 2 * (num_edges // (CAPACITY - 1)) + 2 * (num_blocks - 1)
    return 2 * slots * width * size


@jit
def _cut_chunks(
    rows: np.ndarray,
    num_rows: int,
    indptr: np.ndarray,
    bounds: np.ndarray,
    table: np.ndarray,
    starts: np.ndarray,
) -> tuple[int, int]:
    identity = len(rows) == 0  # or nothing has to be computed
    # For each constant, Numba would compile again what it is given to.
    zero: Any = np.int64(0)
    count = slots = position = zero
    blocks = len(bounds) - 1
    # The position of a row that began in an earlier block and is not at its
    # end yet, or -1.
    open_row = zero - 1
    for block in range(blocks):
        begin, end = bounds[block], bounds[block + 1]
        last_block = block == blocks - 1
        starts[block] = count
        if open_row >= 0:
            row = open_row if identity else rows[open_row]
            stop = min(indptr[row + 1], end)
            count, slots = _split(table, count, slots, open_row, begin, stop)
            if indptr[row + 1] <= end:
                open_row = zero - 1
        first = position
        load = zero
        while position < num_rows:
            row = position if identity else rows[position]
            start, stop = indptr[row], indptr[row + 1]
            if start >= end and not last_block:
                break
            weight = stop - start + 1
            whole = stop <= end and weight <= CAPACITY
            if first < position and (not whole or load + weight > CAPACITY):
                count = _write(table, count, first, position, begin, end, -1)
                first, load = position, zero
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
            count = _write(table, count, first, position, begin, end, -1)
    starts[blocks] = count
    return count, slots


@jit
def _write(
    table: np.ndarray,
    count: int,
    first: int,
    last: int,
    from_edge: int,
    to_edge: int,
    slot: int,
) -> int:
    """Write a chunk; return how many there are then.

    Assigning a tuple to a row would take Numba seconds to compile.
    """
    table[count, FIRST] = first
    table[count, LAST] = last
    table[count, FROM_EDGE] = from_edge
    table[count, TO_EDGE] = to_edge
    table[count, SLOT] = slot
    return count + 1


@jit
def _split(
    table: np.ndarray,
    count: int,
    slots: int,
    position: int,
    start: int,
    stop: int,
) -> tuple[int, int]:
    """Chunks for edges start to stop of one row, a slot each."""
    edge = start
    while edge < stop:
        # One place is left for the row's self-loop.
        upto = min(edge + CAPACITY - 1, stop)
        count = _write(table, count, position, position + 1, edge, upto, slots)
        slots += 1
        edge = upto
    return count, slots


class Entries(NamedTuple):
    """What the entries of a hop are made of, of one edge block.

    Empty arrays stand for the trivial case: ``rows`` and ``place`` (where a
    node's row lies in the input) for the identity, ``edge_ids`` for edges in
    order, ``weight``, ``left`` and ``right`` for ones. ``indices`` and
    ``weight`` begin at edge ``base``. ``self_loop`` puts an entry of weight
    1 first in each row, ``drop_loops`` omits the edges from a node to
    itself.
    """

    rows: np.ndarray
    place: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    base: int
    edge_ids: np.ndarray
    weight: np.ndarray
    left: np.ndarray
    right: np.ndarray
    self_loop: bool
    drop_loops: bool


class Scratch(NamedTuple):
    """A thread's buffers for the entries of a chunk."""

    offsets: np.ndarray
    entries: np.ndarray
    coefs: np.ndarray
    scales: np.ndarray


def make_scratch(num_entries: int, dtype: np.dtype) -> Scratch:
    """Allocate buffers for any chunk of a graph with so many entries."""
    size = min(CAPACITY, num_entries)
    return Scratch(
        np.empty(size + 1, np.int64),
        np.empty(size, np.int32),
        np.empty(size, dtype),
        np.empty(size, dtype),
    )


def scratch_bytes(num_entries: int, itemsize: int) -> int:
    """Count the bytes of :func:`make_scratch`."""
    return (min(CAPACITY, num_entries) + 1) * (8 + 4 + 2 * itemsize)


@jit
def assemble(chunk: np.ndarray, hop: Entries, scratch: Scratch) -> int:
    """Write a chunk's entries to the scratch; return how many rows it has.

    ``hop`` is :class:`Entries`.
    """
    rows, indptr, indices, base = hop.rows, hop.indptr, hop.indices, hop.base
    weight, edge_ids, place = hop.weight, hop.edge_ids, hop.place
    left, right = hop.left, hop.right
    self_loop, drop_loops = hop.self_loop, hop.drop_loops
    offsets, entries = scratch.offsets, scratch.entries
    coefs, scales = scratch.coefs, scratch.scales
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
            for e in range(used):
                coefs[e] = 1.0
    elif len(right) > 0:
        for e in range(used):
            coefs[e] *= right[entries[e]]
    if len(place) > 0:
        for e in range(used):
            entries[e] = place[entries[e]]
    return count
