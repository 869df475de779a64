"""Tables in parquet files, read in batches of rows."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .arrow_columns import kind_of, to_values
from .npy_header import UNREADABLE, open_file, unreadable
from .table_files import LIST, Batch, Table, import_arrow

#: Values that are read at a time, and rows at most.
_VALUES = 1 << 18
_MOST_ROWS = 1 << 17
#: Bytes that a column's reader takes, beside its values: a page of the file,
#: packed and unpacked, and a page of repeated values.
_COLUMN_BYTES = 3 << 20
#: A file with many groups of rows has a long footer, which is held in memory,
#: unpacked, by more than one object.
_FOOTER_COPIES = 16
#: What is allocated once, whatever is read.
_FIXED_BYTES = 8 << 20


class ParquetTable(Table):
    """Columns of parquet files with one schema.

    Parameters
    ----------
    files : list of Path
        The files, in the order in which they are read.
    what : str
        Names them in messages.
    """

    def __init__(self, files: list[Path], what: str):
        self._arrow = import_arrow(files[0])
        kinds: dict[str, str] = {}
        rows = 0
        self._footer_bytes = 0
        self._widths: dict[str, int] = {}
        self._types: dict[str, Any] = {}
        for path in files:
            with self._open(path) as file:
                schema = file.schema_arrow
                found = self._kinds(schema)
                count = file.metadata.num_rows
                if not rows:
                    # The first file that has rows, or the last one.
                    kinds = found
                    self._types = {f.name: f.type for f in schema}
                elif found != kinds and count:
                    name = next(
                        name
                        for name in {**kinds, **found}
                        if kinds.get(name) != found.get(name)
                    )
                    raise DGLError(
                        f"{path}: column {name!r} is {found.get(name)}, but "
                        f"{files[0]} has {kinds.get(name)}: all files need "
                        f"the same columns."
                    )
                rows += count
                footer = _FOOTER_COPIES * file.metadata.serialized_size
                self._footer_bytes = max(self._footer_bytes, footer)
        skipped = [name for name in self._types if name not in kinds]
        super().__init__(what, files, kinds, rows, skipped=skipped)

    def _kinds(self, schema: Any) -> dict[str, str]:
        """The kind of each column that can be read."""
        kinds: dict[str, str] = {}
        for column in schema:
            kind = kind_of(self._arrow, column.type)
            if kind is None:
                continue
            if column.name in kinds:
                raise DGLError(
                    f"a parquet file has two columns {column.name!r}: rename "
                    f"one."
                )
            kinds[column.name] = kind
        return kinds

    def numpy_type(self, name: str) -> np.dtype:
        """The type of a column's numbers, or of those in its lists."""
        kind = self._types[name]
        if self.kinds[name] == LIST:
            kind = kind.value_type
        return np.dtype(kind.to_pandas_dtype())

    def _open(self, path: Path) -> Any:
        # Only regular files: reading from a pipe could wait for ever.
        open_file(path).close()
        try:
            return self._arrow.parquet.ParquetFile(
                str(path), buffer_size=1 << 16, pre_buffer=False
            )
        except (*UNREADABLE, self._arrow.ArrowException) as error:
            raise unreadable(str(path), error) from None

    def list_width(self, name: str) -> int:
        """How many values a list has in each row."""
        if name not in self._widths:
            kind = self._types[name]
            if self._arrow.types.is_fixed_size_list(kind):
                self._widths[name] = kind.list_size
            else:
                self._widths[name] = self._first_list(name)
        return self._widths[name]

    def _first_list(self, name: str) -> int:
        for path in self.files:
            with self._open(path) as file:
                for part in file.iter_batches(1, columns=[name]):
                    return len(part.column(0)[0] or ())
        return 0

    def _width(self, names: Sequence[str]) -> int:
        """How many values a row of these columns has."""
        return sum(
            self.list_width(name) if self.kinds[name] == LIST else 1
            for name in names
        )

    def reader_bytes(self, names: Sequence[str]) -> int:
        width = self._width(names)
        # A batch is decoded, flattened and cast.
        values = 3 * 16 * self._batch_rows(width) * width
        columns = len(names) * _COLUMN_BYTES
        return _FIXED_BYTES + columns + values + self._footer_bytes

    def _batch_rows(self, width: int) -> int:
        return max(min(_VALUES // max(width, 1), _MOST_ROWS), 1)

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        width = self._width(names)
        for path in self.files:
            with self._open(path) as file:
                rows = file.metadata.num_rows
                if begin < rows:
                    yield from self._file_batches(
                        path, file, list(names), kinds, begin, missing, width
                    )
                begin = max(begin - rows, 0)

    def _file_batches(
        self,
        path: Path,
        file: Any,
        names: list[str],
        kinds: Sequence[str],
        begin: int,
        missing: Collection[str],
        width: int,
    ) -> Iterator[Batch]:
        about = file.metadata
        groups: list[int] = []
        row = 0
        for group in range(about.num_row_groups):
            count = about.row_group(group).num_rows
            if begin >= row + count and not groups:
                row += count
            else:
                groups.append(group)
        size = path.stat().st_size
        parts = file.iter_batches(
            self._batch_rows(width),
            row_groups=groups,
            columns=names,
            use_threads=False,
        )
        try:
            while (part := next(parts, None)) is not None:
                skip = min(max(begin - row, 0), part.num_rows)
                part = part.slice(skip)
                row += skip
                place = Batch(str(path), row + 1, [], part.num_rows)
                columns = [
                    to_values(
                        self._arrow, part.column(name), name, kind, place,
                        name in missing,
                    )
                    for name, kind in zip(names, kinds, strict=True)
                ]  # fmt: skip
                row += part.num_rows
                read = size * part.num_rows // max(about.num_rows, 1)
                if part.num_rows:
                    yield Batch(
                        str(path), place.row, columns, part.num_rows, read
                    )
        except (*UNREADABLE, self._arrow.ArrowException) as error:
            raise unreadable(str(path), error) from None
