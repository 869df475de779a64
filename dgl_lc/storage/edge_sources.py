"""Lists of edges in files, read in slices of sources and targets.

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

#: Sources and targets, as int64.
Slice = tuple[np.ndarray, np.ndarray]

#: Values that are read at a time where they have to be converted.
_VALUES = 1 << 13


class EdgeSource:
    """Edges that can be read again and again.

    Attributes
    ----------
    what : str
        Names it in messages.
    num_edges : int or None
        None where only reading tells.
    reader_bytes : int
        Memory that reading takes, beyond the buffers and what is in the
        overhead of every call.
    """

    what: str
    num_edges: int | None
    reader_bytes: int = 0

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        raise NotImplementedError

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        """Read all edges.

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


class _ArrayEdges(EdgeSource):
    """An array (2, m) or (m, 2) of integers."""

    def __init__(self, array: ArrayStream):
        self._array = array
        self.what = array.what
        by_rows, self.num_edges = _layout(array.shape, array.dtype, self.what)
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


class NpyEdges(_ArrayEdges):
    """An array (2, m) or (m, 2) in an npy file."""

    def __init__(self, path: str | os.PathLike):
        super().__init__(NpyFile(path))


class NpzEdges(_ArrayEdges):
    """An array (2, m) or (m, 2) in an npz file, as OGB's edge_index."""

    def __init__(self, path: str | os.PathLike, name: str = "edge_index"):
        super().__init__(Member(path, name))


class CsvEdges(EdgeSource):
    """A csv file, plain or gz, with a source and a target in each line."""

    reader_bytes = CSV_BYTES

    def __init__(self, path: str | os.PathLike, header: bool = False):
        self.path = Path(path)
        self.what = str(path)
        self.num_edges = None
        self._header = header
        file_size(self.path)

    def made_from(self) -> dict[str, Any]:
        return file_stamp(self.path) | {"header": self._header}

    def slices(self, buffers: Sequence[Slice]) -> Iterator[Slice]:
        yield from _collect(self._tables(), buffers)

    def _tables(self) -> Iterator[Slice]:
        for table in read_tables(self.path, np.int64, header=self._header):
            if table.shape[1] != 2:
                raise DGLError(
                    f"{self.what} has {table.shape[1]} columns, but should "
                    f"have 2, source and target."
                )
            yield table[:, 0], table[:, 1]


def _collect(
    pieces: Iterator[Slice], buffers: Sequence[Slice]
) -> Iterator[Slice]:
    """Copy small pieces into the buffers, and convert them to int64."""
    turns = itertools.cycle(buffers)
    source, target = next(turns)
    used = 0
    for sources, targets in pieces:
        begin = 0
        while begin < len(sources):
            end = min(len(sources), begin + len(source) - used)
            room = slice(used, used + end - begin)
            source[room] = sources[begin:end]
            target[room] = targets[begin:end]
            used, begin = room.stop, end
            if used == len(source):
                yield source, target
                source, target = next(turns)
                used = 0
    if used:
        yield source[:used], target[:used]


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
