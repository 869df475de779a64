"""Which rows of hop features differ, after a graph or its features changed.

A row of the filter changes with the edges into its node, and with the degree
of any node that it sums over. A row of hop k changes if that row of the
filter does, or if it sums over a row of hop k - 1 that changed. Nothing else
does, so the rows are found exactly, from the two graphs alone.
"""

from collections.abc import Iterator

import numpy as np

from ..._common.jit import jit
from ..._common.threads import num_threads, ranges, run_parallel
from ...hops import FilterSpec
from .in_edges import EdgeBlock, InEdges

#: Edges of each graph that are compared at a time, about.
_BATCH = 1 << 20


def changed_filter_rows(
    old: InEdges,
    new: InEdges,
    spec: FilterSpec,
    old_weight: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    dtype: np.dtype | type = np.float64,
) -> np.ndarray:
    """Mark the rows in which the filters of two graphs differ.

    Parameters
    ----------
    old, new : InEdges
        The graphs. The new one may have more nodes, at its end.
    spec : FilterSpec
        The filter.
    old_weight, weight : array, optional
        Weights of the edges, in the order of the graph's edges.
    dtype : numpy.dtype
        The type in which weights are compared.

    Returns
    -------
    bool array
        A mark for each node of the new graph. New nodes are marked.
    """
    changed = np.ones(new.num_nodes, bool)
    graphs = [
        _Graph(old, old.whole(old_weight), spec.self_loop, dtype),
        _Graph(new, new.whole(weight), spec.self_loop, dtype),
    ]
    for first, last in _batches(old, new):
        one, other = (graph.rows(first, last) for graph in graphs)
        changed[first:last] = _different_rows(one, other, last - first)
    if spec.norm in ("both", "left", "in"):
        scaled = _different_factors(old, new, spec)
        if spec.self_loop:
            changed |= scaled
        changed |= reached(new, scaled)
    return changed


def changed_hop_rows(
    edges: InEdges,
    filter_rows: np.ndarray,
    feature_rows: np.ndarray,
    last: int,
    self_loop: bool,
) -> Iterator[np.ndarray]:
    """Mark the rows of hops 0 to ``last`` that change, hop after hop.

    Parameters
    ----------
    edges : InEdges
        The new graph.
    filter_rows : bool array
        The rows of the filter that changed.
    feature_rows : bool array
        The rows of the features that changed, or are new.
    """
    marked = feature_rows
    yield marked
    for _ in range(last):
        found = filter_rows | reached(edges, marked)
        if self_loop:
            found |= marked
        marked = found
        yield marked


def reached(edges: InEdges, marked: np.ndarray) -> np.ndarray:
    """Mark every node with an edge from a marked one."""
    found = np.zeros(edges.num_nodes, bool)
    if marked.any():
        indptr, indices = edges.indptr, edges.load()
        parts = ranges(edges.num_nodes, 8 * num_threads())

        def mark(_: int, part: int) -> None:
            _mark_reached(indptr, indices, marked, *parts[part], found)

        run_parallel(mark, len(parts))
    return found


@jit
def _mark_reached(
    indptr: np.ndarray,
    indices: np.ndarray,
    marked: np.ndarray,
    first: int,
    last: int,
    found: np.ndarray,
) -> None:
    for row in range(first, last):
        for edge in range(indptr[row], indptr[row + 1]):
            if marked[indices[edge]]:
                found[row] = True
                break


def _different_factors(
    old: InEdges, new: InEdges, spec: FilterSpec
) -> np.ndarray:
    """Mark the nodes of both graphs whose factor as a source differs."""
    found = np.zeros(new.num_nodes, bool)
    n = old.num_nodes
    degrees = [_source_degrees(edges, n, spec) for edges in (old, new)]
    found[:n] = degrees[0] != degrees[1]
    return found


def _source_degrees(edges: InEdges, n: int, spec: FilterSpec) -> np.ndarray:
    """Give the degrees that the first n nodes have as sources of edges."""
    into = spec.norm == "in"
    degrees = np.diff(edges.indptr[: n + 1]) if into else edges.out_edges[:n]
    if spec.self_loop:
        # Own loops do not count: each node has exactly one.
        degrees = degrees - edges.loops[:n] + 1
    return np.maximum(degrees, 1) if into else degrees


def _batches(old: InEdges, new: InEdges) -> Iterator[tuple[int, int]]:
    """Cut the nodes of both graphs into ranges with not too many edges."""
    n, first = old.num_nodes, 0
    while first < n:
        ends = [
            int(np.searchsorted(indptr[: n + 1], indptr[first] + _BATCH))
            for indptr in (old.indptr, new.indptr)
        ]
        last = min(max(first + 1, min(ends)), n)
        yield first, last
        first = last


class _Graph:
    """Gives the edges into some rows, as the filter sees them."""

    def __init__(
        self,
        edges: InEdges,
        block: EdgeBlock,
        self_loop: bool,
        dtype: np.dtype | type,
    ):
        self._edges, self._block = edges, block
        self._self_loop, self._dtype = self_loop, dtype

    def rows(
        self, first: int, last: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give row numbers from 0 on, sources, and the bits of weights."""
        indptr, block = self._edges.indptr, self._block
        begin, end = int(indptr[first]), int(indptr[last])
        row = np.repeat(
            np.arange(last - first), np.diff(indptr[first : last + 1])
        )
        source = np.asarray(block.indices[begin:end])
        weight = np.zeros(len(source), np.int8)
        if block.weight is not None:
            own: np.ndarray | slice = slice(begin, end)
            if block.edge_ids is not None:
                own = block.edge_ids[begin:end]
            values = np.ascontiguousarray(block.weight[own], self._dtype)
            weight = values.view(f"i{values.itemsize}")
        if self._self_loop:
            kept = source != row + first
            row, source, weight = row[kept], source[kept], weight[kept]
        return row, source, weight


def _different_rows(
    one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...], rows: int
) -> np.ndarray:
    """Mark the rows whose edges differ, whatever their order."""
    counts = [np.bincount(row, minlength=rows) for row, *_ in (one, other)]
    changed = counts[0] != counts[1]
    same = ~changed
    one, other = _of_rows(one, same), _of_rows(other, same)
    # Most rows are the same in the same order; others are sorted.
    unsure = _differ(one, other, rows)
    one, other = _of_rows(one, unsure), _of_rows(other, unsure)
    return changed | _differ(_in_order(one), _in_order(other), rows)


def _of_rows(
    edges: tuple[np.ndarray, ...], rows: np.ndarray
) -> tuple[np.ndarray, ...]:
    kept = rows[edges[0]]
    return tuple(part[kept] for part in edges)


def _in_order(edges: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    row, source, weight = edges
    order = np.lexsort((weight, source, row))
    return row, source[order], weight[order]


def _differ(
    one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...], rows: int
) -> np.ndarray:
    """Mark the rows that have other edges at the same place."""
    found = np.zeros(rows, bool)
    differs = (one[1] != other[1]) | (one[2] != other[2])
    found[one[0][differs]] = True
    return found
