"""Labels of any kind, turned into classes 0 to C - 1."""

from collections.abc import Iterator

import numpy as np
from dgl import DGLError

from ..storage.id_table import ELSEWHERE, IdTable
from ..storage.node_ids import Finder, NodeIds
from ..storage.table_files import BOOL, FLOAT, INT, LIST, TEXT, Batch
from ..storage.texts import Texts, parse_integers
from .classes import is_missing
from .prepare_sources import Column

#: More than these are no classes but something else.
_MOST_CLASSES = 100_000
#: What a node has before its label is known.
UNSET = -1
#: What a node has whose label is given, and is missing.
_MISSING = -2


class Classes:
    """Numbers for the values of labels, in the order in which they come."""

    def __init__(self, what: str):
        self._what = what
        self._table = IdTable(_MOST_CLASSES)
        self.values: list[str] | list[int] = []

    def codes(self, values: np.ndarray | Texts, batch: Batch) -> np.ndarray:
        """The number of each value; UNSET where it is missing."""
        if isinstance(values, Texts):
            return self._number(values)
        missing = np.zeros(len(values), bool)
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            whole = np.where(missing, -1, values)
            if (whole != np.floor(whole)).any() or (abs(whole) > 2**53).any():
                wrong = whole != np.floor(whole)
                place = int(np.argmax(wrong))
                raise DGLError(
                    f"{batch.where(place)}: the label {values[place]} is not "
                    f"an integer: labels are classes, integers or texts."
                )
            values = whole.astype(np.int64)
        values = values.astype(np.int64)
        missing |= values == -1
        codes = np.full(len(values), UNSET, np.int32)
        codes[~missing] = self._number(values[~missing])
        return codes

    def _number(self, values: np.ndarray | Texts) -> np.ndarray:
        codes = self._table.find(values)
        new = np.flatnonzero(codes < 0)
        if not len(new):
            return codes
        given = values.take(new)
        items = given if isinstance(given, list) else given.tolist()
        fresh = list(dict.fromkeys(items))
        if len(self.values) + len(fresh) > _MOST_CLASSES:
            raise DGLError(
                f"{self._what} has more than {_MOST_CLASSES} different labels: "
                f"labels are classes; is this another column?"
            )
        is_text = isinstance(values, Texts)
        self._table.add(
            Texts.of(fresh) if is_text else np.array(fresh, np.int64),
            len(self.values),
        )
        self.values = [*self.values, *fresh]
        return self._table.find(values)

    def ordered(self) -> tuple[np.ndarray, int, list[str] | None]:
        """The class of each number, how many classes there are, their names.

        Integers are sorted by value, texts as texts. If the labels are the
        integers 0 to C - 1, they are the classes and need no names.
        """
        values: list = list(self.values)
        kept = [v for v in values if not is_missing(str(v))]
        numbers = _as_integers(kept)
        if numbers is not None:
            found = dict(zip(kept, numbers, strict=True))
            values = [found.get(v, -1) for v in values]
            kept = [v for v in values if v != -1]
        names = sorted(set(kept))
        place_of = {name: place for place, name in enumerate(names)}
        classes = np.array([place_of.get(v, UNSET) for v in values], np.int32)
        if names == list(range(len(names))):
            return classes, len(names), None
        return classes, len(names), [str(name) for name in names]


def _as_integers(values: list) -> list[int] | None:
    """Texts as integers; None if some are none, or are integers already.

    1.0 is 1 here: programs write integers so, where some are missing.
    """
    if not values or not isinstance(values[0], str):
        return None
    whole = [value.removesuffix(".0") for value in values]
    numbers, wrong = parse_integers(Texts.of(whole))
    return None if wrong >= 0 else numbers.tolist()


def label_codes(
    column: Column,
    ids: NodeIds,
    finders: Iterator[Finder],
    out: np.ndarray,
) -> Classes:
    """Write the number of each node's label to ``out``, int32.

    Parameters
    ----------
    column : Column
        The labels.
    ids : NodeIds
        The ids of the nodes.
    finders : iterator of Finder
        Find the nodes, if the labels have ids.
    out : ndarray
        UNSET for every node.
    """
    table = column.table
    if column.kind == LIST:
        raise DGLError(
            f"{table.what}: the labels, column {column.name!r}, are lists."
        )
    kind = TEXT if column.kind == TEXT else column.kind
    if kind in (INT, FLOAT, BOOL) and table.options.get("delimiter"):
        # The first block of a text file does not say what comes later.
        kind = TEXT
    classes = Classes(table.what)
    if column.id is None:
        low = 0
        names = [column.name]
        for batch in table.batches(names, [kind], missing=names):
            codes = classes.codes(batch.columns[0], batch)
            check_rows(table.what, low + len(codes), ids, at_least=True)
            out[low : low + len(codes)] = codes
            low += len(codes)
        check_rows(table.what, low, ids)
        return classes
    for finder in finders:
        for batch, nodes, values in id_batches(column, finder, kind):
            codes = classes.codes(values, batch)
            mark(out, nodes, codes, ids, batch, "a label")
    np.maximum(out, UNSET, out=out)
    return classes


def mark(
    out: np.ndarray,
    nodes: np.ndarray,
    codes: np.ndarray,
    ids: NodeIds,
    batch: Batch,
    what: str,
) -> None:
    """Set the codes of nodes; a node that has one already is an error."""
    own = nodes != ELSEWHERE
    nodes, codes = nodes[own], codes[own]
    places = np.flatnonzero(own)
    order = np.argsort(nodes, kind="stable")
    twice = order[1:][nodes[order[1:]] == nodes[order[:-1]]]
    wrong = np.concatenate([np.flatnonzero(out[nodes] != UNSET), twice])
    if len(wrong):
        place = int(wrong.min())
        name = ids.of(nodes[place : place + 1]).tolist()[0]
        raise DGLError(
            f"{batch.where(int(places[place]))}: the node {name!r} has "
            f"{what} already: give every node at most one."
        )
    out[nodes] = np.where(codes == UNSET, _MISSING, codes)


def id_batches(
    column: Column, finder: Finder, kind: str
) -> Iterator[tuple[Batch, np.ndarray, np.ndarray | Texts]]:
    """Read ids and values: the batch, the nodes and the values."""
    names, kinds = [column.id or "", column.name], [finder.kind, kind]
    for batch in column.table.batches(names, kinds, missing=[column.name]):
        nodes = finder.nodes(batch.columns[0], where=batch.where)[0]
        yield batch, nodes, batch.columns[1]


def check_rows(
    what: str, rows: int, ids: NodeIds, *, at_least: bool = False
) -> None:
    """Refuse values in the nodes' order that are not one for each node."""
    if rows > len(ids) or (rows < len(ids) and not at_least):
        more = "at least " if at_least else ""
        raise DGLError(
            f"{what} has {more}{rows} rows, but there are {len(ids)} nodes: "
            f"give a row for each node, or a column of ids."
        )
