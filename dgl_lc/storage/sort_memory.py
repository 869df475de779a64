"""How memory is shared out while edges are sorted."""

from typing import NamedTuple

import numpy as np
from dgl import DGLError

from .._common.bytes import format_bytes
from .._common.threads import num_threads
from .rough_sort import PAIR_BYTES, RoughSize
from .work_space import array_bytes

#: What every call takes beside its large arrays: threads and their stacks,
#: Python's objects, buffers of files.
OVERHEAD = 2 << 20
#: Edges read at a time, if memory allows, and at least.
_MOST_SLICE = 1 << 21
_LEAST_SLICE = 256
#: Bytes of an edge in a slice, without a weight.
_SLICE_BYTES = 16
_MOST_THREADS = 8


class Budget(NamedTuple):
    """Memory that may be allocated.

    Attributes
    ----------
    memory : int
        All of it, in bytes.
    overhead : int
        How much of it is not for large arrays.
    """

    memory: int
    overhead: int = OVERHEAD

    @property
    def room(self) -> int:
        """Bytes for large arrays."""
        return self.memory - self.overhead


class Shares(NamedTuple):
    """How memory is shared out.

    Attributes
    ----------
    slice_edges : int
        Edges of a slice.
    rough : RoughSize
        What is sorted roughly before it is sorted.
    rows : int
        Bytes for rows of the graph and their edges.
    """

    slice_edges: int
    rough: RoughSize
    rows: int

    @property
    def fixed_bytes(self) -> int:
        """Bytes of what does not depend on the rows."""
        weights = self.slice_edges * self.rough.weight_size
        ends = 2 * array_bytes(self.slice_edges, np.int64)
        slices = 2 * (ends + array_bytes(weights, np.uint8))
        return slices + self.rough.num_bytes


def share(
    room: int, num_edges: int | None, ways: int, weight_size: int
) -> Shares:
    """Share out memory: a quarter for slices, an eighth for rough sorting.

    Parameters
    ----------
    room : int
        Bytes for all arrays.
    num_edges : int or None
        Edges in the file, if that is known.
    ways : int
        2 if every edge goes both ways, otherwise 1.
    weight_size : int
        Bytes of a weight; 0 without any.
    """
    threads = min(num_threads(), _MOST_THREADS)
    pair_bytes = PAIR_BYTES + weight_size
    each = 2 * (_SLICE_BYTES + weight_size) + ways * pair_bytes
    edges = min(_MOST_SLICE, max(room // 4 // each, _LEAST_SLICE))
    pairs = max(ways * edges, room // 8 // pair_bytes)
    if num_edges is not None:
        edges = min(edges, max(num_edges, 1))
        pairs = min(pairs, ways * max(num_edges, 1))
    # The last slice of a file may be shorter than the others.
    slices = pairs // (ways * edges) + 1
    rough = RoughSize(pairs, slices, threads, weight_size)
    shares = Shares(edges, rough, 0)
    return shares._replace(rows=room - shares.fixed_bytes)


def too_small(
    budget: Budget,
    what: str,
    num_edges: int | None,
    ways: int,
    weight_size: int,
    needed: int,
    *,
    is_counted: bool,
) -> DGLError:
    """The error for rows of so many bytes that do not fit.

    Parameters
    ----------
    budget, num_edges, ways, weight_size
        As in :func:`share`.
    what : str
        Names the edges.
    needed : int
        The bytes of rows that have to fit.
    is_counted : bool
        Whether the edges were counted, so that no row needs more.
    """
    room = needed
    while share(room, num_edges, ways, weight_size).rows < needed:
        room += room // 32 + 256
    enough = budget.overhead + room
    return DGLError(
        f"memory={format_bytes(budget.memory)} is too small to sort {what}: "
        f"{format_bytes(enough)} ({enough} bytes) "
        + ("would be enough." if is_counted else "is the least.")
    )
