"""Checking edges before any kernel reads them.

A kernel follows ``indptr`` and ``indices`` without looking: a wrong number
would have it read or write outside of its arrays. So all of them are looked
at once, in the order of memory, on all threads.
"""

from collections.abc import Callable

import numpy as np
from dgl import DGLError

from .._common.jit import jit
from .._common.threads import num_threads, ranges, run_parallel

#: Edges, or rows, that a thread takes at a time.
_PIECE = 1 << 20


@jit
def _bounds(ids: np.ndarray) -> tuple[int, int]:
    """Find the least and the greatest id."""
    low, high = ids[0], ids[0]
    for i in range(len(ids)):
        low, high = min(low, ids[i]), max(high, ids[i])
    return low, high


@jit
def _first_fall(indptr: np.ndarray, low: int, high: int) -> int:
    """The first row from low to high whose edges end before they begin."""
    for row in range(low, high):
        if indptr[row + 1] < indptr[row]:
            return row
    return -1


@jit
def _first_outside(
    indices: np.ndarray, low: int, high: int, num_nodes: int
) -> int:
    """The first edge from low to high whose source is not a node."""
    for edge in range(low, high):
        if indices[edge] < 0 or indices[edge] >= num_nodes:
            return edge
    return -1


@jit
def _first_not_finite(weights: np.ndarray, low: int, high: int) -> int:
    """The first edge from low to high whose weight is not finite."""
    for edge in range(low, high):
        if not np.isfinite(weights[edge]):
            return edge
    return -1


@jit
def _first_wrong_loops(
    indptr: np.ndarray,
    indices: np.ndarray,
    loops: np.ndarray,
    low: int,
    high: int,
) -> int:
    """The first row from low to high with other self-loops than it says."""
    for row in range(low, high):
        count = 0
        for edge in range(indptr[row], indptr[row + 1]):
            count += indices[edge] == row
        if loops[row] != count:
            return row
    return -1


def check_slice(
    what: str,
    num_nodes: int,
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None = None,
) -> None:
    """Refuse edges of a file between other nodes, or with odd weights.

    Parameters
    ----------
    what : str
        Names the file in messages.
    num_nodes : int
        Ids are from 0 to num_nodes - 1.
    source, target, weight : array
        Some of its edges; their weights should be finite.
    """
    for ids in (source, target):
        low, high = _bounds(ids) if len(ids) else (0, 0)
        if low < 0 or high >= num_nodes:
            raise DGLError(
                f"{what} holds {low if low < 0 else high}, but there are "
                f"nodes 0 to {num_nodes - 1}."
            )
    if weight is None:
        return
    place = _first_not_finite(weight, 0, len(weight))
    if place >= 0:
        raise DGLError(
            f"{what}: the edge from node {source[place]} to node "
            f"{target[place]} has the weight {weight[place]} as "
            f"{weight.dtype}, but weights should be finite."
        )


def check_compressed(
    indptr: np.ndarray,
    indices: np.ndarray,
    num_nodes: int,
    what: str,
    loops: np.ndarray | None = None,
) -> None:
    """Refuse edges by destination that a kernel could not read safely.

    Parameters
    ----------
    indptr, indices : integer arrays
        Where the edges of each row begin, and their sources.
    num_nodes : int
        Ids are from 0 to num_nodes - 1.
    what : str
        Names the graph in messages.
    loops : integer array, optional
        How many edges each node has to itself, which is compared.
    """
    check_pointers(indptr, len(indices), num_nodes, what)
    check_sources(indptr, indices, (0, num_nodes), what, loops)


def check_pointers(
    indptr: np.ndarray, num_edges: int, num_nodes: int, what: str
) -> None:
    """Refuse begins of rows that do not rise from 0 to the number of edges."""
    if len(indptr) != num_nodes + 1:
        raise DGLError(
            f"{what}: indptr has {len(indptr)} numbers, but {num_nodes + 1} "
            f"belong to {num_nodes} nodes."
        )
    if indptr[0] != 0 or indptr[-1] != num_edges:
        raise DGLError(
            f"{what}: indptr goes from {indptr[0]} to {indptr[-1]}, but there "
            f"are {num_edges} edges."
        )
    row = _first((0, num_nodes), lambda *part: _first_fall(indptr, *part))
    if row >= 0:
        raise DGLError(f"{what}: indptr falls at node {row}.")


def check_sources(
    indptr: np.ndarray,
    indices: np.ndarray,
    rows: tuple[int, int],
    what: str,
    loops: np.ndarray | None = None,
) -> None:
    """Refuse sources that are not nodes, of the edges of a range of rows.

    ``loops`` says how many edges each node has to itself, which is compared.
    """
    num_nodes = len(indptr) - 1
    places = (int(indptr[rows[0]]), int(indptr[rows[1]]))
    edge = _first(
        places, lambda *part: _first_outside(indices, *part, num_nodes)
    )
    if edge >= 0:
        raise DGLError(
            f"{what}: edge {edge} comes from node {indices[edge]}, but there "
            f"are nodes 0 to {num_nodes - 1}."
        )
    if loops is None:
        return
    row = _first(
        rows, lambda *part: _first_wrong_loops(indptr, indices, loops, *part)
    )
    if row >= 0:
        raise DGLError(
            f"{what}: node {row} has other self-loops than the {loops[row]} "
            f"that are stored for it."
        )


def check_weights(
    weights: np.ndarray, what: str, places: tuple[int, int] | None = None
) -> None:
    """Refuse weights that are not finite, of a range of edges or of all."""
    edge = _first(
        places or (0, len(weights)),
        lambda *part: _first_not_finite(weights, *part),
    )
    if edge >= 0:
        raise DGLError(
            f"{what}: edge {edge} has the weight {weights[edge]}, but weights "
            f"should be finite."
        )


def _first(places: tuple[int, int], find: Callable[[int, int], int]) -> int:
    """The least place that a search over parts of a range finds, or -1."""
    low, total = places[0], places[1] - places[0]
    parts = ranges(total, max(1, -(-total // _PIECE), num_threads()))
    found = np.full(len(parts), -1, np.int64)

    def search(_: int, part: int) -> None:
        begin, end = parts[part]
        found[part] = find(low + begin, low + end)

    run_parallel(search, len(parts))
    return int(next((place for place in found if place >= 0), -1))
