"""Files of predictions: csv, npy and parquet, written part by part.

Tables have a row for each node: its id, and what the model predicts. An npy
file has the predictions alone.
"""

import csv
import importlib.util
import io
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from dgl import DGLError

from ..storage.manifest import check_outside
from .prediction_columns import PredictionColumns

#: The kinds of files, by how their names end.
SUFFIXES = (".csv", ".npy", ".parquet")
#: Rows that a group of a parquet file has, at least.
_GROUP = 1 << 18


def check_prediction_file(path: Path) -> None:
    """Refuse a name of a file that predictions can't be written to."""
    if path.suffix not in SUFFIXES:
        raise DGLError(
            f"{path} should end in {', '.join(SUFFIXES[:-1])} or "
            f"{SUFFIXES[-1]}: the name says which kind of file to write."
        )
    if path.suffix == ".parquet" and not importlib.util.find_spec("pyarrow"):
        raise DGLError(
            f"{path}: parquet files need pyarrow. Install it with "
            f"pip install 'dgl-lc[tables]', or write a .csv or .npy file."
        )
    check_outside(path)


class Writer(Protocol):
    """Takes predictions, part by part."""

    def write(self, ids: np.ndarray, values: np.ndarray) -> None:
        """Take the ids of some nodes, and their probabilities or numbers."""

    def close(self) -> None:
        """Write what is left. The file itself stays open."""


def make_writer(
    file: BinaryIO, kind: str, rows: int, columns: PredictionColumns
) -> Writer:
    """Choose what writes predictions to an open file.

    Parameters
    ----------
    file : file
        A buffered file, open for writing.
    kind : str
        One of :data:`SUFFIXES`.
    rows : int
        The number of nodes.
    columns : PredictionColumns
        What is written for each node.
    """
    if kind == ".npy":
        return _NpyWriter(file, rows, columns)
    if kind == ".csv":
        return _CsvWriter(file, columns)
    return _ParquetWriter(file, columns)


class _NpyWriter:
    def __init__(self, file: BinaryIO, rows: int, columns: PredictionColumns):
        self._file, self._columns = file, columns
        shape, dtype = columns.describe_array(rows)
        about = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)

    def write(self, ids: np.ndarray, values: np.ndarray) -> None:
        self._file.write(self._columns.as_array(values).tobytes())

    def close(self) -> None:
        pass


class _CsvWriter:
    def __init__(self, file: BinaryIO, columns: PredictionColumns):
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._rows = csv.writer(self._text, lineterminator="\n")
        self._rows.writerow(["id", *columns.titles])
        self._columns = columns

    def write(self, ids: np.ndarray, values: np.ndarray) -> None:
        found = self._columns.cut(values)
        columns = [self._as_texts(column) for column in found]
        self._rows.writerows(zip(ids.tolist(), *columns, strict=True))

    def _as_texts(self, column: np.ndarray) -> list:
        if column.dtype.kind != "f":
            return column.tolist()
        if self._columns.are_numbers:
            # As many digits as it takes to read the same number again.
            return column.astype(str).tolist()
        return [f"{value:.6g}" for value in column.tolist()]

    def close(self) -> None:
        self._text.flush()
        self._text.detach()


class _ParquetWriter:
    def __init__(self, file: BinaryIO, columns: PredictionColumns):
        self._file, self._columns = file, columns
        self._waiting: list[Any] = []
        self._count = 0
        self._table: Any = None

    def write(self, ids: np.ndarray, values: np.ndarray) -> None:
        import pyarrow

        if ids.dtype == object:
            # A column has one type, and ids in memory may be of several.
            ids = np.array([str(own) for own in ids], dtype=object)
        found = [ids, *self._columns.cut(values)]
        self._waiting.append(
            pyarrow.table(
                [pyarrow.array(column) for column in found],
                names=["id", *self._columns.titles],
            )
        )
        self._count += len(ids)
        if self._count >= _GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.concat_tables(self._waiting)
        if self._table is None:
            self._table = parquet.ParquetWriter(self._file, table.schema)
        self._table.write_table(table)
        self._waiting, self._count = [], 0

    def close(self) -> None:
        if self._waiting:
            self._write_group()
        self._table.close()
