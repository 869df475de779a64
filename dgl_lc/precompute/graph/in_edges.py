"""A graph's edges sorted by destination.

Where the DGLGraph has made its CSC already, that is used as it is. Otherwise
the edges are counted and sorted here, from slices: 4 bytes an edge instead
of DGL's 16, no temporary of the size of the graph, and, where memory is
short, one edge block at a time.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import dgl
import numpy as np
import torch

from ..._common.threads import num_threads, ranges, run_parallel
from ...storage.disk_graph import DiskGraph
from . import edge_kernels as kernels

#: Edges read from DGL at a time.
SLICE = 1 << 19

_NO_IDS = np.empty(0, np.int64)
_NO_BITS = np.empty(0, np.uint64)
_NO_INDICES = np.empty(0, np.int32)
_NO_WEIGHT = np.empty(0, np.float32)


@dataclass
class EdgeBlock:
    """Edges sorted by destination, from place ``begin`` on."""

    begin: int
    indices: np.ndarray  # their sources
    edge_ids: np.ndarray  # DGL's ids; empty: weight is in this order already
    weight: np.ndarray  # empty for an unweighted filter


class InEdges:
    """The edges of a graph by destination, with their degrees.

    Attributes
    ----------
    indptr : integer array
        Where the edges of each row (destination) begin.
    out_edges, loops : int32 arrays
        Edges out of each node, and its edges to itself.
    owned : bool
        Whether the sorted edges have to be made here (DGL has no CSC yet).
    """

    def __init__(self, graph: dgl.DGLGraph):
        # The index, not the graph: the cache below must not keep it alive.
        self._index = graph._graph
        self.num_nodes = graph.num_nodes()
        self.num_edges = graph.num_edges()
        created = graph.formats()["created"]
        self.owned = "csc" not in created
        # Where there is no list of edges to read, the format to read from.
        self._compressed = None
        if "coo" not in created:
            self._compressed = "csc" if "csc" in created else "csr"
        self.out_edges = np.zeros(self.num_nodes, np.int32)
        self.loops = np.zeros(self.num_nodes, np.int32)
        self._indices: np.ndarray | None = None
        if self.owned:
            self._edge_ids = _NO_IDS
            self._count()
        else:
            indptr, indices, edge_ids = (
                t.numpy() for t in graph.adj_tensors("csc")
            )
            self.indptr, self._indices = indptr, indices
            self._edge_ids = edge_ids

            def count(_, part):
                low, high = parts[part]
                kernels.count_columns(
                    indptr, indices, low, high, self.out_edges, self.loops
                )

            parts = self._row_ranges()
            run_parallel(count, len(parts))

    def key(self, weight: torch.Tensor | None = None) -> str:
        """A name for the graph, whatever the order of its edges.

        With weights, which are in the order of DGL's edge ids, it is one for
        the edges with their weights.
        """
        bits = _NO_BITS
        if weight is not None:
            # Of the same value whatever the type: as the engine converts it.
            bits = weight.double().contiguous().numpy().view(np.uint64)
        totals = np.zeros(2, np.uint64)
        for first, ids, source, target in self.slices():
            parts = ranges(len(source), num_threads())
            sums = np.zeros((len(parts), 2), np.uint64)

            def add(_, part, at=(first, ids, source, target), sums=sums):
                first, ids, source, target = at
                low, high = parts[part]  # noqa: B023
                own = slice(low, high)
                kernels.hash_edges(
                    source[own], target[own], ids[own], first + low, bits,
                    sums[part],
                )  # fmt: skip

            run_parallel(add, len(parts))
            totals += sums.sum(axis=0, dtype=np.uint64)
        text = "-".join(f"{int(total):016x}" for total in totals)
        kind = "" if weight is None else f"-{weight.dtype}"
        return f"{self.num_nodes}-{self.num_edges}-{text}{kind}"

    @property
    def indices(self) -> np.ndarray | None:
        """The sources of all edges by destination, where they are at hand."""
        return self._indices

    def load(self) -> np.ndarray:
        """Sort all edges and keep them."""
        if self._indices is None:
            self._indices = self.sort(0, self.num_edges).indices
        return self._indices

    def unload(self) -> None:
        """Forget the sorted edges, where they are not DGL's."""
        if self.owned:
            self._indices = None

    def whole(self, weight: np.ndarray = _NO_WEIGHT) -> EdgeBlock:
        """All edges as one block. ``weight`` is in DGL's order."""
        indices = self.load()
        if self.owned and len(weight) > 0:
            weight = self.sort(
                0, self.num_edges, weight, want_indices=False
            ).weight
        return EdgeBlock(0, indices, self._edge_ids, weight)

    def order(self) -> np.ndarray:
        """DGL's edge ids in the order by destination."""
        if not self.owned:
            if len(self._edge_ids) < self.num_edges:
                return np.arange(self.num_edges)
            return self._edge_ids
        return self.sort(
            0, self.num_edges, want_indices=False, want_order=True
        ).edge_ids

    def mark_sources(
        self, rows: np.ndarray, wanted: np.ndarray, marks: np.ndarray
    ) -> None:
        """Mark every node with an edge to one of ``rows``.

        ``wanted`` holds the same rows as marks.
        """
        if self._indices is None:
            for _, _, source, target in self.slices():
                kernels.mark_slice(source, target, wanted, marks)
            return

        # Two threads may set the same mark: both write 1.
        def mark(_, part):
            low, high = parts[part]
            kernels.mark_sources(
                rows, low, high, self.indptr, self._indices, marks
            )

        parts = ranges(len(rows), 8 * num_threads())
        run_parallel(mark, len(parts))

    def _count(self) -> None:
        self.indptr = np.zeros(self.num_nodes + 1, np.int64)
        parts = self._row_ranges()
        for _, _, source, target in self.slices():

            def count(_, part, source=source, target=target):
                low, high = parts[part]
                kernels.count_slice(
                    source, target, low, high,
                    self.indptr, self.out_edges, self.loops,
                )  # fmt: skip

            run_parallel(count, len(parts))
        np.cumsum(self.indptr, out=self.indptr)

    def sort(
        self,
        begin: int,
        end: int,
        weight: np.ndarray = _NO_WEIGHT,
        *,
        want_indices: bool = True,
        want_order: bool = False,
        into: EdgeBlock | None = None,
    ) -> EdgeBlock:
        """Read the edges at places begin to end of the order.

        This passes over all edges of the graph; ``weight`` is in DGL's
        order and comes back in the order by destination. The arrays of the
        block ``into`` are used again.
        """
        size = end - begin
        if into is None:
            indices = np.empty(size, np.int32) if want_indices else _NO_INDICES
            sorted_weight = np.empty(size if len(weight) else 0, weight.dtype)
        else:
            indices, sorted_weight = into.indices[:size], into.weight[:size]
        order = np.empty(size, np.int64) if want_order else _NO_IDS
        low = max(int(np.searchsorted(self.indptr, begin, "right")) - 1, 0)
        high = int(np.searchsorted(self.indptr, end, "left"))
        cursor = self.indptr[low:high].astype(np.int64)
        parts = [
            (low + first, low + last)
            for first, last in self._row_ranges(high - low)
        ]
        for first, edge_ids, source, target in self.slices():

            def place(_, part, at=(first, edge_ids, source, target)):
                first, edge_ids, source, target = at
                kernels.place_slice(
                    source, target, edge_ids, first, *parts[part], cursor,
                    low, begin, end, indices, order, weight, sorted_weight,
                )  # fmt: skip

            run_parallel(place, len(parts))
        return EdgeBlock(begin, indices, order, sorted_weight)

    def _row_ranges(self, rows: int | None = None) -> list[tuple[int, int]]:
        # Every thread reads all edges: more than a few would only wait.
        rows = self.num_nodes if rows is None else rows
        return ranges(rows, min(num_threads(), 8))

    def slices(self, size: int = SLICE) -> Iterator[tuple]:
        """All edges, in slices: first id, ids, sources, targets.

        Where ids are empty they count up from the first.
        """
        if not self._compressed:
            dtype = getattr(torch, self._index.dtype)
            for begin in range(0, self.num_edges, size):
                end = min(begin + size, self.num_edges)
                ids = torch.arange(begin, end, dtype=dtype)
                source, target, _ = self._index.find_edges(0, ids)
                yield begin, _NO_IDS, source.numpy(), target.numpy()
            return
        by_target = self._compressed == "csc"
        *_, indptr, others, ids = self._index.adjacency_matrix_tensors(
            0, by_target, "csr"
        )
        indptr, others = indptr.numpy(), others.numpy()
        ids = ids.numpy().astype(np.int64, copy=False)
        for begin in range(0, self.num_edges, size):
            places = np.arange(begin, min(begin + size, self.num_edges))
            rows = np.searchsorted(indptr, places, "right") - 1
            part = slice(begin, begin + size)
            ends = (others[part], rows) if by_target else (rows, others[part])
            yield begin, ids[part], *ends


class DiskInEdges(InEdges):
    """The edges of a graph on disk, which are sorted already."""

    def __init__(self, graph: DiskGraph):
        graph.check_edges()
        self.num_nodes = graph.num_nodes()
        self.num_edges = graph.num_edges()
        self.owned = False
        self.indptr, self._indices = graph.indptr, graph.indices
        self.out_edges, self.loops = graph.out_edges, graph.loops
        self._edge_ids = _NO_IDS
        self._graph = graph

    def key(self, weight: torch.Tensor | None = None) -> str:
        """The key that was computed when the graph was written."""
        return self._graph.check_key()


_cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def in_edges(graph: dgl.DGLGraph | DiskGraph) -> InEdges:
    """The graph's edges by destination, made once for each graph.

    A graph that was changed in place has a new index, and its edges are
    read anew.
    """
    if isinstance(graph, DiskGraph):
        return DiskInEdges(graph)
    found = _cache.get(graph)
    if found is None or found._index is not graph._graph:
        found = _cache[graph] = InEdges(graph)
    return found
