"""Reading the edges of a DGLGraph where DGL has them, in slices.

DGL's own calls copy: ``find_edges`` allocates both ends of every slice, and
``edges`` an id for every edge. Here the arrays of the format that exists are
viewed. Of a compressed format one end of the edges is written out, slice by
slice, into one array that is used again.
"""

from collections.abc import Iterator
from typing import NamedTuple

import dgl
import numpy as np
from dgl import DGLError
from dgl import backend as F

from ..._common.bytes import zeros
from .edge_kernels import check_indptr, expand_rows

#: Edges read at a time.
SLICE = 1 << 19


class EdgeSlice(NamedTuple):
    """Some edges: ``edge_ids`` is None where they count up from ``first``.

    One end may be overwritten by the next slice.
    """

    first: int
    edge_ids: np.ndarray | None
    source: np.ndarray
    target: np.ndarray


class Compressed(NamedTuple):
    """Edges by one of their ends; ``edge_ids`` is None for "in order"."""

    indptr: np.ndarray
    indices: np.ndarray
    edge_ids: np.ndarray | None


class EdgeReader:
    """Reads the edges of a DGLGraph.

    Attributes
    ----------
    format : str
        Where they are read from: "coo", "csc" or "csr".
    """

    def __init__(self, graph: dgl.DGLGraph):
        # The index, not the graph: caches must not keep the graph alive.
        self.index = graph._graph
        self.num_nodes = graph.num_nodes()
        self.num_edges = graph.num_edges()
        created = graph.formats()["created"]
        self.has_csc = "csc" in created
        self.format = "coo"
        if "coo" not in created:
            self.format = "csc" if self.has_csc else "csr"

    @property
    def expands(self) -> bool:
        """Whether one end of the edges has to be written out."""
        return self.format != "coo"

    def compressed(self, format: str) -> Compressed:
        """View the "csc" or "csr", checked: DGL takes any arrays for it."""
        tensors = self.index.adjacency_matrix_tensors(0, format == "csc", "csr")
        indptr, indices, edge_ids = (tensor.numpy() for tensor in tensors[-3:])
        n, m = self.num_nodes, self.num_edges
        if len(indptr) != n + 1 or len(indices) != m:
            raise DGLError(
                f"g has a broken {format}: {len(indptr)} pointers and "
                f"{len(indices)} indices for {n} nodes and {m} edges. Make "
                f"the graph again."
            )
        wrong = int(check_indptr(indptr, m))
        if wrong >= 0:
            raise DGLError(
                f"g has a broken {format}: indptr[{wrong}] is "
                f"{int(indptr[wrong])}, but indptr should rise from 0 to "
                f"{m}, the number of edges. Make the graph again."
            )
        if len(edge_ids) == 0:
            return Compressed(indptr, indices, None)
        return Compressed(indptr, indices, edge_ids)

    def coo(self) -> tuple[np.ndarray, np.ndarray] | None:
        """View both ends of all edges, in the order of their ids, or None."""
        return self._coo() if self.format == "coo" else None

    def slices(self, size: int = SLICE) -> Iterator[EdgeSlice]:
        """Read all edges, in slices."""
        if self.format == "coo":
            source, target = self._coo()
            for begin in range(0, self.num_edges, size):
                part = slice(begin, begin + size)
                yield EdgeSlice(begin, None, source[part], target[part])
            return
        indptr, others, edge_ids = self.compressed(self.format)
        room = zeros(min(size, self.num_edges), others.dtype)
        row = 0
        for begin in range(0, self.num_edges, size):
            part = slice(begin, begin + size)
            found = others[part]
            own = room[: len(found)]
            row = expand_rows(indptr, begin, row, own)
            ids = None if edge_ids is None else edge_ids[part]
            if self.format == "csc":
                yield EdgeSlice(begin, ids, found, own)
            else:
                yield EdgeSlice(begin, ids, own, found)

    def _coo(self) -> tuple[np.ndarray, np.ndarray]:
        """View both ends of the edges, as DGL would pickle them."""
        arrays = self.index.__getstate__().arrays
        if len(arrays) == 2:
            source, target = (
                F.zerocopy_from_dgl_ndarray(array).numpy() for array in arrays
            )
            if len(source) == len(target) == self.num_edges:
                return source, target
        # Another version of DGL may pickle another format: let it copy.
        source, target, _ = (t.numpy() for t in self.index.edges(0, "eid"))
        return source, target


def slice_bytes(num_edges: int, index_size: int, expands: bool) -> int:
    """Count the bytes that reading slices takes."""
    return index_size * min(SLICE, num_edges) if expands else 0
