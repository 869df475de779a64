"""Columns of Arrow, as NumPy arrays and texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from dgl import DGLError

from .table_files import (
    BOOL,
    FLOAT,
    INT,
    KIND_WORDS,
    LIST,
    TEXT,
    Batch,
    Values,
    missing_value,
)
from .texts import Texts


def kind_of(arrow: Any, kind: Any) -> str | None:
    """The kind of a column, by its type in Arrow; None for others."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return BOOL
    if types.is_integer(kind):
        return INT
    if types.is_floating(kind):
        return FLOAT
    if types.is_string(kind) or types.is_large_string(kind):
        return TEXT
    is_list = (
        types.is_fixed_size_list(kind)
        or types.is_list(kind)
        or types.is_large_list(kind)
    )
    if is_list and (
        types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
    ):
        return LIST
    return None


def to_values(
    arrow: Any,
    column: Any,
    name: str,
    kind: str,
    batch: Batch,
    missing: bool,
) -> Values:
    """Give a column of a batch as NumPy holds it.

    Parameters
    ----------
    arrow : module
        pyarrow.
    column : pyarrow.Array
        The values.
    name, kind : str
        The column's name, and the kind that is wanted.
    batch : Batch
        Says where the rows are.
    missing : bool
        Whether values may be missing.
    """
    found = kind_of(arrow, column.type)
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if found == BOOL and kind == FLOAT:
        column, found = column.cast("int8"), INT
    if found != kind and {found, kind} != {INT, FLOAT}:
        raise DGLError(
            f"{batch.file}: column {name!r} holds {column.type}, but "
            f"{KIND_WORDS[kind]} are needed."
        )
    if column.null_count and not missing:
        place = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise missing_value(batch.where(place), name)
    if kind == TEXT:
        return _texts(arrow, column)
    if kind == LIST:
        return _rows(column, name, batch)
    if kind == INT and found == FLOAT:
        raise DGLError(
            f"{batch.file}: column {name!r} holds {column.type}, but integers "
            f"are needed."
        )
    if column.null_count:
        column = column.fill_null(
            arrow.scalar(float("nan") if kind == FLOAT else -1, column.type)
        )
    values = column.to_numpy(zero_copy_only=False)
    if kind != INT:
        return values
    if values.dtype == np.uint64 and len(values):
        large = values >= 2**63
        if large.any():
            place = int(np.argmax(large))
            raise DGLError(
                f"{batch.where(place)}: column {name!r} holds "
                f"{values[place]}, which is too large for a signed integer "
                f"of 64 bits."
            )
    return values.astype(np.int64, copy=False)


def _texts(arrow: Any, column: Any) -> Texts:
    if column.null_count:
        column = column.fill_null("")
    if arrow.types.is_large_string(column.type):
        kind: Any = np.int64
    else:
        kind = np.int32
    _, places, data = column.buffers()
    if len(column) == 0:
        return Texts(np.empty(0, np.uint8), np.zeros(1, np.int64))
    begins = np.frombuffer(places, kind)
    begins = begins[column.offset : column.offset + len(column) + 1]
    letters = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return Texts(letters, begins.astype(np.int64))


def _rows(column: Any, name: str, batch: Batch) -> np.ndarray:
    """A list in each row, all of one length."""
    flat = column.flatten()
    if flat.null_count:
        width = len(flat) // max(len(column), 1)
        nulls = flat.is_null().to_numpy(zero_copy_only=False)
        place = int(np.argmax(nulls)) // max(width, 1)
        raise missing_value(batch.where(place), name)
    values = flat.to_numpy(zero_copy_only=False)
    if not len(column):
        return values.reshape(0, 0)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        place = int(np.argmax(lengths != lengths[0]))
        raise DGLError(
            f"{batch.where(place)}: column {name!r} has a list of "
            f"{lengths[place]} values, but the first row of the batch has "
            f"{lengths[0]}: all rows need as many."
        )
    return values.reshape(len(column), -1)


def texts_of(arrow: Any, columns: Sequence[Any]) -> list[Texts]:
    """Columns of strings as texts."""
    return [_texts(arrow, column) for column in columns]
