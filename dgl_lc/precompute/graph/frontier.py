"""The frontier: at which rows each hop has to be computed.

To give hop k at some nodes, hop k - 1 is needed at them and at their
in-neighbours, and nowhere else. Degrees stay those of the whole graph, so
the result is exact.
"""

import numpy as np

from .in_edges import InEdges

#: Where more than this share of the rows is needed, all are computed: lists
#: of rows would cost more than they save.
_NEARLY_ALL = 0.95


def frontier(
    edges: InEdges,
    nodes: np.ndarray,
    hops: list[int],
    self_loop: bool,
    first: int = 0,
) -> list[np.ndarray]:
    """The rows at which each hop, from 0 to the last, is needed.

    Parameters
    ----------
    edges : InEdges
        The graph.
    nodes : int64 array
        The nodes asked for.
    hops : list of int
        The hops asked for, ascending.
    self_loop : bool
        Whether a node's next hop needs the node itself.
    first : int
        Do not look at hops before this one; they are given as all rows.

    Returns
    -------
    list of int32 arrays
        Ascending row ids; an empty array stands for all rows.
    """
    all_rows = np.empty(0, np.int32)
    last = hops[-1]
    rows: list[np.ndarray] = [all_rows] * (last + 1)
    wanted = np.zeros(edges.num_nodes, np.uint8)
    wanted[nodes] = 1
    for hop in range(last, first - 1, -1):
        if np.count_nonzero(wanted) > _NEARLY_ALL * edges.num_nodes:
            break
        found = np.flatnonzero(wanted).astype(np.int32)
        rows[hop] = found
        if hop == first:
            break
        before = wanted.copy() if self_loop else np.zeros_like(wanted)
        edges.mark_sources(found, wanted, before)
        # A hop that is needed nowhere is computed where it is asked for: no
        # rows at all would read as all of them.
        if hop - 1 in hops or not before.any():
            before[nodes] = 1
        wanted = before
    return rows
