"""Kernels that read edges: counting, sorting by destination, marking.

Edges come as slices, in any order, or as columns of a CSC. The counting and
sorting kernels touch only rows ``low <= row < high``, so that threads share
the work by ranges of rows: no locks, no private copies, and the order of a
row's edges is that of the slices whatever the number of threads.

Kernels take an empty array where there is nothing, such as no edge ids; in
Python that is None, and :func:`or_empty` converts it.
"""

from typing import NamedTuple

import numpy as np

from ..._common.jit import jit
from ..._common.select_ids import select_into


def or_empty(array: np.ndarray | None, dtype: np.dtype | type) -> np.ndarray:
    """Give the array, or for None an empty one, as kernels take it."""
    return np.empty(0, dtype) if array is None else array


@jit
def check_indptr(indptr: np.ndarray, num_edges: int) -> int:
    """Return the first place that is not as it should be, or -1."""
    if indptr[0] != 0:
        return 0
    for v in range(len(indptr) - 1):
        if indptr[v + 1] < indptr[v]:
            return v + 1
    return len(indptr) - 1 if indptr[-1] != num_edges else -1


@jit
def find_outside(ids: np.ndarray, limit: int) -> int:
    """Return the first place of an id that is negative or too large, or -1."""
    for i in range(len(ids)):
        if ids[i] < 0 or ids[i] >= limit:
            return i
    return -1


@jit
def expand_rows(
    indptr: np.ndarray, begin: int, row: int, out: np.ndarray
) -> int:
    """Write the row of each place from ``begin`` on; return the last row.

    ``row`` is that of the place before.
    """
    for i in range(len(out)):
        while indptr[row + 1] <= begin + i:
            row += 1
        out[i] = row
    return row


@jit
def count_slice(
    source: np.ndarray,
    target: np.ndarray,
    low: int,
    high: int,
    in_edges: np.ndarray,
    out_edges: np.ndarray,
    loops: np.ndarray,
    places: np.ndarray,
) -> None:
    """Count edges by target (from index 1 on) and source, and self-loops.

    An end outside the graph is counted nowhere. ``places`` is scratch.
    """
    for i in places[: select_into(target, 0, len(target), low, high, places)]:
        v = target[i]
        in_edges[v + 1] += 1
        if source[i] == v:
            loops[v] += 1
    for i in places[: select_into(source, 0, len(source), low, high, places)]:
        out_edges[source[i]] += 1


class Sorting(NamedTuple):
    """What :func:`place_slice` fills: edges in the order by destination.

    ``cursor[row - first_row]`` is where the next edge of the row goes. Only
    places ``begin <= place < end`` are written, ``begin`` being the first
    place of the outputs. Outputs of length 0 are not wanted.
    """

    cursor: np.ndarray
    first_row: int
    begin: int
    end: int
    indices: np.ndarray
    order: np.ndarray
    weight: np.ndarray
    sorted_weight: np.ndarray


@jit
def place_slice(
    source: np.ndarray,
    target: np.ndarray,
    edge_ids: np.ndarray,
    first: int,
    low: int,
    high: int,
    sorting: Sorting,
    places: np.ndarray,
) -> None:
    """Put a slice's edges where they stand in the order by destination.

    ``edge_ids`` may be empty: the ids then count up from ``first``.
    ``places`` is scratch.
    """
    cursor, indices, order = sorting.cursor, sorting.indices, sorting.order
    weight, sorted_weight = sorting.weight, sorting.sorted_weight
    begin, end, first_row = sorting.begin, sorting.end, sorting.first_row
    for e in places[: select_into(target, 0, len(target), low, high, places)]:
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
def count_columns(
    indptr: np.ndarray,
    indices: np.ndarray,
    low: int,
    high: int,
    out_edges: np.ndarray,
    loops: np.ndarray,
) -> None:
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
def count_edges(rows: np.ndarray, indptr: np.ndarray) -> int:
    """Count the edges of some rows."""
    total = 0
    for row in rows:
        total += indptr[row + 1] - indptr[row]
    return total


@jit
def mix(v: np.uint64) -> np.uint64:
    """Return 64 bits that look random, for a node: those of SplitMix64."""
    found = (v + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))


@jit
def count_totals(
    indptr: np.ndarray, out_edges: np.ndarray, loops: np.ndarray
) -> tuple[int, int, bool, tuple[np.uint64, ...]]:
    """Count self-loops and nodes that have any; compare degrees in and out.

    The last result are the hashes of the in-degrees, the out-degrees, the
    self-loops and one edge per node.
    """
    num_loops, num_looped, balanced = 0, 0, True
    hash_in = hash_out = hash_loops = hash_nodes = np.uint64(0)
    for v in range(len(loops)):
        in_edges = indptr[v + 1] - indptr[v]
        num_loops += loops[v]
        num_looped += loops[v] > 0
        balanced &= in_edges == out_edges[v]
        factor = mix(np.uint64(v))
        hash_in += factor * np.uint64(in_edges)
        hash_out += factor * np.uint64(out_edges[v])
        hash_loops += factor * np.uint64(loops[v])
        hash_nodes += factor
    hashes = hash_in, hash_out, hash_loops, hash_nodes
    return num_loops, num_looped, balanced, hashes


@jit
def fill_diagonal(
    in_edges: np.ndarray,
    loops: np.ndarray,
    self_loop: bool,
    power: float,
    least: int,
    out: np.ndarray,
) -> None:
    """Write ``degree(v) ** power``, or 0 for a degree of 0.

    ``in_edges`` holds degrees, or begins of rows if it is one longer than
    ``out``. With ``self_loop`` a node has exactly one self-loop. A degree
    below ``least`` counts as that.
    """
    pointers = len(in_edges) == len(out) + 1
    for v in range(len(out)):
        degree = in_edges[v + 1] - in_edges[v] if pointers else in_edges[v]
        if self_loop:
            degree += 1 - loops[v]
        degree = max(degree, least)
        out[v] = float(degree) ** power if degree > 0 else 0.0


@jit
def are_equal(left: np.ndarray, right: np.ndarray) -> bool:
    """Compare two arrays of one length, without a temporary."""
    same = True
    for i in range(len(left)):
        same &= left[i] == right[i]
    return same


@jit
def mark_sources(
    rows: np.ndarray,
    low: int,
    high: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    base: int,
    marks: np.ndarray,
) -> None:
    """Set ``marks`` of every source of rows ``rows[low:high]``.

    ``indices`` begin at edge ``base``. Edges that they do not have, of an
    edge block, are passed over.
    """
    last = base + len(indices)
    for i in range(low, high):
        row = rows[i]
        begin, end = max(indptr[row], base), min(indptr[row + 1], last)
        for e in range(begin, end):
            marks[indices[e - base]] = 1


@jit
def mark_slice(
    source: np.ndarray,
    target: np.ndarray,
    wanted: np.ndarray,
    marks: np.ndarray,
) -> None:
    """Set ``marks`` of every source with an edge to a wanted target."""
    for e in range(len(source)):
        if wanted[target[e]]:
            marks[source[e]] = 1


@jit
def list_marked(marks: np.ndarray, rows: np.ndarray) -> None:
    """Write the places of the marks, in ascending order."""
    count = 0
    for v in range(len(marks)):
        if marks[v]:
            rows[count] = v
            count += 1


@jit
def _mix(z: np.uint64) -> np.uint64:
    """Mix the bits of a number: every bit depends on every other."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def hash_edges(
    source: np.ndarray,
    target: np.ndarray,
    edge_ids: np.ndarray,
    first: int,
    weight: np.ndarray,
    sums: np.ndarray,
) -> None:
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
            z = _mix(z ^ np.uint64(weight[edge]))
        sums[0] += z
        sums[1] += _mix(z ^ np.uint64(0xD6E8FEB86659FD93))


@jit
def number_rows(rows: np.ndarray, first: int, place: np.ndarray) -> None:
    """``place[rows[i]] = first + i``"""
    for i in range(len(rows)):
        place[rows[i]] = first + i


@jit
def find_places(nodes: np.ndarray, place: np.ndarray, out: np.ndarray) -> None:
    """``out[i] = place[nodes[i]]``"""
    for i in range(len(nodes)):
        out[i] = place[nodes[i]]
