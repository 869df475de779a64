"""The frontier: at which rows each hop has to be computed.

To give hop k at some nodes, hop k - 1 is needed at them and at their
in-neighbours, and nowhere else. Degrees stay those of the whole graph, so
the result is exact.
"""

from collections.abc import Callable

import numpy as np

from ..._common.bytes import zeros
from .edge_kernels import list_marked
from .in_edges import InEdges

#: Where more than this share of the rows is needed, all are computed: lists
#: of rows would cost more than they save.
_NEARLY_ALL = 0.95


def mark_bytes(num_nodes: int) -> int:
    """Count the bytes that finding the frontier takes beside the lists."""
    return 2 * num_nodes


def list_bytes(num_rows: int) -> int:
    """Count the bytes of a list of rows."""
    return 4 * num_rows


def frontier(
    edges: InEdges,
    nodes: np.ndarray,
    hops: list[int],
    self_loop: bool,
    first: int = 0,
    before_list: Callable[[int], object] = bool,
) -> list[np.ndarray | None]:
    """Find the rows at which each hop, from 0 to the last, is needed.

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
    before_list : callable
        Is told the length of each list before it is made.

    Returns
    -------
    list of int32 array or None
        Ascending row ids; None for all rows. A list may be empty.
    """
    last = hops[-1]
    rows: list[np.ndarray | None] = [None] * (last + 1)
    wanted, before = (zeros(edges.num_nodes, np.uint8) for _ in range(2))
    wanted[nodes] = 1
    for hop in range(last, first - 1, -1):
        count = int(np.count_nonzero(wanted))
        if count > _NEARLY_ALL * edges.num_nodes:
            break
        before_list(count)
        found = zeros(count, np.int32)
        list_marked(wanted, found)
        rows[hop] = found
        if hop == first:
            break
        before[:] = wanted if self_loop else 0
        edges.mark_sources(found, wanted, before)
        if hop - 1 in hops:
            before[nodes] = 1
        wanted, before = before, wanted
    return rows
