"""Kernels that read edges: counting, sorting by destination, marking.

Edges come as slices, in any order, or as columns of a CSC. The counting and
sorting kernels touch only rows ``low <= row < high``, so that threads share
the work by ranges of rows: no locks, no private copies, and the order of a
row's edges is that of the slices whatever the number of threads.
"""

import numpy as np

from ..._common.jit import jit
from ..._common.select_ids import select_ids


@jit
def count_slice(source, target, low, high, in_edges, out_edges, loops):
    """Count edges by target (from index 1 on) and source, and self-loops."""
    for i in select_ids(target, low, high):
        v = target[i]
        in_edges[v + 1] += 1
        if source[i] == v:
            loops[v] += 1
    for i in select_ids(source, low, high):
        out_edges[source[i]] += 1


@jit
def place_slice(
    source, target, edge_ids, first, low, high, cursor, first_row,
    begin, end, indices, order, weight, sorted_weight,
):  # fmt: skip
    """Put a slice's edges where they stand in the order by destination.

    ``cursor[row - first_row]`` is where the next edge of the row goes. Only
    places ``begin <= place < end`` are written, ``begin`` being the first
    place of the outputs. Outputs of length 0 are not wanted. ``edge_ids``
    may be empty: the ids then count up from ``first``.
    """
    for e in select_ids(target, low, high):
        v = target[e]
        place = cursor[v - first_row]
        cursor[v - first_row] = place + 1
        if begin <= place < end:
            edge = first + e if len(edge_ids) == 0 else edge_ids[e]
            if len(indices) > 0:
                indices[place - begin] = source[e]
            if len(order) > 0:
                order[place - begin] = edge
            if len(sorted_weight) > 0:
                sorted_weight[place - begin] = weight[edge]


@jit
def count_columns(indptr, indices, low, high, out_edges, loops):
    """As :func:`count_slice`, of edges that are sorted by destination."""
    for v in range(len(indptr) - 1):
        mine = low <= v < high
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if low <= u < high:
                out_edges[u] += 1
            if mine and u == v:
                loops[v] += 1


@jit
def fill_diagonal(in_edges, loops, self_loop, power, out):
    """``out[v] = degree(v) ** power``, 0 for a node without edges.

    ``in_edges`` holds degrees, or begins of rows if it is one longer than
    ``out``. With ``self_loop`` a node has exactly one self-loop.
    """
    pointers = len(in_edges) == len(out) + 1
    for v in range(len(out)):
        degree = in_edges[v + 1] - in_edges[v] if pointers else in_edges[v]
        if self_loop:
            degree += 1 - loops[v]
        out[v] = float(degree) ** power if degree > 0 else 0.0


@jit
def mark_sources(rows, low, high, indptr, indices, marks):
    """Set ``marks`` of every source of rows ``rows[low:high]``."""
    for i in range(low, high):
        row = rows[i]
        for e in range(indptr[row], indptr[row + 1]):
            marks[indices[e]] = 1


@jit
def mark_slice(source, target, wanted, marks):
    """Set ``marks`` of every source with an edge to a wanted target."""
    for e in range(len(source)):
        if wanted[target[e]]:
            marks[source[e]] = 1


@jit
def _mix(z):
    """Mix the bits of a number: every bit depends on every other."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def hash_edges(source, target, edge_ids, first, weight, sums):
    """Add to two sums over edges, of numbers that mix both ends.

    ``weight`` holds the bits of the edges' weights by edge id, which are
    mixed in too; it is empty for none. ``edge_ids`` is as in
    :func:`place_slice`.
    """
    for e in range(len(source)):
        z = (np.uint64(source[e]) << np.uint64(32)) | np.uint64(target[e])
        z = _mix(z + np.uint64(0x9E3779B97F4A7C15))
        if len(weight) > 0:
            edge = first + e if len(edge_ids) == 0 else edge_ids[e]
            z = _mix(z ^ weight[edge])
        sums[0] += z
        sums[1] += _mix(z ^ np.uint64(0xD6E8FEB86659FD93))


@jit
def number_rows(rows, place):
    """``place[rows[i]] = i``"""
    for i in range(len(rows)):
        place[rows[i]] = i
