"""Splits into training, validation and test nodes, given in any way."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from ..storage.array_table import ArrayTable
from ..storage.node_ids import Finder, NodeIds
from ..storage.npz_stream import Member, member_names
from ..storage.table_files import BOOL, INT, TEXT, Batch, file_format
from ..storage.texts import Texts
from .prepare_labels import UNSET, check_rows, id_batches, mark
from .prepare_sources import Column, Reading, open_values
from .splits import NO_PART, SPLIT_WORDS, SPLITS, check_fractions

#: The place of the part that a word stands for.
_PLACES = {word: SPLITS.index(part) for word, part in SPLIT_WORDS.items()}

#: Fractions, or a column of words, or a column of ids or a mask by part.
Split = tuple[float, ...] | Column | dict[str, Column]


def open_split(split: Any, reading: Reading) -> Split:
    """Open whatever describes a split, or raise an error.

    Parameters
    ----------
    split : str, path, sequence or mapping
        As in :func:`~dgl_lc.data.prepare`.
    reading : Reading
        How tables are read.
    """
    fractions = _fractions(split)
    if fractions is not None:
        check_fractions(fractions)
        return fractions
    if isinstance(split, (str, os.PathLike)):
        parts = _parts_of_path(Path(split))
        if parts is None:
            return open_values(split, "split", "split", reading)
    elif isinstance(split, Mapping):
        parts = dict(split)
    else:
        raise DGLError(
            f"split should be three fractions, a path, or a mapping of train, "
            f"valid and test to ids or masks, got {type(split).__name__}."
        )
    found = {}
    for name, source in parts.items():
        place = _PLACES.get(str(name).lower().removesuffix("_mask"))
        if place is None or SPLITS[place] in found:
            raise DGLError(
                f"split has the part {name!r}; the parts are train, valid and "
                f"test."
            )
        found[SPLITS[place]] = _open_part(source, name, reading)
    if not found:
        raise DGLError("split has no parts: give train, valid and test.")
    return {name: found[name] for name in SPLITS if name in found}


def split_made_from(split: Split) -> Any:
    """What stands for a split."""
    if isinstance(split, tuple):
        return list(split)
    if isinstance(split, Column):
        return split.made_from()
    return {name: column.made_from() for name, column in split.items()}


def _fractions(split: Any) -> tuple[float, ...] | None:
    """Fractions, from a sequence or from a text such as "0.6,0.2,0.2"."""
    parts = split.split(",") if isinstance(split, str) else split
    if isinstance(parts, (str, os.PathLike, Mapping, torch.Tensor)):
        return None
    try:
        found = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        return None
    # A file can be called "1".
    if isinstance(split, str) and len(found) == 1 and Path(split).exists():
        return None
    return found


def _parts_of_path(path: Path) -> dict[str, Any] | None:
    """The parts in a folder or an npz file; None if the path is a table."""
    if path.is_dir():
        found: dict[str, Any] = {}
        for entry in sorted(path.iterdir()):
            name = entry.name.split(".")[0].lower()
            if name in _PLACES and file_format(entry) is not None:
                found[name] = entry
        return found or None
    if path.is_file() and file_format(path) == "npz":
        names = [
            name
            for name in member_names(path)
            if name.lower().removesuffix("_mask") in _PLACES
        ]
        if not names:
            raise DGLError(
                f"split: {path} should have arrays train, valid and test."
            )
        return {name: Member(path, name) for name in names}
    return None


def _open_part(source: Any, name: str, reading: Reading) -> Column:
    if isinstance(source, Member):
        return Column(ArrayTable(source), "0")
    table = reading.table(source, f"split[{name!r}]", (name,))
    column = table.names[0]
    if len(table.names) > 1:
        words = reading.find(table, "split", strict=False)
        if words is not None:
            raise DGLError(
                f"split[{name!r}]: {table.what} has the column {words!r}, the "
                f"part of each node: give this file alone as the split, or a "
                f"file that has only the ids of this part."
            )
        column = reading.find(table, "id", strict=False) or column
    return Column(table, column)


def mark_split(
    split: Split,
    ids: NodeIds,
    finders: Callable[[], Iterator[Finder]],
    labelled: Callable[[], np.ndarray],
    seed: int,
    out: np.ndarray,
) -> None:
    """Write the part of each node to ``out``: 0 to 2, or UNSET. int8.

    Parameters
    ----------
    split : Split
        The split.
    ids : NodeIds
        The ids of the nodes.
    finders : function
        Gives what finds nodes by their ids.
    labelled : function
        Gives the nodes that have a label, int64, for fractions.
    seed : int
        Determines a split by fractions.
    out : ndarray
        UNSET for every node.
    """
    if isinstance(split, tuple):
        _mark_fractions(split, labelled(), seed, out)
    elif isinstance(split, Column):
        _mark_words(split, ids, finders, out)
    else:
        for name, column in split.items():
            _mark_part(column, SPLITS.index(name), ids, finders, out)
    np.maximum(out, UNSET, out=out)


def _mark_fractions(
    fractions: tuple[float, ...], nodes: np.ndarray, seed: int, out: np.ndarray
) -> None:
    from .splits import random_split

    parts = random_split(nodes, fractions, np.random.default_rng(seed))
    for place, name in enumerate(SPLITS):
        out[parts[name].numpy()] = place


def _mark_words(
    column: Column,
    ids: NodeIds,
    finders: Callable[[], Iterator[Finder]],
    out: np.ndarray,
) -> None:
    table, name = column.table, column.name
    if column.id is not None:
        for finder in finders():
            for batch, nodes, words in id_batches(column, finder, TEXT):
                codes = _codes(words, batch)
                mark(out, nodes, codes, ids, batch, "a part of the split")
        return
    low = 0
    for batch in table.batches([name], [TEXT], missing=[name]):
        codes = _codes(batch.columns[0], batch)
        check_rows(table.what, low + len(codes), ids, at_least=True)
        out[low : low + len(codes)] = codes
        low += len(codes)
    check_rows(table.what, low, ids)


def _codes(words: Any, batch: Batch) -> np.ndarray:
    """The part that each word stands for."""
    assert isinstance(words, Texts)
    items = words.to_list()
    part_of: dict[str, int] = {}
    for word in dict.fromkeys(items):
        small = word.strip().lower()
        if small not in _PLACES and small not in NO_PART:
            place = items.index(word)
            raise DGLError(
                f"{batch.where(place)}: the part of the split is {word!r}; "
                f"known are train, valid and test, or nothing."
            )
        part_of[word] = _PLACES.get(small, UNSET)
    return np.array([part_of[word] for word in items], np.int8)


def _mark_part(
    column: Column,
    part: int,
    ids: NodeIds,
    finders: Callable[[], Iterator[Finder]],
    out: np.ndarray,
) -> None:
    table, name = column.table, column.name
    if column.kind == BOOL:
        low = 0
        for batch in table.batches([name], [BOOL]):
            mask = np.asarray(batch.columns[0])
            check_rows(table.what, low + len(mask), ids, at_least=True)
            nodes = low + np.flatnonzero(mask)
            codes = np.full(len(nodes), part, np.int8)
            mark(out, nodes, codes, ids, batch, "a part of the split")
            low += len(mask)
        check_rows(table.what, low, ids)
        return
    for finder in finders():
        kind = finder.kind if column.kind in (INT, TEXT) else column.kind
        for batch in table.batches([name], [kind]):
            nodes = finder.nodes(batch.columns[0], where=batch.where)[0]
            codes = np.full(len(nodes), part, np.int8)
            mark(out, nodes, codes, ids, batch, "a part of the split")
