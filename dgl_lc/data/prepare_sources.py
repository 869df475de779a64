"""Opening what a task is prepared from: files of any format, and arrays.

A source is a path, or an array in memory. Everything becomes a table here, or
a stream of rows, so that the rest of the work knows no formats.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from dgl import DGLError

from ..storage.array_stream import ArrayStream
from ..storage.array_table import (
    ArrayTable,
    MemoryArray,
    array_edges,
    npz_member,
    open_array,
)
from ..storage.integer_table import IntegerTable
from ..storage.npz_stream import Member, member_names
from ..storage.parquet_table import ParquetTable
from ..storage.table_files import (
    BOOL,
    FLOAT,
    INT,
    LIST,
    TEXT,
    USUAL_NAMES,
    Table,
    file_format,
    find_files,
    take_column,
    unknown_format,
)
from ..storage.text_table import TextTable
from .classes import fill_missing

#: Kinds of columns that can be features; true and false are 1 and 0.
_NUMBERS = {INT, FLOAT, BOOL}
#: A path, or an array, memory map or tensor.
Source: TypeAlias = Any

ROLES = (*USUAL_NAMES, "features")
_EDGE_ARRAYS = ("edge_index", "edges")
_WEIGHT_ARRAYS = ("edge_weight", "weight", "weights")
_FEATURE_ARRAYS = ("feat", "features", "x", "node_feat")
_ID_ARRAYS = ("ids", "id", "node_ids")
_LABEL_ARRAYS = ("labels", "label", "y", "node_label")


@dataclass(frozen=True)
class Column:
    """A column of a table, and the column of the ids that it belongs to.

    ``id`` is None if the rows are those of the nodes, in their order.
    """

    table: Table
    name: str
    id: str | None = None

    @property
    def kind(self) -> str:
        return self.table.kinds[self.name]

    def made_from(self) -> dict[str, Any]:
        columns = {"column": self.name, "id": self.id}
        return self.table.made_from() | columns


@dataclass(frozen=True)
class Edges:
    """A table of edges, and which of its columns are what."""

    table: Table
    source: str
    target: str
    weight: str | None

    def made_from(self) -> dict[str, Any]:
        columns = [self.source, self.target, self.weight]
        return self.table.made_from() | {"columns": columns}


@dataclass(frozen=True)
class Nodes:
    """Features of nodes, and their ids.

    Attributes
    ----------
    stream : ArrayStream or None
        The rows, if they come from an array.
    table : Table or None
        The table of the features, if they come from one.
    features : list of str
        Its columns that are features.
    ids : Column or None
        The ids; None if they are the numbers of the rows.
    id_kind : str
        "int" or "text".
    labels, split : Column or None
        Columns beside the ids.
    """

    stream: ArrayStream | None
    table: Table | None
    features: list[str]
    ids: Column | None
    id_kind: str
    labels: Column | None
    split: Column | None

    @property
    def num_rows(self) -> int | None:
        """How many rows of features there are; None if only reading tells."""
        if self.stream is not None:
            return self.stream.shape[0]
        return self.table.num_rows if self.table is not None else None


@dataclass(frozen=True)
class Reading:
    """How tables are read.

    Attributes
    ----------
    columns : mapping
        Names of columns by their roles.
    header : bool or None
        Whether text files have a header; None to find out.
    delimiter : str or None
        What separates values in text files; None to find out.
    id_type : str or None
        "int" or "text"; None to find out.
    """

    columns: Mapping[str, Any]
    header: bool | None = None
    delimiter: str | None = None
    id_type: str | None = None

    def table(
        self, source: Source, argument: str, arrays: Sequence[str] = ()
    ) -> Table:
        """Open a table of any format.

        Parameters
        ----------
        source : path or array
            What to open.
        argument : str
            Names it in messages.
        arrays : sequence of str
            What the array is called in an npz file.
        """
        if not isinstance(source, (str, os.PathLike)):
            return ArrayTable(MemoryArray(source, argument))
        files = find_files(source, argument)
        form, what = file_format(files[0]), str(source)
        if form == "parquet":
            return ParquetTable(files, what)
        if form == "csv":
            return self._text_table(files, what)
        if form is None or len(files) > 1:
            raise unknown_format(files[0], argument)
        return ArrayTable(open_array(files[0], arrays))

    def _text_table(self, files: list[Path], what: str) -> Table:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            if self.delimiter not in (None, ","):
                raise DGLError(
                    f"{what} can only be read with pyarrow: install it with "
                    f'pip install "dgl-lc[tables]".'
                ) from None
            return IntegerTable(files, what, self.header)
        return TextTable(
            files, what, self.header, self.delimiter, self._asked()
        )

    def _asked(self) -> set[str]:
        """All names of columns that were asked for."""
        found: set[str] = set()
        for asked in self.columns.values():
            found |= {asked} if isinstance(asked, str) else set(asked)
        return found

    def find(
        self, table: Table, role: str, *, strict: bool = True
    ) -> str | None:
        """The column of a role: as asked for, or with a usual name.

        If this is not ``strict``, a column that was asked for may be that of
        another table.
        """
        asked = self.columns.get(role)
        if asked == "":
            return None
        if asked is not None and (strict or asked in table.kinds):
            return take_column(table, str(asked), f"columns[{role!r}]")
        for name in table.names:
            if name.lower() in USUAL_NAMES[role]:
                return name
        return None

    def id_kind(self, table: Table, name: str) -> str:
        """Whether ids are integers or texts."""
        kind = table.kinds[name]
        if isinstance(table, TextTable):
            return self.id_type or (INT if kind == INT else TEXT)
        if kind not in (INT, TEXT):
            raise DGLError(
                f"{table.what}: the ids, column {name!r}, are {kind}, but "
                f"should be integers or texts."
            )
        if self.id_type not in (None, kind):
            raise DGLError(
                f"{table.what}: the ids, column {name!r}, are {kind}, but "
                f"id_type={self.id_type!r}: convert them, or omit id_type."
            )
        return kind


def check_columns(columns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Refuse roles that do not exist."""
    found = dict(columns or {})
    for role in found:
        if role not in ROLES:
            raise DGLError(
                f"columns has {role!r}; known are {', '.join(ROLES)}."
            )
    features = found.get("features")
    if isinstance(features, str):
        features = [name for name in features.split(",") if name]
        found["features"] = features
    names = list(features or ())
    for name in names:
        if names.count(name) > 1:
            raise DGLError(f"columns['features'] names {name!r} twice.")
    return found


def open_edges(edges: Source, reading: Reading) -> Edges:
    """Open a table or an array of edges."""
    table = _edge_arrays(edges, reading)
    if table is None:
        table = reading.table(edges, "edges")
    names = table.names
    if len(names) < 2:
        raise DGLError(
            f"{table.what} should have two columns, source and target, got "
            f"{len(names)}."
        )
    source = reading.find(table, "source")
    target = reading.find(table, "target")
    if source is None or target is None:
        rest = [name for name in names if name not in (source, target)]
        source = source or rest.pop(0)
        target = target or rest.pop(0)
    if source == target:
        raise DGLError(f"{table.what}: {source!r} is source and target.")
    weight = reading.find(table, "weight")
    if weight is not None and table.kinds[weight] not in (INT, FLOAT):
        raise DGLError(
            f"{table.what}: the weights, column {weight!r}, should be numbers."
        )
    return Edges(table, source, target, weight)


def _edge_arrays(edges: Source, reading: Reading) -> Table | None:
    """Edges of an array (2, m) or (m, 2); None if this is no array."""
    if not isinstance(edges, (str, os.PathLike)):
        return array_edges(MemoryArray(edges, "edges"), None)
    path = Path(edges)
    form = file_format(path) if path.is_file() else None
    if form == "npy":
        return array_edges(open_array(path, ()), None)
    if form != "npz":
        return None
    weight = reading.columns.get("weight")
    names = member_names(path)
    usual = [n for n in _WEIGHT_ARRAYS if n in names]
    if weight is None and usual:
        weight = usual[0]
    stream = open_array(path, _EDGE_ARRAYS)
    return array_edges(stream, Member(path, weight) if weight else None)


def open_nodes(
    features: Source,
    nodes: Source,
    reading: Reading,
    *,
    has_labels: bool,
    has_split: bool,
) -> Nodes:
    """Open the features, and where the ids of their rows are.

    Parameters
    ----------
    features, nodes : path or array
        As in :func:`~dgl_lc.data.prepare`.
    reading : Reading
        How tables are read.
    has_labels, has_split : bool
        Whether labels and split come from elsewhere.
    """
    stream, table = _open_features(features, reading)
    if table is not None and table.num_rows == 0:
        raise DGLError(
            f"features: {table.what} has no rows: give one for each node."
        )
    ids = _ids_beside(features, table, stream, reading)
    beside = table
    if table is not None and ids is None and nodes is None:
        _check_no_ids(table, reading)
    if nodes is not None:
        if ids is not None:
            raise DGLError(
                f"nodes: {ids.table.what} has the ids of its rows, as "
                f"{ids.name!r}, so that the order of the nodes is given twice: "
                f"omit nodes, or pass columns={{'id': ''}} if that column is "
                f"not the ids."
            )
        beside = reading.table(nodes, "nodes", _ID_ARRAYS)
        name = reading.find(beside, "id") or beside.names[0]
        ids = Column(beside, name)
    label = split = None
    if beside is not None and not isinstance(beside, ArrayTable):
        label = reading.find(beside, "label", strict=not has_labels)
        split = reading.find(beside, "split", strict=not has_split)
    id_name = ids.name if ids is not None and ids.table is table else None
    names = []
    if table is not None:
        names = _feature_columns(table, {id_name, label, split}, reading)
    return Nodes(
        stream,
        table,
        names,
        ids,
        INT if ids is None else reading.id_kind(ids.table, ids.name),
        None if label is None or beside is None else Column(beside, label),
        None if split is None or beside is None else Column(beside, split),
    )


def _open_features(
    features: Source, reading: Reading
) -> tuple[ArrayStream | None, Table | None]:
    if not isinstance(features, (str, os.PathLike)):
        return MemoryArray(features, "features"), None
    form = file_format(find_files(features, "features")[0])
    if form in ("npy", "npz"):
        wanted = reading.columns.get("features") or [None]
        stream = open_array(Path(features), _FEATURE_ARRAYS, wanted[0])
        return stream, None
    return None, reading.table(features, "features")


def _ids_beside(
    features: Source,
    table: Table | None,
    stream: ArrayStream | None,
    reading: Reading,
) -> Column | None:
    """The ids that come with the features."""
    if table is not None:
        name = reading.find(table, "id")
        if name is None and reading.columns.get("id") != "":
            first = table.names[0]
            unnamed = table.options.get("header") is False
            if table.kinds[first] == TEXT or (
                table.kinds[first] == INT
                and (unnamed or first.lower().endswith("id"))
            ):
                name = first
        return None if name is None else Column(table, name)
    if isinstance(stream, Member):
        names = member_names(stream.path)
        asked = reading.columns.get("id")
        if asked or any(name in names for name in _ID_ARRAYS):
            found = npz_member(stream.path, _ID_ARRAYS, asked or None)
            return Column(ArrayTable(Member(stream.path, found)), "0")
    return None


def _check_no_ids(table: Table, reading: Reading) -> None:
    """Refuse a table without ids, unless it was asked for.

    A column of ids with an unusual name would become a feature, and the edges
    would belong to other nodes.
    """
    if reading.columns.get("id") != "":
        raise DGLError(
            f"features: {table.what} has no column of ids with a usual name; "
            f"it has {', '.join(map(repr, table.names[:5]))}"
            f"{' …' if len(table.names) > 5 else ''}. Name the column of ids "
            f"with columns={{'id': 'NAME'}}, or pass columns={{'id': ''}} if "
            f"the ids are the numbers of the rows, from 0 on."
        )


def _feature_columns(
    table: Table, others: set[str | None], reading: Reading
) -> list[str]:
    asked = reading.columns.get("features")
    if asked:
        names = [take_column(table, name, "features") for name in asked]
    else:
        rest = [name for name in table.names if name not in others]
        names = [n for n in rest if table.kinds[n] in _NUMBERS]
        lists = [n for n in rest if table.kinds[n] == LIST]
        names = names or lists
        if names and lists and names != lists:
            raise DGLError(
                f"{table.what} has columns of numbers, such as {names[0]!r}, "
                f"and of lists, such as {lists[0]!r}: name the features with "
                f"columns={{'features': …}}."
            )
    kinds = {table.kinds[name] for name in names}
    good = kinds <= _NUMBERS or (kinds == {LIST} and len(names) == 1)
    if not names or not good:
        raise DGLError(
            f"{table.what} should have columns of numbers, or one column of "
            f"lists of numbers, as features; it has "
            f"{', '.join(f'{n} ({k})' for n, k in table.kinds.items())}."
        )
    return names


def open_values(
    source: Source, role: str, argument: str, reading: Reading
) -> Column:
    """Open labels or a split: ids and values, or values in the nodes' order."""
    if role == "label" and not isinstance(source, (str, os.PathLike)):
        source = fill_missing(source, argument)
    arrays = _LABEL_ARRAYS if role == "label" else ()
    table = reading.table(source, argument, arrays)
    if len(table.names) == 1:
        return Column(table, table.names[0])
    id_name = reading.find(table, "id", strict=False) or table.names[0]
    name = reading.find(table, role, strict=False)
    if name is None or name == id_name:
        name = next(n for n in table.names if n != id_name)
    return Column(table, name, id_name)
