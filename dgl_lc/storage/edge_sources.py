"""Lists of edges in files, read in slices of sources and targets.

A source of edges can be read again and again: sorting under a budget takes
several passes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dgl import DGLError

from .keys import file_stamp
from .npz_stream import Member
from .numpy_files import _BROKEN, read_npy

Slice = tuple[np.ndarray, np.ndarray]


class EdgeSource:
    """Edges that can be read again and again."""

    #: Names it in messages.
    what: str
    #: None where only reading tells.
    num_edges: int | None
    #: Bytes of memory for an edge in a slice.
    edge_bytes: int

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        raise NotImplementedError

    def slices(self, size: int) -> Iterator[Slice]:
        """All edges, at most so many at a time, as int64."""
        raise NotImplementedError


def edge_source(
    edges: str | os.PathLike | EdgeSource,
) -> EdgeSource:
    """The file's kind by the end of its name: npy, npz, csv or csv.gz."""
    if not isinstance(edges, (str, os.PathLike)):
        if isinstance(edges, EdgeSource):
            return edges
        raise DGLError(
            f"edges should be the path of a npy, npz or csv file, got "
            f"{type(edges).__name__}."
        )
    path = Path(edges)
    if not path.is_file():
        raise DGLError(f"edges: {path} is not there.")
    if path.suffix == ".npy":
        return NpyEdges(path)
    if path.suffix == ".npz":
        return NpzEdges(path)
    if path.name.endswith((".csv", ".csv.gz")):
        return CsvEdges(path)
    raise DGLError(
        f"edges: {path} should be a npy, npz, csv or csv.gz file, by its name."
    )


class NpzEdges(EdgeSource):
    """An array (2, m) or (m, 2) in an npz file, as OGB's edge_index."""

    def __init__(self, path: str | os.PathLike, name: str = "edge_index"):
        self._member = Member(path, name)
        self.what = self._member.what
        by_rows, self.num_edges = _layout(
            self._member.shape, self._member.dtype, self.what
        )
        # Columns behind each other, of (m, 2), are rows of (2, m).
        self._in_halves = by_rows != self._member.fortran
        size = self._member.dtype.itemsize
        self.edge_bytes = 2 * size + (0 if self._member.dtype == "i8" else 16)

    def made_from(self) -> dict[str, Any]:
        return self._member.made_from()

    def slices(self, size: int) -> Iterator[Slice]:
        if self._in_halves:
            for source, target in self._member.halves(size):
                yield _int64(source), _int64(target)
            return
        for pairs in self._member.values(2 * size):
            yield _int64(pairs[0::2]), _int64(pairs[1::2])


class NpyEdges(EdgeSource):
    """An array (2, m) or (m, 2) in an npy file."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.what = str(path)
        edges = read_npy(self.path, mapped=True)
        self._by_rows, self._count = _layout(
            edges.shape, edges.dtype, self.what
        )
        self.num_edges = self._count
        self.edge_bytes = 16

    def made_from(self) -> dict[str, Any]:
        return file_stamp(self.path)

    def slices(self, size: int) -> Iterator[Slice]:
        for begin in range(0, self._count, size):
            # Mapped anew: what was read counts no longer as ours.
            edges = read_npy(self.path, mapped=True)
            edges = edges if self._by_rows else edges.T
            source, target = edges[:, begin : begin + size]
            yield _int64(source), _int64(target)


class CsvEdges(EdgeSource):
    """A csv file, plain or gz, with a source and a target in each line."""

    def __init__(self, path: str | os.PathLike, header: bool = False):
        self.path = Path(path)
        self.what = str(path)
        self.num_edges = None
        self.edge_bytes = 64
        self._header = 0 if header else None

    def made_from(self) -> dict[str, Any]:
        return file_stamp(self.path) | {"header": self._header == 0}

    def slices(self, size: int) -> Iterator[Slice]:
        try:
            with pd.read_csv(
                self.path, header=self._header, dtype=np.int64, chunksize=size
            ) as chunks:
                for table in chunks:
                    if table.shape[1] != 2:
                        raise DGLError(
                            f"{self.what} has {table.shape[1]} columns, "
                            f"wanted are 2, source and target."
                        )
                    yield (
                        _int64(table.iloc[:, 0].to_numpy()),
                        _int64(table.iloc[:, 1].to_numpy()),
                    )
        except pd.errors.EmptyDataError:
            return
        except (*_BROKEN, OverflowError) as error:
            raise DGLError(f"{self.what} cannot be read: {error}") from None


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


def _int64(ids: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(ids, dtype=np.int64)
