"""Lists of edges in files, read in slices of sources, targets and weights.

A source of edges can be read again and again: sorting under a budget takes
several passes.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .array_stream import ArrayStream, NpyFile
from .csv_file import CSV_BYTES, read_tables
from .keys import file_stamp
from .npy_header import file_size
from .npz_stream import Member, member_names

#: Sources and targets, as int64, and weights where they are asked for.
Slice = tuple[np.ndarray, ...]

#: Values that are read at a time where they have to be converted.
_VALUES = 1 << 13
#: Beyond this not every integer is a float64.
_LARGEST_FLOAT_ID = 2**53


class EdgeSource:
    """Edges that can be read again and again.

    Attributes
    ----------
    what : str
        Names it in messages.
    num_edges : int or None
        None where only reading tells.
    weight_type : numpy.dtype or None
        The type of the edges' weights; None if they have none.
    reader_bytes : int
        Memory that reading takes, beyond the buffers and what is in the
        overhead of every call.
    """

    what: str
    num_edges: int | None
    weight_type: np.dtype | None = None
    reader_bytes: int = 0

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        raise NotImplementedError

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        """Read all edges.

        A buffer is a tuple of arrays of one length: int64 for sources and
        for targets, and, of a source with weights, float32 or float64 for
        these. Without the third array weights are not read.

        Each slice is a part of one of the buffers, in turn: it holds until
        the buffer's next turn. All slices but the last are as long as their
        buffer.
        """
        raise NotImplementedError


def edge_source(
    edges: str | os.PathLike | EdgeSource,
) -> EdgeSource:
    """Open edges by the end of the file's name: npy, npz, csv or csv.gz."""
    if isinstance(edges, EdgeSource):
        return edges
    if not isinstance(edges, (str, os.PathLike)):
        raise DGLError(
            f"edges should be the path of a npy, npz or csv file, got "
            f"{type(edges).__name__}."
        )
    path = Path(edges)
    if not path.exists():
        raise DGLError(f"edges: {path} does not exist.")
    if path.suffix == ".npy":
        return NpyEdges(path)
    if path.suffix == ".npz":
        return NpzEdges(path, _edges_key(path))
    if path.name.endswith((".csv", ".csv.gz")):
        return CsvEdges(path)
    raise DGLError(
        f"edges: {path} should be a npy, npz, csv or csv.gz file, by its name."
    )


def _edges_key(path: Path) -> str:
    """Find under which of its two names an npz file has the edges."""
    names = member_names(path)
    found = [key for key in ("edge_index", "edges") if key in names]
    if len(found) == 2:
        raise DGLError(
            f"edges: {path} has both edge_index and edges, two names for the "
            f"same: give NpzEdges(path, name)."
        )
    return found[0] if found else "edge_index"


class ArrayEdges(EdgeSource):
    """An array (2, m) or (m, 2) of integers.

    Parameters
    ----------
    array : ArrayStream
        The array.
    pairs : bool
        Whether it is (m, 2) for sure. Otherwise (2, 2) counts as (2, m).
    """

    def __init__(self, array: ArrayStream, pairs: bool = False):
        self._array = array
        self.what = array.what
        by_rows, self.num_edges = _layout(array.shape, array.dtype, self.what)
        if pairs:
            by_rows, self.num_edges = False, array.shape[0]
        # Columns behind each other, of (m, 2), are rows of (2, m).
        self._in_halves = by_rows != array.fortran

    def made_from(self) -> dict[str, Any]:
        return self._array.made_from()

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        array = self._array
        if not self._in_halves:
            pairs = array.values([np.empty(_VALUES, array.dtype)])
            yield from _collect(((p[0::2], p[1::2]) for p in pairs), buffers)
        elif array.dtype == np.int64:
            first, second = zip(*buffers, strict=True)
            yield from array.halves(first, second)
        else:
            rooms = [[np.empty(_VALUES, array.dtype)] for _ in range(2)]
            yield from _collect(array.halves(*rooms), buffers)


class NpyEdges(ArrayEdges):
    """An array (2, m) or (m, 2) in an npy file."""

    def __init__(self, path: str | os.PathLike):
        super().__init__(NpyFile(path))


class NpzEdges(ArrayEdges):
    """An array (2, m) or (m, 2) in an npz file, as OGB's edge_index."""

    def __init__(self, path: str | os.PathLike, name: str = "edge_index"):
        super().__init__(Member(path, name))


class CsvEdges(EdgeSource):
    """A csv file, plain or gz, with a source and a target in each line.

    Parameters
    ----------
    path : path
        The file; it is unpacked if its name ends in .gz.
    header : bool
        Whether the first line has names.
    weighted : bool
        Whether each line has a weight as well, in a third column.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        header: bool = False,
        weighted: bool = False,
    ):
        self.path = Path(path)
        self.what = str(path)
        self.num_edges = None
        self.weight_type = np.dtype(np.float32) if weighted else None
        self.reader_bytes = CSV_BYTES * 3 // 2 if weighted else CSV_BYTES
        self._header = header
        file_size(self.path)

    def made_from(self) -> dict[str, Any]:
        weighted = {} if self.weight_type is None else {"weighted": True}
        return file_stamp(self.path) | {"header": self._header} | weighted

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        yield from _collect(self._pieces(len(buffers[0])), buffers)

    def _pieces(self, width: int) -> Iterator[Slice]:
        """Read the first columns of some lines at a time."""
        weighted = self.weight_type is not None
        dtype = np.float64 if weighted else np.int64
        for table in read_tables(
            self.path, dtype, header=self._header, exact=weighted
        ):
            self._check_columns(table.shape[1])
            if weighted:
                self._check_ids(table[:, :2])
            yield tuple(table[:, :width].T)

    def _check_columns(self, found: int) -> None:
        if self.weight_type is not None:
            wanted, hint = 3, "source, target and weight."
        else:
            wanted, hint = 2, "source and target."
            if found == 3:
                hint += " CsvEdges(path, weighted=True) reads weights."
        if found != wanted:
            raise DGLError(
                f"{self.what} has {found} columns, but should have {wanted}, "
                f"{hint}"
            )

    def _check_ids(self, ids: np.ndarray) -> None:
        """Refuse numbers of nodes that are no integers."""
        is_id = (ids == np.rint(ids)) & (np.abs(ids) < _LARGEST_FLOAT_ID)
        if not is_id.all():
            raise DGLError(
                f"{self.what} holds {ids[~is_id][0]} in its first two columns, "
                f"but nodes are integers."
            )


class WeightedEdges(EdgeSource):
    """Edges, and their weights from another file in the same order.

    Parameters
    ----------
    edges : path or EdgeSource
        The edges, as for :func:`edge_source`.
    weights : path or ArrayStream
        Real numbers, of shape (m,) or (m, 1): the path of an npy file, or
        an array in an npz file as ``Member(path, name)`` of
        :mod:`dgl_lc.storage.npz_stream`.
    """

    def __init__(
        self,
        edges: str | os.PathLike | EdgeSource,
        weights: str | os.PathLike | ArrayStream,
    ):
        self._edges = edge_source(edges)
        self._weights = _weight_stream(weights)
        self.what = self._edges.what
        if self._edges.weight_type is not None:
            raise DGLError(f"{self.what} has weights of its own: omit weights.")
        self.num_edges = self._weights.num_values
        if self._edges.num_edges not in (None, self.num_edges):
            raise self._other_length(f"{self._edges.num_edges} edges")
        self.weight_type = self._weights.dtype
        buffer = _VALUES * self.weight_type.itemsize
        self.reader_bytes = self._edges.reader_bytes + buffer

    def made_from(self) -> dict[str, Any]:
        return self._edges.made_from() | {"weights": self._weights.made_from()}

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        ends = self._edges.slices([buffer[:2] for buffer in buffers])
        if len(buffers[0]) == 2:
            yield from ends
            return
        weights = self._weight_slices([buffer[2:] for buffer in buffers])
        for pair, own in itertools.zip_longest(ends, weights, fillvalue=()):
            if not pair or not own or len(pair[0]) != len(own[0]):
                raise self._other_length("another number of edges")
            yield *pair, *own

    def _weight_slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        array = self._weights
        if array.dtype == buffers[0][0].dtype:
            for values in array.values([room for (room,) in buffers]):
                yield (values,)
            return
        pieces = array.values([np.empty(_VALUES, array.dtype)])
        yield from _collect(((piece,) for piece in pieces), buffers)

    def _other_length(self, found: str) -> DGLError:
        return DGLError(
            f"weights: {self._weights.what} has {self._weights.num_values} "
            f"numbers, but {self.what} has {found}: give one weight for each "
            f"edge, in the order of the edges."
        )


def _weight_stream(
    weights: str | os.PathLike | ArrayStream,
) -> ArrayStream:
    """Open weights, which should be one real number for each edge."""
    if isinstance(weights, (str, os.PathLike)):
        path = Path(weights)
        if path.suffix != ".npy":
            raise DGLError(
                f"weights: {path} should be an npy file, by its name."
            )
        weights = NpyFile(path)
    if not isinstance(weights, ArrayStream):
        raise DGLError(
            f"weights should be the path of an npy file, got "
            f"{type(weights).__name__}."
        )
    if weights.dtype.kind not in "fiu" or weights.dtype.itemsize > 8:
        raise DGLError(
            f"weights: {weights.what} should hold integers, float16, float32 "
            f"or float64, got {weights.dtype}."
        )
    if len(weights.shape) not in (1, 2) or weights.shape[1:] not in ((), (1,)):
        raise DGLError(
            f"weights: {weights.what} should have shape (m,), a number for "
            f"each edge, got {weights.shape}."
        )
    return weights


def _collect(
    pieces: Iterator[Slice], buffers: Sequence[Slice]
) -> Iterator[Slice]:
    """Copy small pieces into the buffers, and convert them to their types."""
    turns = itertools.cycle(buffers)
    rooms = next(turns)
    used = 0
    for piece in pieces:
        begin, length = 0, len(piece[0])
        while begin < length:
            end = min(length, begin + len(rooms[0]) - used)
            own = slice(used, used + end - begin)
            # What is too large for a float32 is refused as infinite later.
            with np.errstate(over="ignore"):
                for room, values in zip(rooms, piece, strict=True):
                    room[own] = values[begin:end]
            used, begin = own.stop, end
            if used == len(rooms[0]):
                yield rooms
                rooms = next(turns)
                used = 0
    if used:
        yield tuple(room[:used] for room in rooms)


def _layout(
    shape: tuple[int, ...], dtype: np.dtype, what: str
) -> tuple[bool, int]:
    """Whether sources are a row, not a column, and the number of edges."""
    if dtype.kind not in "iu":
        raise DGLError(
            f"{what} should hold integers, got {dtype}: convert it before it "
            f"is saved."
        )
    if len(shape) == 2 and shape[0] == 2:
        return True, shape[1]
    if len(shape) == 2 and shape[1] == 2:
        return False, shape[0]
    raise DGLError(
        f"{what} should have shape (2, m) or (m, 2), sources and targets, got "
        f"{shape}."
    )
