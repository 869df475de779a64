"""Sorting edges by destination on disk, under a budget of memory.

One pass over the raw edges counts those of each node. Each further pass
fills the range of destinations that fits into memory, and writes it behind
the others. What a pass has written is kept if a later one is killed.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .._common.bytes import format_bytes, parse_bytes
from .._common.threads import num_threads, ranges, run_parallel
from . import sort_kernels as kernels
from .disk_graph import COUNTS, FILES, KIND, DiskGraph
from .edge_sources import EdgeSource, Slice, edge_source
from .folder import Build, build
from .npy_file import HEADER, GrowingArray
from .read_ahead import read_ahead
from .rough_sort import RoughSort

#: Edges read at a time, if memory allows.
SLICE = 1 << 21
_LEAST_SLICE = 256
#: Bytes of an edge that is roughly sorted.
_PAIR_BYTES = 8
#: Slices in memory at once, when they are read ahead.
_SLICES = 3
#: Bytes for a row: where it begins, its edges and its self-loops.
_ROW_BYTES = 8 + 4 + 4
#: Bytes that are left alone, at most: for Python and what it has loaded.
_SPARE = 384 << 20
#: Rows whose counts are looked at, at a time.
_ROWS = 1 << 20


def build_disk_graph(
    edges: str | os.PathLike | EdgeSource,
    num_nodes: int,
    path: str | os.PathLike,
    *,
    memory: int | str = "4GiB",
    add_reverse: bool = False,
    drop_loops: bool = False,
    progress: bool | None = None,
    resume: bool = True,
) -> DiskGraph:
    """Sort a list of edges into a graph on disk, in bounded memory.

    Parameters
    ----------
    edges : path or source of edges
        A npy file (2, m) or (m, 2), an npz file with such an array as
        ``edge_index``, or a csv file, plain or gz; or one of the classes of
        :mod:`dgl_lc.storage.edge_sources`, for files that are read otherwise.
    num_nodes : int
        Nodes are 0 to num_nodes - 1.
    path : path
        The folder to write.
    memory : int or str, optional
        What may be allocated. Less memory means more passes over the edges.
    add_reverse : bool, optional
        Whether to make the graph undirected: every edge in both directions,
        once, as ``dgl.to_bidirected``. Otherwise edges are as in the file,
        multi-edges too, and those of a row in the order of the file.
    drop_loops : bool, optional
        Whether to leave self-loops out.
    progress : bool, optional
        Show progress bars. Default: in a terminal, if it takes a while.
    resume : bool, optional
        Whether to go on where a killed run stopped. A folder that was made
        from other edges or with other options is then an error; with False
        it is written anew.

    Returns
    -------
    DiskGraph
        The graph, open. If the folder was whole already, nothing is done.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import build_disk_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/edges.npy", np.array([[0, 1, 1], [1, 0, 2]]))
    ...     g = build_disk_graph(
    ...         f"{folder}/edges.npy", 3, f"{folder}/graph", add_reverse=True
    ...     )
    ...     g.num_edges()
    4
    """
    source = edge_source(edges)
    budget = parse_bytes(memory)
    if not 1 <= num_nodes < 2**31:
        raise DGLError(
            f"num_nodes should be from 1 to {2**31 - 1}, got {num_nodes}."
        )
    folder = Path(path)
    made_from = source.made_from()
    options: dict[str, Any] = {
        "num_nodes": int(num_nodes),
        "add_reverse": bool(add_reverse),
        "drop_loops": bool(drop_loops),
    }
    with build(
        folder, KIND, (*FILES, COUNTS), made_from, options,
        resume=resume,
    ) as work:  # fmt: skip
        if work is not None:
            sorter = _Sorter(source, work, budget, progress, **options)
            sorter.count()
            sorter.fill()
            sorter.check_source(made_from)
            work.finish(
                drop=(COUNTS,),
                num_nodes=int(num_nodes),
                num_edges=work.array("indices.npy", np.int32).count,
            )
    return DiskGraph(folder)


class _Sorter:
    def __init__(
        self,
        source: EdgeSource,
        work: Build,
        budget: int,
        progress: bool | None,
        num_nodes: int,
        add_reverse: bool,
        drop_loops: bool,
    ):
        self._source = source
        self._work = work
        self._budget = budget
        self._progress = progress
        self._n = num_nodes
        self._back = add_reverse
        self._drop_loops = drop_loops
        self._threads = min(num_threads(), 8)
        ways = 2 if add_reverse else 1
        # Slices, places of those that are selected, and a pair each way.
        edge = _SLICES * source.edge_bytes + 4 * self._threads
        edge += ways * _PAIR_BYTES
        room = budget // 4 // edge
        self._slice = min(SLICE, max(room, _LEAST_SLICE))
        if source.num_edges is not None:
            self._slice = min(self._slice, max(source.num_edges, 1))
        #: Pairs that are sorted roughly before they are sorted.
        least = ways * self._slice
        self._pairs = max(least, budget // 8 // _PAIR_BYTES)
        if source.num_edges is not None:
            self._pairs = min(self._pairs, ways * max(source.num_edges, 1))
        #: What is left for everything else.
        self._room = budget - self._slice * edge - min(budget // 8, _SPARE)
        self._room -= (self._pairs - least) * _PAIR_BYTES

    def count(self) -> None:
        """Edges of each node, range by range where memory is short.

        An undirected graph needs one count, before duplicates are merged.
        """
        names = [COUNTS]
        if not self._back:
            names += ["out_edges.npy", "loops.npy"]
        files = [self._work.array(name, np.int32) for name in names]
        while files[0].count < self._n:
            low = files[0].count
            rows = min(self._n - low, self._room // (4 * len(files)))
            if rows < 1:
                raise self._too_small(4 * len(files))
            counts = [np.zeros(rows, np.int32) for _ in files]
            self._count_range(low, counts, len(files) * 4)
            for file, part in zip(files, counts, strict=True):
                file.append(part)
            self._work.commit()
            del counts, part

    def _count_range(
        self, low: int, counts: list[np.ndarray], row_bytes: int
    ) -> None:
        rows = len(counts[0])
        total = 0
        passes = -(-self._n * row_bytes // max(self._room, 1))
        name = "count edges" + (f" ({passes} passes)" if passes > 1 else "")
        rough = self._rough_sort(low, low + rows)

        def count(*bucket):
            kernels.count(*bucket, counts[0])

        with closing(self._slices(name)) as slices:
            for source, target in slices:
                self._check_ids(source)
                self._check_ids(target)
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
        parts = ranges(len(out_edges), self._threads)

        def count(_, part):
            first, last = (low + row for row in parts[part])
            kernels.count_sources(
                source, target, first, last, low,
                self._drop_loops, out_edges, loops,
            )  # fmt: skip

        run_parallel(count, len(parts))

    def _rough_sort(self, low: int, high: int) -> RoughSort:
        return RoughSort(
            self._pairs, low, high, self._back, self._drop_loops, self._threads
        )

    def fill(self) -> None:
        """Write range after range of destinations."""
        # From an earlier run perhaps, and the kernels trust them.
        self._work.array(COUNTS, np.int32).verify()
        counts: np.ndarray = np.memmap(
            self._work.path / COUNTS,
            np.int32, "r", HEADER, (self._n,),
        )  # fmt: skip
        indptr = self._work.array("indptr.npy", np.int64)
        indices = self._work.array("indices.npy", np.int32)
        out_edges = self._work.array("out_edges.npy", np.int32)
        loops = self._work.array("loops.npy", np.int32)
        if indptr.count == 0:
            self._check_disk(counts)
            indptr.append(np.zeros(1, np.int64))
        while indptr.count - 1 < self._n:
            low = indptr.count - 1
            high = self._range_end(counts, low)
            starts = np.empty(high - low + 1, np.int64)
            starts[0] = 0
            # Shifted by one: a row's begin becomes its end while it is
            # filled, and that is where the next one begins.
            size = int(kernels.begins(counts[low:high], 0, starts[1:]))
            buffer = np.empty(size, np.int32)
            self._fill_range(low, high, starts, buffer)
            self._check_filled(counts[low:high], starts)
            if self._back:
                final, own = self._merge(low, high, starts, buffer, indices)
                # As many edges out as in: they come in pairs.
                out_edges.append(final)
                loops.append(own)
                del own
            else:
                indices.append(buffer)
                final = counts[low:high]
            del buffer, starts
            ends = np.empty(high - low + 1, np.int64)
            begin = indices.count - int(final.sum(dtype=np.int64))
            ends[-1] = kernels.begins(final, begin, ends[:-1])
            indptr.append(ends[1:])
            self._work.commit()
            del ends, final

    def _range_end(self, counts: np.ndarray, low: int) -> int:
        """Where a range of rows ends that fits into memory."""
        left = self._room
        row = low
        while row < self._n:
            part = counts[row : row + _ROWS].astype(np.int64)
            cost = np.cumsum(4 * part + _ROW_BYTES)
            fits = int(np.searchsorted(cost, left, "right"))
            row += fits
            if fits < len(part):
                break
            left -= int(cost[-1])
        if row == low:
            raise self._too_small(4 * int(counts[low:].max()) + _ROW_BYTES)
        return row

    def _fill_range(
        self, low: int, high: int, starts: np.ndarray, buffer: np.ndarray
    ) -> None:
        rough = self._rough_sort(low, high)

        def place(*bucket):
            kernels.place(*bucket, starts[1:], buffer)

        name = f"sort edges ({100 * low // self._n} %)"
        with closing(self._slices(name)) as slices:
            for source, target in slices:
                self._check_ids(source)
                self._check_ids(target)
                if rough.is_full(len(source)):
                    rough.empty(place)
                rough.add(source, target)
        rough.empty(place)

    def _check_filled(self, counts: np.ndarray, starts: np.ndarray) -> None:
        for begin, end in _chunks(len(counts), _ROWS):
            if (np.diff(starts[begin : end + 1]) != counts[begin:end]).any():
                raise self._changed()

    def check_source(self, made_from: dict[str, Any]) -> None:
        """Refuse edges that were written to while they were sorted."""
        if self._source.made_from() != made_from:
            raise self._changed()

    def _changed(self) -> DGLError:
        return DGLError(
            f"{self._source.what} changed while it was read: keep it as it "
            f"is, and begin again with resume=False."
        )

    def _merge(
        self,
        low: int,
        high: int,
        starts: np.ndarray,
        buffer: np.ndarray,
        indices: GrowingArray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sort rows, merge duplicates and write what is left.

        Returns the edges of each row, and its self-loops.
        """
        counts = np.zeros(high - low, np.int32)
        loops = np.zeros(high - low, np.int32)
        parts = ranges(high - low, min(high - low, 16 * self._threads))
        sizes = [0] * len(parts)

        def merge(_, part):
            sizes[part] = kernels.merge_rows(
                starts, *parts[part], low, buffer, counts, loops
            )

        run_parallel(merge, len(parts))
        for (first, _), size in zip(parts, sizes, strict=True):
            begin = int(starts[first])
            indices.append(buffer[begin : begin + size])
        return counts, loops

    def _slices(self, name: str) -> Generator[Slice, None, None]:
        """All edges, a bar with this name beside them."""
        known = self._source.num_edges
        if known is None:
            known = self._work.notes.get("num_raw")
        return read_ahead(
            self._source.slices(self._slice),
            lambda found: 16 * len(found[0]),
            total=None if known is None else 16 * known,
            name=name,
            progress=self._progress,
        )

    def _check_ids(self, ids: np.ndarray) -> None:
        if len(ids) == 0:
            return
        low, high = kernels.bounds(ids)
        if low < 0 or high >= self._n:
            raise DGLError(
                f"{self._source.what} holds {low if low < 0 else high}, but "
                f"there are nodes 0 to {self._n - 1}."
            )

    def _check_disk(self, counts: np.ndarray) -> None:
        """Whether the result fits, before the long part begins."""
        total = int(counts.sum(dtype=np.int64))
        # Where duplicates are merged, up to half of it goes away, or more.
        needed = 4 * total // (2 if self._back else 1) + 8 * self._n
        free = shutil.disk_usage(self._work.path).free
        if free < needed:
            raise DGLError(
                f"{self._work.path}: the graph needs {format_bytes(needed)} of "
                f"disk, free are {format_bytes(free)}."
            )

    def _too_small(self, needed: int) -> DGLError:
        # Half goes to slices, pairs and Python at most, and a quarter if
        # slices are as small as they get.
        kept = self._budget - self._room - min(self._budget // 8, _SPARE)
        enough = max((needed + kept) * 4 // 3, needed * 2) + 8
        return DGLError(
            f"memory={format_bytes(self._budget)} is too small to sort "
            f"{self._source.what}: {format_bytes(enough)} would be enough "
            f"({enough} bytes), with many passes."
        )


def _chunks(total: int, size: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, total, size):
        yield begin, min(begin + size, total)
