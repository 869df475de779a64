"""What reading and sorting slices of edges takes beside its outputs."""

import numpy as np

from ..._common.bytes import zeros
from ..._common.threads import num_threads
from .edge_reader import SLICE, slice_bytes

#: Every thread reads all edges: more than a few would only wait.
_MOST_READERS = 8


def num_readers() -> int:
    """Count the threads that read slices."""
    return min(num_threads(), _MOST_READERS)


def make_scratch(size: int) -> list[np.ndarray]:
    """Allocate for each thread the places of the edges that are its own."""
    return [zeros(size, np.int32) for _ in range(num_readers())]


class SortSpace:
    """What sorting needs beside its outputs; it can be used again."""

    def __init__(self, num_rows: int, slice_size: int):
        self.cursor = zeros(num_rows, np.int64)
        self.places = make_scratch(slice_size)


def scratch_bytes(num_edges: int, threads: int) -> int:
    """Count the bytes of scratch for reading slices."""
    return min(threads, _MOST_READERS) * 4 * min(SLICE, num_edges)


def sort_bytes(
    num_nodes: int, num_edges: int, index_size: int, expands: bool, threads: int
) -> int:
    """Count the bytes that sorting takes beside its outputs."""
    return (
        8 * num_nodes
        + scratch_bytes(num_edges, threads)
        + slice_bytes(num_edges, index_size, expands)
    )
