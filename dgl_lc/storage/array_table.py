"""Arrays of NumPy as tables, and as streams where they are in memory."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .array_stream import ArrayStream, NpyFile
from .edge_sources import ArrayEdges, EdgeSource
from .keys import array_key, memory_map
from .npy_header import NpyHeader
from .npz_stream import Member, member_names
from .table_files import (
    BOOL,
    FLOAT,
    INT,
    KIND_WORDS,
    TEXT,
    Batch,
    Table,
    Values,
    missing_value,
)
from .texts import Texts

#: Rows that are read at a time.
_ROWS = 1 << 16
_KINDS = {"i": INT, "u": INT, "f": FLOAT, "b": BOOL, "U": TEXT, "S": TEXT}


class MemoryArray(ArrayStream):
    """An array in memory, or a memory map, read in slices.

    Parameters
    ----------
    array : ndarray or Tensor
        The values.
    what : str
        Names it in messages.
    """

    def __init__(self, array: Any, what: str):
        if hasattr(array, "detach"):  # a tensor
            array = array.detach().cpu().numpy()
        found = np.asanyarray(array)
        if found.dtype == object and found.ndim == 1:
            found = _as_texts(found, what)
        if found.dtype.kind not in "biufUS":
            raise DGLError(f"{what} should hold numbers, got {found.dtype}.")
        if not found.flags.c_contiguous:
            if memory_map(found) is not None:
                raise DGLError(
                    f"{what} is a memory map whose rows are not contiguous: "
                    f"save it with np.ascontiguousarray."
                )
            found = np.ascontiguousarray(found)
        self.what = what
        self._array = found
        self._set_header(NpyHeader(found.shape, False, found.dtype, 0))

    def made_from(self) -> dict[str, Any]:
        if self._array.dtype.kind in "US":
            key = array_key(self._array.reshape(-1).view(np.uint8))
        else:
            key = array_key(self._array)
        shape = list(self._array.shape)
        return {"array": key, "shape": shape, "dtype": self._array.dtype.str}

    def values(
        self,
        buffers: Sequence[np.ndarray],
        begin: int = 0,
        end: int | None = None,
    ) -> Iterator[np.ndarray]:
        flat = self._array.reshape(-1)
        last = self.num_values if end is None else end
        turn = 0
        while begin < last:
            values = buffers[turn % len(buffers)][: last - begin]
            values[:] = flat[begin : begin + len(values)]
            begin += len(values)
            turn += 1
            yield values

    def halves(
        self, first: Sequence[np.ndarray], second: Sequence[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        half = self.num_values // 2
        yield from zip(
            self.values(first, 0, half),
            self.values(second, half, 2 * half),
            strict=True,
        )


def _as_texts(array: np.ndarray, what: str) -> np.ndarray:
    """An array of Python's strings, as one of NumPy's."""
    items = array.tolist()
    if not all(isinstance(item, str) for item in items):
        raise DGLError(f"{what} should hold integers or texts, not both.")
    if any(item.endswith("\0") for item in items):
        raise DGLError(f"{what} has a text that ends in a zero byte.")
    return np.array(items, np.str_)


class ArrayTable(Table):
    """A table of one column, called "0", from an array.

    Parameters
    ----------
    stream : ArrayStream
        An array of one dimension, or of one column.
    """

    def __init__(self, stream: ArrayStream):
        if stream.num_values != (stream.shape or (0,))[0]:
            raise DGLError(
                f"{stream.what} should have one dimension, got shape "
                f"{stream.shape}."
            )
        if stream.dtype.kind not in _KINDS:
            raise DGLError(
                f"{stream.what} should hold integers, floats, booleans or "
                f"texts, got {stream.dtype}."
            )
        self._stream = stream
        kind = _KINDS[stream.dtype.kind]
        super().__init__(stream.what, [], {"0": kind}, stream.num_values)

    @property
    def num_bytes(self) -> int:
        return self._stream.num_bytes

    def made_from(self) -> dict[str, Any]:
        return self._stream.made_from()

    def reader_bytes(self, names: Sequence[str]) -> int:
        return 4 * _ROWS * max(self._stream.dtype.itemsize, 16)

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        stream = self._stream
        rooms = [np.empty(_ROWS, stream.dtype) for _ in range(2)]
        for values in stream.values(rooms, begin):
            place = Batch(self.what, begin + 1, [], len(values))
            may_miss = "0" in missing
            column = _column(values, self.kinds["0"], kinds[0], place, may_miss)
            yield Batch(
                self.what, begin + 1, [column], len(values), values.nbytes
            )
            begin += len(values)


def _column(
    values: np.ndarray, kind: str, wanted: str, place: Batch, missing: bool
) -> Values:
    if kind != wanted:
        raise DGLError(
            f"{place.file} holds {values.dtype}, but {KIND_WORDS[wanted]} are "
            f"needed."
        )
    if kind == FLOAT and not missing and np.isnan(values).any():
        raise missing_value(place.where(int(np.argmax(np.isnan(values)))), "0")
    if kind == INT:
        if values.dtype.kind == "u" and len(values) and values.max() >= 2**63:
            raise DGLError(f"{place.file} holds {values.max()}: too large.")
        return values.astype(np.int64)
    if kind == TEXT:
        return _texts(values, place)
    return values


def _texts(values: np.ndarray, place: Batch) -> Texts:
    if values.dtype.kind == "U":
        return Texts.of(values.tolist())
    try:
        return Texts.of(text.decode() for text in values.tolist())
    except UnicodeDecodeError as error:
        raise DGLError(f"{place.file} is not utf-8: {error}.") from None


class EdgeTable(Table):
    """Edges of an array as a table: "source", "target" and "weight".

    Parameters
    ----------
    source : EdgeSource
        The edges.
    weights : ArrayStream, optional
        A float for each edge.
    """

    def __init__(self, source: EdgeSource, weights: ArrayStream | None = None):
        self.source = source
        self.weights = weights
        kinds = {"source": INT, "target": INT}
        if weights is not None:
            is_number = weights.dtype.kind in "iuf"
            if not is_number or weights.shape != (source.num_edges,):
                raise DGLError(
                    f"{weights.what} should hold a number for each of "
                    f"{source.num_edges} edges, got {weights.dtype} of shape "
                    f"{weights.shape}."
                )
            kinds["weight"] = FLOAT
        super().__init__(source.what, [], kinds, source.num_edges)

    @property
    def num_bytes(self) -> int:
        return 16 * (self.num_rows or 0)

    def made_from(self) -> dict[str, Any]:
        found = {"edges": self.source.made_from()}
        if self.weights is not None:
            found["weights"] = self.weights.made_from()
        return found

    def reader_bytes(self, names: Sequence[str]) -> int:
        return self.source.reader_bytes + 8 * 8 * _ROWS

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        wanted = dict(zip(names, kinds, strict=True))
        for name, kind in wanted.items():
            if self.kinds[name] != kind:
                raise DGLError(
                    f"{self.what} holds {KIND_WORDS[self.kinds[name]]}, but "
                    f"{KIND_WORDS[kind]} are needed: its ids and those of the "
                    f"nodes have to be of one type."
                )
        rooms = [
            (np.empty(_ROWS, np.int64), np.empty(_ROWS, np.int64))
            for _ in range(2)
        ]
        row = 0
        weights = self._weights()
        for source, target in self.source.slices(rooms):
            found: dict[str, Any] = {"source": source, "target": target}
            if "weight" in wanted:
                found["weight"] = next(weights)
            columns = [found[name] for name in names]
            batch = Batch(
                self.what, row + 1, columns, len(source), 16 * len(source)
            )
            row += len(source)
            if row > begin:
                skip = max(begin - (row - len(source)), 0)
                yield batch.after(skip)

    def _weights(self) -> Iterator[np.ndarray]:
        if self.weights is not None:
            dtype = self.weights.dtype
            rooms = [np.empty(_ROWS, dtype) for _ in range(2)]
            yield from self.weights.values(rooms)


def array_edges(stream: ArrayStream, weights: ArrayStream | None) -> EdgeTable:
    """Edges of an array (2, m) or (m, 2)."""
    return EdgeTable(ArrayEdges(stream), weights)


def npz_member(path: Path, usual: Sequence[str], wanted: str | None) -> str:
    """The name of an array in an npz file: as asked for, usual, or the only."""
    names = member_names(path)
    if wanted is not None:
        usual = [wanted]
    for name in usual:
        if name in names:
            return name
    if len(names) == 1 and wanted is None:
        return names[0]
    raise DGLError(
        f"{path} has none of {', '.join(usual)}; it has "
        f"{', '.join(names) or 'nothing'}: name the array, as a column."
    )


def open_array(
    path: str | os.PathLike, usual: Sequence[str], wanted: str | None = None
) -> ArrayStream:
    """Open the array of an npy file, or one of an npz file."""
    path = Path(path)
    if path.suffix.lower() == ".npz":
        return Member(path, npz_member(path, usual, wanted))
    return NpyFile(path)
