"""Columns of a table as rows of features."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from dgl import DGLError

from .array_stream import ArrayStream
from .npy_header import NpyHeader
from .parquet_table import ParquetTable
from .table_files import FLOAT, LIST, Batch, Table


class FeatureRows(ArrayStream):
    """Numeric columns of a table, or one column of lists, as a matrix.

    Parameters
    ----------
    table : Table
        The table.
    names : sequence of str
        The columns.
    num_nodes : int
        How many rows there are.
    """

    def __init__(self, table: Table, names: Sequence[str], num_nodes: int):
        self.what = table.what
        self.table = table
        self._names = list(names)
        self._lists = table.kinds[names[0]] == LIST
        self._kinds = [LIST if self._lists else FLOAT for _ in names]
        width, dtype = _shape(table, self._names)
        if width < 1:
            raise DGLError(f"{table.what}: column {names[0]!r} has no values.")
        self._set_header(NpyHeader((num_nodes, width), False, dtype, 0))

    def made_from(self) -> dict[str, Any]:
        found = self.table.made_from()
        return found | {"columns": self._names, "rows": self.shape[0]}

    def reader_bytes(self) -> int:
        return self.table.reader_bytes(self._names)

    def rows(
        self, buffers: Sequence[np.ndarray], begin: int = 0
    ) -> Iterator[np.ndarray]:
        turns = itertools.cycle(buffers)
        room, used, seen = next(turns), 0, begin
        for batch in self.table.batches(self._names, self._kinds, begin=begin):
            first = 0
            while first < batch.num_rows:
                last = min(batch.num_rows, first + len(room) - used)
                part = room[used : used + last - first]
                self._copy(batch, first, last, part)
                used, first = used + len(part), last
                if used == len(room):
                    yield room
                    room, used = next(turns), 0
            seen += batch.num_rows
        if seen != self.shape[0]:
            raise DGLError(
                f"{self.what} has {seen} rows, but there are {self.shape[0]} "
                f"nodes: give a row for each node."
            )
        if used:
            yield room[:used]

    def _copy(
        self, batch: Batch, first: int, last: int, out: np.ndarray
    ) -> None:
        for place, column in enumerate(batch.columns):
            values = column[first:last]
            if self._lists:
                if values.shape[1:] != out.shape[1:]:  # type: ignore[union-attr]
                    raise DGLError(
                        f"{batch.where(first)}: a list of {values.shape[1]} "  # type: ignore[union-attr]
                        f"values, where the rows before have {out.shape[1]}."
                    )
                out[:] = values
            else:
                out[:, place] = values
        bad = np.isnan(out)
        if bad.any():
            row, column_number = (int(p) for p in np.argwhere(bad)[0])
            name = self._names[0 if self._lists else column_number]
            raise DGLError(
                f"{batch.where(first + row)}: column {name!r} holds nan"
                + (f", at place {column_number}" if self._lists else "")
                + ": fill it in, or remove the row."
            )


def _shape(table: Table, names: list[str]) -> tuple[int, np.dtype]:
    """How many columns of features there are, and the type they are read as.

    The type holds all values of the columns: float16 and float32 as they are,
    small integers as float32, others as float64.
    """
    if not isinstance(table, ParquetTable):
        return len(names), np.dtype(np.float64)
    width = len(names)
    if table.kinds[names[0]] == LIST:
        width = table.list_width(names[0])
    found = np.dtype(np.float16)
    for name in names:
        found = np.promote_types(found, table.numpy_type(name))
    return width, found if found.kind == "f" else np.dtype(np.float64)
