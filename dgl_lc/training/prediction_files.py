"""Files of predictions: csv, npy and parquet, written part by part.

Tables have a row for each node: its id, its class and, on request, the
probability of each class. An npy file has the classes alone.
"""

import csv
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from dgl import DGLError

from ..storage.manifest import check_outside

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

    def write(self, ids: np.ndarray, probabilities: np.ndarray) -> None:
        """Take the ids of some nodes, and the probability of each class."""

    def close(self) -> None:
        """Write what is left. The file itself stays open."""


def make_writer(
    file: BinaryIO,
    kind: str,
    rows: int,
    columns: Sequence[str] | int,
    probabilities: bool,
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
    columns : sequence of str, or int
        The names of the classes, or their number.
    probabilities : bool
        Whether to write the probability of each class as well.
    """
    names = None if isinstance(columns, int) else list(columns)
    number = columns if isinstance(columns, int) else len(columns)
    if kind == ".npy":
        return _NpyWriter(file, (rows, number) if probabilities else (rows,))
    shown = names or [str(place) for place in range(number)]
    titles = [f"p_{name}" for name in shown] if probabilities else []
    if kind == ".csv":
        return _CsvWriter(file, names, titles)
    return _ParquetWriter(file, names, titles)


class _NpyWriter:
    """Writes classes as int64, or probabilities as float32."""

    def __init__(self, file: BinaryIO, shape: tuple[int, ...]):
        self._file = file
        self._probabilities = len(shape) == 2
        dtype = np.dtype("<f4" if self._probabilities else "<i8")
        about = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)

    def write(self, ids: np.ndarray, probabilities: np.ndarray) -> None:
        found = probabilities
        if not self._probabilities:
            found = probabilities.argmax(1).astype(np.int64)
        self._file.write(found.tobytes())

    def close(self) -> None:
        pass


class _CsvWriter:
    def __init__(
        self, file: BinaryIO, names: list[str] | None, titles: list[str]
    ):
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._rows = csv.writer(self._text, lineterminator="\n")
        self._rows.writerow(["id", "class", *titles])
        self._names, self._probabilities = names, bool(titles)

    def write(self, ids: np.ndarray, probabilities: np.ndarray) -> None:
        classes = _classes(self._names, probabilities)
        columns = [ids.tolist(), classes.tolist()]
        if self._probabilities:
            columns += [
                [f"{value:.6g}" for value in column]
                for column in probabilities.T.tolist()
            ]
        self._rows.writerows(zip(*columns, strict=True))

    def close(self) -> None:
        self._text.flush()
        self._text.detach()


class _ParquetWriter:
    def __init__(
        self, file: BinaryIO, names: list[str] | None, titles: list[str]
    ):
        self._file, self._names, self._titles = file, names, titles
        self._waiting: list[Any] = []
        self._count = 0
        self._table: Any = None

    def write(self, ids: np.ndarray, probabilities: np.ndarray) -> None:
        import pyarrow

        if ids.dtype == object:
            # A column has one type, and ids in memory may be of several.
            ids = np.array([str(own) for own in ids], dtype=object)
        classes = _classes(self._names, probabilities)
        columns = {"id": pyarrow.array(ids), "class": pyarrow.array(classes)}
        if self._titles:
            for title, column in zip(
                self._titles, probabilities.T, strict=True
            ):
                columns[title] = pyarrow.array(np.ascontiguousarray(column))
        self._waiting.append(pyarrow.table(columns))
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


def _classes(names: list[str] | None, probabilities: np.ndarray) -> np.ndarray:
    """Return the likeliest classes: their names, or their numbers."""
    numbers = probabilities.argmax(1).astype(np.int64)
    if names is None:
        return numbers
    return np.array(names, dtype=object)[numbers]
