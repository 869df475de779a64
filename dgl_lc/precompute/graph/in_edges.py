"""A graph's edges sorted by destination.

Where the DGLGraph has made its CSC already, that is used as it is. Otherwise
the edges are counted and sorted here, into 4 bytes an edge instead of DGL's
16. Where there is room for scratch, all edges are sorted at once, in buckets
(:mod:`.bucket_sort`). Where memory is short, they are read in slices, without
a temporary of the size of the edges, and one edge block at a time.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..._common.bytes import zeros
from ..._common.dtypes import bits_of
from ..._common.threads import num_threads, ranges, run_parallel
from ...storage.disk_graph import DiskGraph
from . import edge_kernels as kernels
from .bucket_sort import SortedEdges, bucket_sort_bytes, sort_edges
from .edge_kernels import or_empty
from .edge_reader import SLICE, Compressed, EdgeReader, EdgeSlice
from .sort_space import SortSpace, make_scratch, num_readers

_NO_BITS = np.empty(0, np.uint64)


@dataclass
class EdgeBlock:
    """Edges sorted by destination, from place ``begin`` on.

    Attributes
    ----------
    indices : array
        Their sources.
    edge_ids : array or None
        DGL's ids, by place; None if the weights are in this order already.
    weight : array or None
        None for an unweighted filter.
    mapped : tuple of array
        Maps of the files that these are read from; each begins with the
        first edge of the graph.
    """

    begin: int
    indices: np.ndarray
    edge_ids: np.ndarray | None
    weight: np.ndarray | None
    mapped: tuple[np.ndarray, ...] = ()


class Counts(NamedTuple):
    """Where the edges of each destination begin, and degrees."""

    indptr: np.ndarray
    out_edges: np.ndarray
    loops: np.ndarray


def count_bytes(num_nodes: int, owned: bool, mapped: bool) -> int:
    """Count the bytes of :class:`Counts`."""
    indptr = 8 * (num_nodes + 1) if owned else 0
    return indptr + (0 if mapped else 8 * num_nodes)


class InEdges:
    """The edges of a graph by destination, with their degrees.

    Nothing is read before it is needed.

    Attributes
    ----------
    indptr : integer array
        Where the edges of each row (destination) begin.
    out_edges, loops : int32 arrays
        Edges out of each node, and its edges to itself.
    owned : bool
        Whether the sorted edges have to be made here (DGL has no CSC yet).
    expands : bool
        Whether reading slices takes an array for one end of the edges.
    """

    def __init__(self, graph: dgl.DGLGraph):
        self._reader = EdgeReader(graph)
        self.num_nodes = self._reader.num_nodes
        self.num_edges = self._reader.num_edges
        self.owned = not self._reader.has_csc
        self.expands = self._reader.expands
        self._sorted: np.ndarray | None = None

    def is_of(self, graph: dgl.DGLGraph) -> bool:
        """Tell whether the graph still has these edges."""
        return self._reader.index is graph._graph

    # Counting

    @property
    def indptr(self) -> np.ndarray:
        return self._counts.indptr

    @property
    def out_edges(self) -> np.ndarray:
        return self._counts.out_edges

    @property
    def loops(self) -> np.ndarray:
        return self._counts.loops

    @cached_property
    def _counts(self) -> Counts:
        n = self.num_nodes
        out_edges, loops = zeros(n, np.int32), zeros(n, np.int32)
        if self.owned:
            indptr = zeros(n + 1, np.int64)
            found = Counts(indptr, out_edges, loops)
            self._count_slices(found)
            np.cumsum(indptr, out=indptr)
        else:
            found = Counts(self._csc.indptr, out_edges, loops)
            self._count_columns(found)
        # Ends outside the graph were counted nowhere.
        counted = (int(found.indptr[-1]), int(out_edges.sum(dtype=np.int64)))
        if counted != (self.num_edges, self.num_edges):
            raise self._outside()
        return found

    def _count_slices(self, found: Counts) -> None:
        parts = ranges(self.num_nodes, num_readers())
        scratch = make_scratch(min(SLICE, self.num_edges))
        for edges in self.slices():

            def count(worker: int, part: int, edges: EdgeSlice = edges) -> None:
                kernels.count_slice(
                    edges.source, edges.target, *parts[part],
                    *found, scratch[worker],
                )  # fmt: skip

            run_parallel(count, len(parts))

    def _count_columns(self, found: Counts) -> None:
        indices = self._csc.indices
        parts = ranges(self.num_nodes, num_readers())

        def count(_: int, part: int) -> None:
            kernels.count_columns(
                found.indptr, indices, *parts[part],
                found.out_edges, found.loops,
            )  # fmt: skip

        run_parallel(count, len(parts))

    def _outside(self) -> DGLError:
        """Say which node id is not one of the graph's."""
        for edges in self.slices():
            for ids in (edges.source, edges.target):
                place = int(kernels.find_outside(ids, self.num_nodes))
                if place >= 0:
                    return DGLError(
                        f"g has an edge with the node id {int(ids[place])}, "
                        f"but its nodes are 0 to {self.num_nodes - 1}. Make "
                        f"the graph again with ids in that range."
                    )
        return DGLError("g was changed while it was read: call again.")

    # Edges in order

    @cached_property
    def _csc(self) -> Compressed:
        return self._reader.compressed("csc")

    @property
    def indices(self) -> np.ndarray | None:
        """The sources of all edges by destination, where they exist."""
        return self._sorted if self.owned else self._csc.indices

    @property
    def _edge_ids(self) -> np.ndarray | None:
        return None if self.owned else self._csc.edge_ids

    def load(self, room: int = 0) -> np.ndarray:
        """Sort all edges and keep them.

        ``room`` are bytes that sorting may take beside its outputs. With
        enough of them it is much faster, and counts degrees as well.
        """
        if self.owned and self._sorted is None:
            needed = bucket_sort_bytes(
                self.num_nodes, self.num_edges, num_threads()
            )
            ends = self._reader.coo() if needed <= room else None
            if ends is not None:
                self._sorted = self._sort_in_buckets(*ends)
            else:
                self._sorted = self.sort(0, self.num_edges).indices
        found = self.indices
        assert found is not None
        return found

    def _sort_in_buckets(
        self, source: np.ndarray, target: np.ndarray
    ) -> np.ndarray:
        known: Counts | None = self.__dict__.get("_counts")
        n = 0 if known else self.num_nodes
        found = SortedEdges(
            known.indptr if known else zeros(n + 1, np.int64),
            zeros(n, np.int32), zeros(n, np.int32),
            zeros(self.num_edges, np.int32),
        )  # fmt: skip
        if not sort_edges(source, target, found):
            raise self._outside()
        if known is None:
            # Counted on the way: this is the cached property.
            self._counts = Counts(found.indptr, found.out_edges, found.loops)
        return found.indices

    def unload(self) -> None:
        """Forget the sorted edges, where they are not DGL's."""
        self._sorted = None

    def whole(self, weight: np.ndarray | None = None) -> EdgeBlock:
        """Give all edges as one block. ``weight`` is in DGL's order."""
        self.load()
        return self.part(0, self.num_edges, weight)

    def part(
        self, begin: int, end: int, weight: np.ndarray | None = None
    ) -> EdgeBlock:
        """Give a block with the edges at places begin to end.

        Only these are sorted, and none where sorted edges exist.
        """
        if not self.owned:
            if weight is not None:
                self._check_edge_ids(self._edge_ids)
            return EdgeBlock(0, self._csc.indices, self._edge_ids, weight)
        if self._sorted is None:
            return self.sort(begin, end, weight)
        if weight is not None:
            weight = self.sort(begin, end, weight, want_indices=False).weight
        return EdgeBlock(begin, self._sorted[begin:end], None, weight)

    def order(self) -> np.ndarray:
        """Give DGL's edge ids in the order by destination."""
        if not self.owned:
            if self._edge_ids is None:
                return np.arange(self.num_edges)
            self._check_edge_ids(self._edge_ids)
            return self._edge_ids
        found = self.sort(
            0, self.num_edges, want_indices=False, want_order=True
        ).edge_ids
        assert found is not None
        return found

    def check_edge_ids(self) -> None:
        """Refuse edge ids that are not of the graph, wherever DGL has them."""
        for edges in self.slices():
            self._check_edge_ids(edges.edge_ids)

    def _check_edge_ids(self, edge_ids: np.ndarray | None) -> None:
        if edge_ids is None:
            return
        place = int(kernels.find_outside(edge_ids, self.num_edges))
        if place >= 0:
            raise DGLError(
                f"g has the edge id {int(edge_ids[place])} in its "
                f"{self._reader.format}, but its edges are 0 to "
                f"{self.num_edges - 1}. Make the graph again."
            )

    def sort(
        self,
        begin: int,
        end: int,
        weight: np.ndarray | None = None,
        *,
        want_indices: bool = True,
        want_order: bool = False,
        into: EdgeBlock | None = None,
        space: SortSpace | None = None,
    ) -> EdgeBlock:
        """Read the edges at places begin to end of the order.

        This passes over all edges of the graph; ``weight`` is in DGL's
        order and comes back in the order by destination. The arrays of the
        block ``into`` and the ``space`` are used again.
        """
        size, indptr = end - begin, self.indptr
        indices = order = sorted_weight = None
        if into is not None:
            indices = into.indices[:size]
            if into.weight is not None:
                sorted_weight = into.weight[:size]
        else:
            if want_indices:
                indices = zeros(size, np.int32)
            if weight is not None:
                sorted_weight = zeros(size, weight.dtype)
        if want_order:
            order = zeros(size, np.int64)
        low = max(int(np.searchsorted(indptr, begin, "right")) - 1, 0)
        high = max(low, int(np.searchsorted(indptr, end, "left")))
        if space is None:
            space = SortSpace(high - low, min(SLICE, self.num_edges))
        cursor = space.cursor[: high - low]
        cursor[:] = indptr[low:high]
        dtype = np.float32 if weight is None else weight.dtype
        sorting = kernels.Sorting(
            cursor, low, begin, end,
            or_empty(indices, np.int32), or_empty(order, np.int64),
            or_empty(weight, dtype), or_empty(sorted_weight, dtype),
        )  # fmt: skip
        parts = [
            (low + first, low + last)
            for first, last in ranges(high - low, num_readers())
        ]
        for edges in self.slices():
            if weight is not None:
                self._check_edge_ids(edges.edge_ids)

            def place(worker: int, part: int, edges: EdgeSlice = edges) -> None:
                kernels.place_slice(
                    edges.source, edges.target,
                    or_empty(edges.edge_ids, edges.source.dtype),
                    edges.first, *parts[part], sorting, space.places[worker],
                )  # fmt: skip

            run_parallel(place, len(parts))
        return EdgeBlock(
            begin, or_empty(indices, np.int32), order, sorted_weight
        )

    # Edges in any order

    def slices(self, size: int = SLICE) -> Iterator[EdgeSlice]:
        """Read all edges, in slices."""
        return self._reader.slices(size)

    def mark_sources(
        self, rows: np.ndarray, wanted: np.ndarray, marks: np.ndarray
    ) -> None:
        """Mark every node with an edge to one of ``rows``.

        ``wanted`` holds the same rows as marks.
        """
        indptr, indices = self.indptr, self.indices
        if indices is None:
            for edges in self.slices():
                kernels.mark_slice(edges.source, edges.target, wanted, marks)
            return

        # Two threads may set the same mark: both write 1.
        def mark(_: int, part: int) -> None:
            kernels.mark_sources(rows, *parts[part], indptr, indices, 0, marks)

        parts = ranges(len(rows), 8 * num_threads())
        run_parallel(mark, len(parts))

    def count_edges(self, rows: np.ndarray | None) -> int:
        """Count the edges of some rows; None for all."""
        if rows is None:
            return self.num_edges
        return int(kernels.count_edges(rows, self.indptr))

    def key(self, weight: torch.Tensor | None = None) -> str:
        """Give a name for the graph, whatever the order of its edges.

        With weights, which are in the order of DGL's edge ids, it is one for
        the edges with their weights.
        """
        bits = _NO_BITS if weight is None else bits_of(weight)
        totals = np.zeros(2, np.uint64)
        for edges in self.slices():
            if weight is not None:
                self._check_edge_ids(edges.edge_ids)
            parts = ranges(len(edges.source), num_threads())
            sums = np.zeros((len(parts), 2), np.uint64)

            def add(
                _: int,
                part: int,
                edges: EdgeSlice = edges,
                parts: list[tuple[int, int]] = parts,
                sums: np.ndarray = sums,
            ) -> None:
                own = slice(*parts[part])
                ids = or_empty(edges.edge_ids, edges.source.dtype)[own]
                kernels.hash_edges(
                    edges.source[own], edges.target[own], ids,
                    edges.first + own.start, bits, sums[part],
                )  # fmt: skip

            run_parallel(add, len(parts))
            totals += sums.sum(axis=0, dtype=np.uint64)
        text = "-".join(f"{int(total):016x}" for total in totals)
        kind = "" if weight is None else f"-{weight.dtype}"
        return f"{self.num_nodes}-{self.num_edges}-{text}{kind}"


class DiskInEdges(InEdges):
    """The edges of a graph on disk, which are sorted already."""

    def __init__(self, graph: DiskGraph):
        self.num_nodes = graph.num_nodes()
        self.num_edges = graph.num_edges()
        self.owned = self.expands = False
        self._graph = graph

    @cached_property
    def _counts(self) -> Counts:
        graph = self._graph
        graph.check_counts()
        return Counts(graph.indptr, graph.out_edges, graph.loops)

    @cached_property
    def _csc(self) -> Compressed:
        graph = self._graph
        graph.check_edges()
        return Compressed(graph.indptr, graph.indices, None)

    def part(
        self, begin: int, end: int, weight: np.ndarray | None = None
    ) -> EdgeBlock:
        """Give a block with the edges from begin to end, which are checked."""
        low = max(0, int(np.searchsorted(self.indptr, begin, "right")) - 1)
        high = int(np.searchsorted(self.indptr, end, "left"))
        graph = self._graph
        graph.check_rows(low, max(low, high))
        mapped = [graph.indices]
        # Weights may have been converted, and are in memory then.
        stored = graph.weights
        if weight is not None and stored is not None:
            mapped += [stored] if np.may_share_memory(weight, stored) else []
        return EdgeBlock(0, graph.indices, None, weight, tuple(mapped))

    def key(self, weight: torch.Tensor | None = None) -> str:
        """Give the key that was computed when the graph was written."""
        return self._graph.check_key()


_cache: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def in_edges(graph: dgl.DGLGraph | DiskGraph, keep: bool = True) -> InEdges:
    """Give the graph's edges by destination, made once for each graph.

    A graph that was changed in place has a new index, and its edges are
    read again. Without ``keep``, what is not known yet is not remembered.
    """
    if isinstance(graph, DiskGraph):
        return DiskInEdges(graph)
    found = _cache.get(graph)
    if found is None or not found.is_of(graph):
        found = InEdges(graph)
        if keep:
            _cache[graph] = found
    return found
