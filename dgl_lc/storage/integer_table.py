"""Tables of integers in csv files, read without pyarrow."""

import gzip
import io
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from dgl import DGLError

from .csv_file import CSV_BYTES, read_tables
from .npy_header import UNREADABLE, open_file, unreadable
from .table_files import INT, PACKED, Batch, Table, check_encoding, import_arrow


class IntegerTable(Table):
    """Columns of csv files, all of them integers.

    Anything else needs pyarrow, which is an extra.

    Parameters
    ----------
    files : list of Path
        The files, in the order in which they are read; csv or csv.gz.
    what : str
        Names them in messages.
    header : bool, optional
        Whether the first row of each file has the names of the columns.
        Default: if it holds anything but integers.
    """

    def __init__(
        self, files: list[Path], what: str, header: bool | None = None
    ):
        first, second = _first_rows(files[0])
        self.header = not _are_integers(first) if header is None else header
        begin = second if self.header else first
        if begin and not _are_integers(begin):
            import_arrow(files[0])
        names = [str(place) for place in range(len(first))]
        if self.header:
            names = first
        kinds = dict.fromkeys(names, INT)
        if len(kinds) < len(first):
            raise DGLError(f"{files[0]} has two columns of one name.")
        # As another reader of the same file would describe it.
        options = {"header": self.header, "delimiter": ","}
        super().__init__(what, files, kinds, None, options)

    def reader_bytes(self, names: Sequence[str]) -> int:
        return CSV_BYTES * max(len(self.kinds), 2) // 2

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        if any(kind != INT for kind in kinds):
            import_arrow(self.files[0])
        places = [self.names.index(name) for name in names]
        for path in self.files:
            row = 1 + self.header
            for table in read_tables(path, "int64", header=self.header):
                if table.shape[1] != len(self.kinds):
                    raise DGLError(
                        f"{path} has {table.shape[1]} columns, but should have "
                        f"{len(self.kinds)}."
                    )
                columns = [table[:, place] for place in places]
                batch = Batch(str(path), row, list(columns), len(table))
                row += len(table)
                skip = min(begin, len(table))
                begin -= skip
                if skip < len(table):
                    yield batch.after(skip)


def _first_rows(path: Path) -> tuple[list[str], list[str]]:
    try:
        with open_file(path) as raw:
            buffered = io.BufferedReader(raw)  # type: ignore[type-var]
            packed = PACKED.get(path.suffix.lower())
            if packed not in (None, "gzip") or ".tsv" in path.suffixes:
                import_arrow(path)
            file = gzip.GzipFile(fileobj=buffered) if packed else buffered
            lines = [file.readline(1 << 16) for _ in range(2)]
    except UNREADABLE as error:
        raise unreadable(str(path), error) from None
    check_encoding(path, lines[0])
    rows = [
        line.decode("utf-8-sig", "replace").strip().split(",")
        if line.strip()
        else []
        for line in lines
    ]
    if not rows[0]:
        raise DGLError(f"{path} is empty.")
    return rows[0], rows[1]


def _are_integers(values: list[str]) -> bool:
    return all(value.removeprefix("-").isdecimal() for value in values)
