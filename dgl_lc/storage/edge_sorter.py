"""Sorting edges by destination, one range of rows after another."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
from dgl import DGLError

from .._common.threads import ranges, run_in_order, run_parallel
from . import sort_kernels as kernels
from .check_graph import check_slice
from .disk_graph import COUNTS, WEIGHTS
from .edge_counts import EdgeCounts
from .edge_sources import EdgeSource, Slice
from .folder import Build
from .free_disk import check_free
from .read_ahead import read_ahead
from .rough_sort import PAIR_BYTES, RoughSize, RoughSort
from .sort_kernels import Pieces, Rows
from .sort_memory import Budget, share, too_small
from .work_space import WorkSpace, array_bytes

#: Bytes of a range's arrays beyond those of its rows: one more start, and
#: whole cache lines.
_RANGE_BYTES = 8 + 5 * array_bytes(1, "u1")
#: Parts of a range, for each thread, that are merged and then written.
_MERGED_PARTS = 64


class WeightConflict(DGLError):
    """The error for an edge that occurs again with another weight.

    Parameters
    ----------
    what : str
        Names the edges.
    ends : list
        The two nodes, or their ids.
    weights : list
        The two weights.
    """

    def __init__(self, what: str, ends: list[Any], weights: list[Any]):
        self.ends = ends
        self.weights = weights
        super().__init__(
            f"{what}: the edge between the nodes {ends[0]!r} and {ends[1]!r} "
            f"occurs with the weights {weights[0]} and {weights[1]}, and with "
            f"add_reverse=True an edge has one weight in both directions. Give "
            f"it one weight, or give the edges of both directions and omit "
            f"add_reverse."
        )


class EdgeSorter:
    """Sorts the edges of a source into the files of a graph.

    Parameters
    ----------
    source : EdgeSource
        The edges.
    reader : ThreadPoolExecutor
        The thread that reads them.
    work : Build
        The folder that is being written.
    budget : Budget
        Memory that may be allocated.
    progress : bool or None
        Whether to show progress bars.
    num_nodes, add_reverse, drop_loops
        As in :func:`~dgl_lc.storage.sort_edges.build_disk_graph`.
    weight_dtype : str, optional
        How the weights of the edges are stored. Default: there are none.
    """

    def __init__(
        self,
        source: EdgeSource,
        reader: ThreadPoolExecutor,
        work: Build,
        budget: Budget,
        progress: bool | None,
        num_nodes: int,
        add_reverse: bool,
        drop_loops: bool,
        weight_dtype: str | None = None,
    ):
        self._source = source
        self._reader = reader
        self._work = work
        self._budget = budget
        self._progress = progress
        self._n = num_nodes
        self._back = add_reverse
        self._drop_loops = drop_loops
        self._ways = 2 if add_reverse else 1
        self._weight_type = None
        self._weight_size = 0
        if weight_dtype is not None:
            self._weight_type = np.dtype(weight_dtype)
            self._weight_size = self._weight_type.itemsize
        self._shares = share(
            budget.room, source.num_edges, self._ways, self._weight_size
        )

    def _work_space(self, rows: int) -> tuple[WorkSpace, list[Slice]]:
        """Memory for slices, rough sorting and so many bytes of rows."""
        rows = min(rows, self._shares.rows)
        space = WorkSpace(self._shares.fixed_bytes + rows)
        size = self._shares.slice_edges
        types: list[Any] = [np.int64, np.int64]
        if self._weight_type is not None:
            types.append(self._weight_type)
        buffers = [
            tuple(space.array(size, dtype) for dtype in types) for _ in range(2)
        ]
        return space, buffers

    def count(self) -> None:
        """Count the edges of each node, by ranges where memory is short.

        An undirected graph needs one count, before duplicates are merged.
        """
        names = [COUNTS]
        if not self._back:
            names += ["out_edges.npy", "loops.npy"]
        files = [self._work.array(name, np.int32) for name in names]
        if files[0].count >= self._n:
            return
        all_rows = len(files) * array_bytes(self._n, np.int32)
        # An array takes whole cache lines.
        most = (self._shares.rows // len(files) - array_bytes(1, "u1")) // 4
        if most < 1:
            needed = 2 * len(files) * array_bytes(1, np.int32)
            raise self._too_small(needed, is_counted=False)
        space, buffers = self._work_space(all_rows)
        while files[0].count < self._n:
            low = files[0].count
            rows = min(self._n - low, most)
            passes = -(-self._n // most)
            name = "count edges" + (f" ({passes} passes)" if passes > 1 else "")
            with space.part():
                counts = [space.array(rows, np.int32) for _ in files]
                self._count_range(space, buffers, low, counts, name)
                for file, part in zip(files, counts, strict=True):
                    file.append(part)
            self._work.commit()

    def _count_range(
        self,
        space: WorkSpace,
        buffers: list[Slice],
        low: int,
        counts: list[np.ndarray],
        name: str,
    ) -> None:
        total = 0
        rough = self._rough_sort(
            space, self._shares.rough, low, low + len(counts[0]), None
        )
        if low > 0:
            # The first pass has looked at the weights.
            buffers = [buffer[:2] for buffer in buffers]
        for part in counts:
            part.fill(0)

        def count(pieces: Pieces, bucket: int) -> None:
            kernels.count(pieces, bucket, counts[0])

        with closing(self._slices(buffers, name)) as slices:
            for source, target, *weight in slices:
                check_slice(self._source.what, self._n, source, target, *weight)
                total += len(source)
                if rough.is_full(len(source)):
                    rough.empty(count)
                rough.add(source, target)
                if not self._back:
                    self._count_sources(source, target, low, *counts[1:])
        rough.empty(count)
        for part in counts:
            if part.min(initial=0) < 0:
                node = low + int(np.argmax(part < 0))
                raise DGLError(
                    f"{self._source.what}: node {node} has 2**31 edges or "
                    f"more, which is too many."
                )
        if low == 0:
            self._work.notes["num_raw"] = total

    def _count_sources(
        self,
        source: np.ndarray,
        target: np.ndarray,
        low: int,
        out_edges: np.ndarray,
        loops: np.ndarray,
    ) -> None:
        parts = ranges(len(out_edges), self._shares.rough.threads)

        def count(_: int, part: int) -> None:
            first, last = (low + row for row in parts[part])
            kernels.count_sources(
                source, target, first, last, low,
                self._drop_loops, out_edges, loops,
            )  # fmt: skip

        run_parallel(count, len(parts))

    def _rough_sort(
        self,
        space: WorkSpace,
        size: RoughSize,
        low: int,
        high: int,
        weight_type: np.dtype | None,
    ) -> RoughSort:
        return RoughSort(
            space, size, low, high, self._back, self._drop_loops,
            weight_type, high - low == self._n,
        )  # fmt: skip

    def fill(self) -> None:
        """Write range after range of destinations."""
        indptr = self._work.array("indptr.npy", np.int64)
        if indptr.count - 1 >= self._n:
            return
        counts = EdgeCounts(self._work.path / COUNTS, self._n)
        edges = counts.add_up(self._work.array(COUNTS, np.int32))
        if indptr.count == 0:
            self._check_disk(edges)
            indptr.append(np.zeros(1, np.int64))
        most = self._edge_bytes * edges + self._row_bytes * self._n
        # For a larger rough sort, if there is memory.
        most += edges // 4 * (PAIR_BYTES + self._weight_size)
        space, buffers = self._work_space(most + _RANGE_BYTES)
        while indptr.count - 1 < self._n:
            low = indptr.count - 1
            high = self._range_end(low, counts)
            with space.part():
                self._fill_range(space, buffers, low, high, counts)
            self._work.commit()

    @property
    def _edge_bytes(self) -> int:
        """Bytes for an edge: its source and its weight."""
        return 4 + self._weight_size

    @property
    def _row_bytes(self) -> int:
        """Bytes for a row: where it begins, its edges and its self-loops."""
        return 8 + 4 + (4 if self._back else 0)

    def _fill_range(
        self,
        space: WorkSpace,
        buffers: list[Slice],
        low: int,
        high: int,
        counted: EdgeCounts,
    ) -> None:
        size = high - low
        starts = space.array(size + 1, np.int64)
        starts[0] = edges = 0
        # Shifted by one: a row's begin becomes its end while it is filled,
        # and that is where the next one begins.
        for at, part in counted.pieces_from(low, high):
            edges = int(kernels.begins(part, edges, starts[1 + at :]))
        sources, weights = space.array(edges, np.int32), kernels.NO_WEIGHTS
        if self._weight_type is not None:
            weights = space.array(edges, self._weight_type)
        with space.part():
            self._place_edges(space, buffers, low, starts, sources, weights)
        # Where the rough sort was: it is not needed while rows are merged.
        counts = space.array(size, np.int32)
        loops = space.array(size if self._back else 0, np.int32)
        counted.read(low, counts)
        rows = Rows(low, starts, counts, loops)
        if not kernels.is_filled(starts, counts):
            raise self._changed()
        if self._back:
            self._merge(rows, sources, weights)
        else:
            self._append(sources, weights)
        indices = self._work.array("indices.npy", np.int32)
        begin = indices.count - int(counts.sum(dtype=np.int64))
        starts[-1] = kernels.begins(counts, begin, starts[:-1])
        self._work.array("indptr.npy", np.int64).append(starts[1:])

    def _place_edges(
        self,
        space: WorkSpace,
        buffers: list[Slice],
        low: int,
        starts: np.ndarray,
        out: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        size = self._shares.rough.grown(
            space.left, len(out), self._ways * self._shares.slice_edges
        )
        high = low + len(starts) - 1
        rough = self._rough_sort(space, size, low, high, self._weight_type)

        def place(pieces: Pieces, bucket: int) -> None:
            kernels.place(pieces, bucket, starts[1:], out, weights)

        name = f"sort edges ({100 * low // self._n} %)"
        with closing(self._slices(buffers, name)) as slices:
            for source, target, *weight in slices:
                check_slice(self._source.what, self._n, source, target, *weight)
                if rough.is_full(len(source)):
                    rough.empty(place)
                rough.add(source, target, *weight)
        rough.empty(place)

    def _append(self, sources: np.ndarray, weights: np.ndarray) -> None:
        """Write edges behind those that exist, and their weights."""
        self._work.array("indices.npy", np.int32).append(sources)
        if self._weight_type is not None:
            self._work.array(WEIGHTS, self._weight_type).append(weights)

    def _merge(
        self, rows: Rows, sources: np.ndarray, weights: np.ndarray
    ) -> None:
        """Sort rows, merge duplicates and write what is left."""
        size = len(rows.counts)
        threads = self._shares.rough.threads
        parts = ranges(size, min(size, _MERGED_PARTS * threads))

        def merge(part: int) -> int:
            return kernels.merge_rows(rows, *parts[part], sources, weights)

        # What is merged is written while the next rows are being merged.
        with closing(run_in_order(merge, len(parts), threads)) as merged:
            for (first, _), count in zip(parts, merged, strict=True):
                if count < 0:
                    raise self._conflict(rows, -count, sources, weights)
                begin = int(rows.starts[first])
                own = slice(begin, begin + count)
                self._append(sources[own], weights[own])
        # As many edges out as in: they come in pairs.
        self._work.array("out_edges.npy", np.int32).append(rows.counts)
        self._work.array("loops.npy", np.int32).append(rows.loops)

    def _conflict(
        self, rows: Rows, place: int, sources: np.ndarray, weights: np.ndarray
    ) -> DGLError:
        """The error for an edge that occurs again with another weight."""
        row = int(np.searchsorted(rows.starts, place, "right")) - 1
        return WeightConflict(
            self._source.what,
            [int(sources[place]), int(rows.first) + row],
            [weights[place - 1], weights[place]],
        )

    def _range_end(self, low: int, counts: EdgeCounts) -> int:
        """Where a range of rows ends that fits into memory."""
        left = self._shares.rows - _RANGE_BYTES
        row = low
        for part in counts.pieces(low):
            fits, left = kernels.rows_that_fit(
                part, self._edge_bytes, self._row_bytes, left
            )
            row += int(fits)
            if fits < len(part):
                break
        if row == low:
            longest = max(int(part.max()) for part in counts.pieces(low))
            needed = self._edge_bytes * longest + self._row_bytes
            needed += _RANGE_BYTES
            raise self._too_small(needed, is_counted=True)
        return row

    def check_source(self, made_from: dict[str, Any]) -> None:
        """Refuse edges that were written to while they were sorted."""
        if self._source.made_from() != made_from:
            raise self._changed()

    def _changed(self) -> DGLError:
        return DGLError(
            f"{self._source.what} changed while it was read: leave it as it "
            f"is, and begin again with resume=False."
        )

    def _slices(
        self, buffers: list[Slice], name: str
    ) -> Generator[Slice, None, None]:
        """All edges, with a progress bar of this name."""
        known = self._source.num_edges
        if known is None:
            known = self._work.notes.get("num_raw")
        return read_ahead(
            self._source.slices(buffers),
            self._reader,
            lambda found: 16 * len(found[0]),
            total=None if known is None else 16 * known,
            name=name,
            progress=self._progress,
        )

    def _check_disk(self, edges: int) -> None:
        """Refuse a disk that is too small, before the long part begins."""
        # Where duplicates are merged, up to half of it goes away, or more.
        needed = self._edge_bytes * edges // self._ways + 8 * self._n
        check_free(self._work.path, needed, "the graph")

    def _too_small(self, needed: int, *, is_counted: bool) -> DGLError:
        return too_small(
            self._budget, self._source.what, self._source.num_edges,
            self._ways, self._weight_size, needed, is_counted=is_counted,
        )  # fmt: skip
