"""Which columns a task is prepared from, in a line for each source."""

from collections.abc import Collection, Sequence

from ..storage.array_table import ArrayTable, EdgeTable
from ..storage.table_files import BOOL, FLOAT, INT, LIST, Table
from .prepare_sources import Column, Edges, Nodes
from .prepare_split import Split

#: Names of columns that a line has at most.
_MOST_NAMES = 8


def describe_sources(
    edges: Edges, nodes: Nodes, labels: Column | None, split: Split | None
) -> list[str]:
    """Say which columns are taken for what, and which are not used."""
    lines = [_edges(edges), _features(nodes, labels, split)]
    ids = nodes.ids
    if (
        ids is not None
        and ids.table is not nodes.table
        and not isinstance(ids.table, ArrayTable)
    ):
        used = _names_in(ids.table, ids, labels, split)
        lines.append(f"nodes: id {ids.name!r}{_rest(ids.table, used)}")
    if labels is not None:
        lines.append(f"labels: {_values(labels, 'label', nodes)}")
    if isinstance(split, tuple):
        lines.append(f"split: the fractions {', '.join(map(str, split))}")
    elif isinstance(split, Column):
        lines.append(f"split: {_values(split, 'split', nodes)}")
    elif split is not None:
        lines.append(f"split: {', '.join(split)}, each with its ids or a mask")
    return lines


def _edges(edges: Edges) -> str:
    table = edges.table
    if isinstance(table, EdgeTable):
        weights = "no weights" if table.weights is None else "with weights"
        count = _count(table.num_rows or 0, "edge")
        return f"edges: an array of {count}, {weights}"
    weight = (
        "no weights" if edges.weight is None else f"weight {edges.weight!r}"
    )
    used = [edges.source, edges.target, edges.weight]
    return (
        f"edges: source {edges.source!r}, target {edges.target!r}, {weight}"
        f"{_rest(table, used)}"
    )


def _features(nodes: Nodes, labels: Column | None, split: Split | None) -> str:
    ids, table = nodes.ids, nodes.table
    if ids is None:
        id_text = "ids are the numbers of the rows"
    elif ids.table is table:
        id_text = f"id {ids.name!r}"
    else:
        id_text = f"ids from {ids.table.what}"
    if table is None:
        assert nodes.stream is not None
        rows, columns = nodes.stream.shape
        size = f"{_count(rows, 'row')} and {_count(columns, 'column')}"
        return f"features: an array of {size}, {id_text}"
    names = nodes.features
    text = _count(len(names), "column")
    if table.kinds[names[0]] == LIST:
        text = f"the lists in {names[0]!r}"
    booleans = [name for name in names if table.kinds[name] == BOOL]
    if booleans:
        text += (
            f", of which {_some(booleans)} "
            f"{'has' if len(booleans) == 1 else 'have'} true and false as 1 "
            f"and 0"
        )
    used = names + _names_in(table, ids, labels, split)
    return f"features: {id_text}, {text}{_rest(table, used, numbers=True)}"


def _names_in(table: Table, *columns: Column | Split | None) -> list[str]:
    """The names of those columns that are in a table."""
    return [
        column.name
        for column in columns
        if isinstance(column, Column) and column.table is table
    ]


def _values(column: Column, role: str, nodes: Nodes) -> str:
    """Say where labels or the words of a split are."""
    if column.table is nodes.table:
        return f"column {column.name!r} of the features"
    if nodes.ids is not None and column.table is nodes.ids.table:
        return f"column {column.name!r} of the nodes"
    if column.id is None:
        return f"one for each node, in the order of the nodes{_header(column)}"
    rest = _rest(column.table, [column.id, column.name])
    return f"id {column.id!r}, {role} {column.name!r}{rest}"


def _rest(
    table: Table, used: Collection[str | None], *, numbers: bool = False
) -> str:
    """Say which columns are not used, and whether there is a header.

    Parameters
    ----------
    table : Table
        The table.
    used : collection of str or None
        Its columns that are used.
    numbers : bool
        Whether only columns of numbers could be used.
    """
    rest = [name for name in table.names if name not in used]
    others = list(table.skipped)
    if numbers:
        good = [n for n in rest if table.kinds[n] in (INT, FLOAT, BOOL, LIST)]
        others += [name for name in rest if name not in good]
        rest = good
    else:
        rest, others = rest + others, []
    text = f"; not used: {_some(rest)}" if rest else ""
    if others:
        text += f"; left out, as they are not numbers: {_some(others)}"
    return text + _header(table)


def _header(source: Table | Column) -> str:
    table = source.table if isinstance(source, Column) else source
    match table.options.get("header"):
        case True:
            return "; the first row is a header"
        case False:
            return "; there is no header"
    return ""


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    text = ", ".join(map(repr, names[:_MOST_NAMES]))
    return text if more <= 0 else f"{text} and {more} more"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
