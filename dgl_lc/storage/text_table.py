"""Tables in text files: csv and tsv, plain or packed, read block by block."""

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .arrow_columns import texts_of
from .npy_header import UNREADABLE, open_file, unreadable
from .table_files import (
    BOOL,
    FLOAT,
    INT,
    KIND_WORDS,
    PACKED,
    TEXT,
    USUAL_NAMES,
    Batch,
    Table,
    Values,
    check_encoding,
    import_arrow,
    missing_value,
)
from .texts import Texts, parse_integers

#: Bytes that are parsed at a time; no row may be longer.
_BLOCK = 1 << 19
#: Blocks in memory: pyarrow reads up to 32 ahead of the one that is parsed,
#: and a block is there raw, parsed and as columns.
_BLOCK_COPIES = 44
_FIXED_BYTES = 8 << 20
#: What stands for a number that is missing.
_NO_NUMBER = ["", "nan", "NaN", "NAN", "null", "NULL", "NA", "N/A"]
#: What pyarrow reads as booleans, beside 0 and 1.
_BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
#: Rows that are looked at to guess the kind of a column.
_SAMPLE = 1000
_DELIMITERS = (",", "\t", ";")


class TextTable(Table):
    """Columns of csv or tsv files.

    Parameters
    ----------
    files : list of Path
        The files, in the order in which they are read.
    what : str
        Names them in messages.
    header : bool, optional
        Whether the first row of each file has the names of the columns.
        Default: as the first rows suggest. Columns without names are called
        "0", "1" and so on.
    delimiter : str, optional
        What separates values. Default: a tab if the name says tsv, otherwise
        a comma, tab or semicolon, whichever the first row has.
    asked : collection of str, optional
        Names of columns; a first row that has one of them is a header.
    """

    def __init__(
        self,
        files: list[Path],
        what: str,
        header: bool | None = None,
        delimiter: str | None = None,
        asked: Collection[str] = (),
    ):
        self._asked = asked
        self._arrow = import_arrow(files[0])
        for path in files:
            names, rows, header = self._first_rows(path, header, delimiter)
            # A file that has nothing but a header does not tell the kinds.
            if len(rows[0]):
                num_rows = None
                break
        else:
            num_rows = 0
        kinds = {
            name: _guess_kind(column)
            for name, column in zip(names, rows, strict=True)
        }
        self.header = bool(header)
        options = {"header": self.header, "delimiter": self._delimiter}
        super().__init__(what, files, kinds, num_rows, options)

    def _first_rows(
        self, path: Path, header: bool | None, delimiter: str | None
    ) -> tuple[list[str], list[Texts], bool]:
        """The names of the columns, the first rows, whether names are given."""
        begin = self._first_block(path)
        if not begin.strip():
            raise DGLError(f"{path} is empty.")
        self._delimiter = delimiter or _find_delimiter(path, begin)
        rows = self._parse_first(path, begin)
        if header is None:
            header = _looks_like_header(rows, self._asked)
        names = [str(place) for place in range(len(rows))]
        if header:
            names = [column[:1].to_list()[0] for column in rows]
            rows = [column[1:] for column in rows]
        for name in names:
            if names.count(name) > 1:
                raise DGLError(
                    f"{path} has two columns {name!r}: rename one, or pass "
                    f"header=False if the first row is not a header."
                )
        return names, rows, header

    def _first_block(self, path: Path) -> bytes:
        with self._open(path) as (_, stream):
            try:
                found = stream.read(_BLOCK)
            except (*UNREADABLE, self._arrow.ArrowException) as error:
                raise unreadable(str(path), error) from None
        check_encoding(path, found)
        if len(found) == _BLOCK:
            # The last row may not be whole.
            cut = found.rfind(b"\n")
            if cut < 0:
                raise _too_long(path)
            found = found[: cut + 1]
        return found

    @contextmanager
    def _open(self, path: Path) -> Iterator[tuple[Any, Any]]:
        """The file, and the stream of its text."""
        # Only regular files: reading from a pipe could wait for ever.
        open_file(path).close()
        packed = PACKED.get(path.suffix.lower())
        with self._arrow.OSFile(str(path), "rb") as file:
            if packed is None:
                yield file, file
            else:
                with self._arrow.CompressedInputStream(file, packed) as stream:
                    yield file, stream

    def _parse_options(self) -> Any:
        return self._arrow.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True
        )

    def _parse_first(self, path: Path, begin: bytes) -> list[Texts]:
        """All columns of the first block, as texts."""
        reading = self._arrow.csv
        count = _count_columns(begin, self._delimiter)
        names = [str(place) for place in range(count)]
        text = self._arrow.string()
        try:
            table = reading.read_csv(
                self._arrow.BufferReader(begin),
                read_options=reading.ReadOptions(
                    column_names=names, use_threads=False,
                    block_size=len(begin) + 1,
                ),
                parse_options=self._parse_options(),
                convert_options=reading.ConvertOptions(
                    column_types=dict.fromkeys(names, text),
                    strings_can_be_null=False,
                ),
            )  # fmt: skip
        except (*UNREADABLE, self._arrow.ArrowException) as error:
            raise unreadable(str(path), error) from None
        columns = [c.combine_chunks() for c in table.columns]
        columns = [
            c.chunk(0) if hasattr(c, "num_chunks") else c for c in columns
        ]
        return texts_of(self._arrow, columns)

    def reader_bytes(self, names: Sequence[str]) -> int:
        return _FIXED_BYTES + _BLOCK_COPIES * _BLOCK

    def batches(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        *,
        begin: int = 0,
        missing: Collection[str] = (),
    ) -> Iterator[Batch]:
        for path in self.files:
            row = 0
            for batch in self._file_batches(path, names, kinds, missing):
                row += batch.num_rows
                skip = min(begin, batch.num_rows)
                begin -= skip
                if skip < batch.num_rows:
                    yield batch.after(skip) if skip else batch

    def _file_batches(
        self,
        path: Path,
        names: Sequence[str],
        kinds: Sequence[str],
        missing: Collection[str],
    ) -> Iterator[Batch]:
        arrow, reading = self._arrow, self._arrow.csv
        types = {
            name: self._arrow_type(name, kind)
            for name, kind in zip(names, kinds, strict=True)
        }
        row, seen = 1 + self.header, 0
        with self._open(path) as (file, stream):
            try:
                reader = reading.open_csv(
                    stream,
                    read_options=reading.ReadOptions(
                        use_threads=False, block_size=_BLOCK,
                        column_names=None if self.header else self.names,
                    ),
                    parse_options=self._parse_options(),
                    convert_options=reading.ConvertOptions(
                        column_types=types, strings_can_be_null=False,
                        null_values=_NO_NUMBER,
                        include_columns=list(names),
                    ),
                )  # fmt: skip
                while (part := _next(reader)) is not None:
                    place = Batch(str(path), row, [], part.num_rows)
                    columns = [
                        self._values(column, name, kind, place, name in missing)
                        for column, name, kind in zip(
                            part.columns, names, kinds, strict=True
                        )
                    ]
                    now = file.tell()
                    yield Batch(
                        str(path), row, columns, part.num_rows, now - seen
                    )
                    row += part.num_rows
                    seen = now
            except (*UNREADABLE, arrow.ArrowException) as error:
                if "straddl" in str(error):
                    raise _too_long(path) from None
                raise unreadable(str(path), error) from None

    def _arrow_type(self, name: str, kind: str) -> Any:
        """The type as which pyarrow reads a column that is wanted as a kind."""
        if kind == FLOAT and self.kinds[name] != BOOL:
            return self._arrow.float64()
        if kind in (FLOAT, BOOL):
            return self._arrow.bool_()
        return self._arrow.string()

    def _values(
        self, column: Any, name: str, kind: str, place: Batch, missing: bool
    ) -> Values:
        if kind in (FLOAT, BOOL):
            if column.null_count and not missing:
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                raise missing_value(place.where(int(np.argmax(nulls))), name)
            if kind == FLOAT and self.kinds[name] == BOOL:
                column = column.cast("int8")
            return column.to_numpy(zero_copy_only=False)
        texts = texts_of(self._arrow, [column])[0]
        empty = texts.begins[1:] == texts.begins[:-1]
        if not missing and empty.any():
            raise missing_value(place.where(int(np.argmax(empty))), name)
        if kind == TEXT:
            return texts
        if kind != INT:
            raise DGLError(
                f"{self.what}: column {name!r} is that of a text file, but "
                f"{KIND_WORDS[kind]} are needed."
            )
        values, wrong = parse_integers(texts)
        if wrong >= 0:
            raise DGLError(
                f"{place.where(wrong)}: column {name!r} holds "
                f"{texts.take(np.array([wrong]))[0]!r}, which is not an "
                f"integer of 64 bits: if the ids are texts, pass "
                f'id_type="text".'
            )
        return values


def _next(reader: Any) -> Any:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _too_long(path: Path) -> DGLError:
    return DGLError(
        f"{path} has a row of more than {_BLOCK} bytes: a quotation mark may "
        f"have no end, or this is not a text file."
    )


def _find_delimiter(path: Path, begin: bytes) -> str:
    if ".tsv" in path.suffixes:
        return "\t"
    line = begin.split(b"\n", 1)[0]
    return next((d for d in _DELIMITERS if d.encode() in line), ",")


def _count_columns(begin: bytes, delimiter: str) -> int:
    """How many columns the first row has that is not empty."""
    text = io.StringIO(begin.decode(errors="replace"), newline="")
    for row in csv.reader(text, delimiter=delimiter):
        if row:
            return len(row)
    return 1


def _guess_kind(column: Texts) -> str:
    """The kind of a column, by its first rows.

    A few texts among numbers do not make a column of texts: they are refused
    when they are read, with their row.
    """
    values, wrong = parse_integers(column)
    if len(values) and wrong < 0:
        return INT
    filled = [text for text in column[:_SAMPLE].to_list() if text]
    if filled and all(text in _BOOLEANS for text in filled):
        return BOOL
    numbers = [text for text in filled if _is_number(text)]
    # 007 is a number for Python, but as an id it is not 7.
    padded = any(re.match("[-+]?0[0-9]", text) for text in numbers)
    return FLOAT if 2 * len(numbers) > len(filled) and not padded else TEXT


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in _NO_NUMBER
    return "_" not in text


def _looks_like_header(rows: list[Texts], asked: Collection[str]) -> bool:
    """Whether the first row names the columns.

    It does if one of the names was asked for or is usual for graphs, or if a
    column of numbers begins with something else.
    """
    first = [column[:1].to_list()[0] for column in rows]
    if any(name == "" or _is_number(name) for name in first):
        return False
    usual = {name for names in USUAL_NAMES.values() for name in names}
    if any(name.lower() in usual or name in asked for name in first):
        return True
    seconds = [column[1:2].to_list() for column in rows]
    return any(texts and _is_number(texts[0]) for texts in seconds)
