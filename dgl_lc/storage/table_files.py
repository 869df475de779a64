"""Tables in files, read in batches of rows, in the order of the files.

A column holds integers (int64), texts, floats, or a list of floats in each
row. Which one it is follows from the file's schema or, for text files, from
the first block; a later row that contradicts it is an error.
"""

import codecs
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .keys import file_stamp
from .texts import Texts

#: Values of one column in a batch.
Values = np.ndarray | Texts

INT, TEXT, FLOAT, LIST, BOOL = "int", "text", "float", "list", "bool"
#: What a column is called in messages.
KIND_WORDS = {
    INT: "integers",
    TEXT: "texts",
    FLOAT: "floats",
    LIST: "lists of floats",
    BOOL: "booleans",
}

#: What columns have, and what they are usually called, in lower case.
USUAL_NAMES = {
    "source": ("src", "source", "from", "head", "src_id", "source_id"),
    "target": ("dst", "target", "to", "tail", "dst_id", "target_id"),
    "weight": ("weight", "weights", "edge_weight"),
    "id": ("id", "ids", "node", "nodes", "node_id", "nodeid", "nid"),
    "label": ("label", "labels", "class"),
    "split": ("split",),
}


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes
    ----------
    file : str
        The file that they are in.
    row : int
        The number of the first one in that file, counted from 1; the header
        of a text file is row 1.
    columns : list
        The values of each column that was asked for.
    num_rows : int
        How many rows there are.
    read : int
        Bytes of the file that were read for them.
    """

    file: str
    row: int
    columns: list[Values]
    num_rows: int
    read: int = 0

    def where(self, place: int) -> str:
        """Say where a row of the batch is, for a message."""
        return f"{self.file}, row {self.row + place}"

    def after(self, count: int) -> "Batch":
        """The batch without its first rows."""
        columns = [column[count:] for column in self.columns]
        rest = self.num_rows - count
        return Batch(self.file, self.row + count, columns, rest, self.read)


@dataclass
class Table:
    """Columns in one or more files.

    Attributes
    ----------
    what : str
        Names it in messages.
    files : list of Path
        The files, in the order in which they are read.
    kinds : dict
        The kind of each column, by its name.
    num_rows : int or None
        None where only reading tells.
    options : dict
        How the files are read, where that is not in the files.
    skipped : list of str
        Columns that cannot be read, such as dates.
    """

    what: str
    files: list[Path]
    kinds: dict[str, str]
    num_rows: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.kinds)

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(os.stat(path).st_size for path in self.files)

    def made_from(self) -> dict[str, Any]:
        """What stands for the content, without reading it."""
        stamps = [file_stamp(path) for path in self.files]
        return {"files": stamps, **self.options}

    def reader_bytes(self, names: Sequence[str]) -> int:
        """Memory that reading these columns takes, at most."""
        raise NotImplementedError

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        """Read some columns.

        Parameters
        ----------
        names : sequence of str
            The columns.
        kinds : sequence of str
            As what to read them. A text file can be read as another kind
            than its first block suggests.
        begin : int, optional
            The first row to read, counted over all files.
        missing : collection of str, optional
            The columns whose values may be missing: they are -1, an empty
            text or nan then. In others that is an error.
        """
        raise NotImplementedError


def take_column(table: Table, name: str, what: str) -> str:
    """Check that a table has a column that was asked for by name."""
    if name in table.kinds:
        return name
    raise DGLError(
        f"{what}: {table.what} has no column {name!r}; it has "
        f"{', '.join(map(repr, table.names))}."
    )


def missing_value(batch_where: str, name: str) -> DGLError:
    """The error for a value that is missing."""
    return DGLError(
        f"{batch_where}: column {name!r} has no value there: fill it in, or "
        f"remove the row."
    )


def find_files(source: str | os.PathLike, argument: str) -> list[Path]:
    """The files that a path names: a file, or those of a folder by name.

    Names that begin with a dot or an underscore are not data, by the custom
    of the programs that write such folders.
    """
    path = Path(source)
    if path.is_file():
        return [path]
    if not path.exists():
        raise DGLError(f"{argument}: {path} does not exist.")
    if not path.is_dir():
        raise DGLError(f"{argument}: {path} is not a regular file or folder.")
    found = [
        entry
        for entry in sorted(path.iterdir())
        if not entry.name.startswith((".", "_"))
    ]
    kinds = {file_format(entry) for entry in found if entry.is_file()}
    if not found or len(kinds) != 1 or not all(e.is_file() for e in found):
        raise DGLError(
            f"{argument}: the folder {path} should hold files of one format, "
            f"such as parquet, and nothing else."
        )
    return found


#: Formats by the end of a file's name.
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
}
PACKED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def file_format(path: Path) -> str | None:
    """parquet, npy, npz or csv, by the end of the name; None for others."""
    name = path.name.lower()
    for end in PACKED:
        inner = name.removesuffix(end)
        if inner != name:
            found = _FORMATS.get(Path(inner).suffix)
            return found if found == "csv" else None
    return _FORMATS.get(Path(name).suffix)


def unknown_format(path: Path, argument: str) -> DGLError:
    return DGLError(
        f"{argument}: {path} is of no known format, by its name. Known are "
        f".csv, .tsv and .txt (also .gz and .zst), .parquet, .npy and .npz."
    )


def check_encoding(path: Path, begin: bytes) -> None:
    """Refuse a text file whose first bytes say that it is utf-16."""
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DGLError(
            f"{path} is encoded in utf-16: convert it to utf-8, such as with "
            f"iconv -f utf-16 -t utf-8."
        )


def import_arrow(path: Path) -> Any:
    """Import pyarrow, or say how to install it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise DGLError(
            f"{path} can only be read with pyarrow: install it with "
            f'pip install "dgl-lc[tables]".'
        ) from None
    return pyarrow
