"""The ids that users have for their nodes, on disk, in the nodes' order.

Integers are kept as they are, texts as their utf-8 bytes. Where the ids are
the numbers of the nodes, 0 to n - 1 in this order, nothing is kept.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .._common.bytes import format_bytes
from .folder import Build, build
from .id_table import (
    ELSEWHERE,
    UNKNOWN,
    Ids,
    IdTable,
    least_room,
    num_parts,
    random_keys,
)
from .manifest import FolderKind, expect_files, read_manifest, verify_files
from .npy_file import map_file
from .read_ahead import read_ahead, reader_thread
from .sort_memory import Budget
from .table_files import INT, TEXT, Table
from .texts import Texts, parse_integers

KIND = FolderKind("node ids", "prepare")
#: Where ids are the numbers of the nodes.
ROWS = "rows"
FILES = ("ids.npy", "text.npy", "begins.npy")
_TYPES = {ROWS: (), INT: FILES[:1], TEXT: FILES[1:]}

#: Ids that are looked at, at a time.
_BATCH = 1 << 16
#: Bytes that hashing and finding a batch takes.
BATCH_BYTES = 16 << 20
#: Bytes of ids after which what is written is kept.
_COMMIT_BYTES = 1 << 28
#: How many ids a message names.
_NAMED = 3
_MOST_NODES = 2**31 - 1
#: With more parts every edge would be looked up too often.
_MOST_PARTS = 64


class NodeIds:
    """Ids of nodes in a folder.

    Parameters
    ----------
    path : path
        The folder, written by :func:`write_ids`.

    Attributes
    ----------
    type : str
        "int", "text", or "rows" if ids are the numbers of the nodes.
    key : str
        Stands for the content.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.manifest = read_manifest(self.path, KIND)
        content = self.manifest.content
        count: Any = content.get("count")
        kind: Any = content.get("type")
        good = type(count) is int and 0 < count <= _MOST_NODES
        if not good or kind not in _TYPES:
            raise DGLError(
                f"{self.path} says that it has {count!r} ids of type {kind!r}: "
                f"prepare the task again with resume=False."
            )
        self._count: int = count
        self.type: str = kind
        shapes = {
            "ids.npy": ("<i8", (self._count,)),
            "text.npy": ("|u1", self._text_shape()),
            "begins.npy": ("<i8", (self._count + 1,)),
        }
        wanted = {name: shapes[name] for name in _TYPES[self.type]}
        expect_files(self.path, self.manifest, wanted)
        self._verified = False

    def _text_shape(self) -> tuple[int, ...]:
        entry = self.manifest.files.get("text.npy")
        return (0,) if entry is None else entry.shape[:1]

    @property
    def key(self) -> str:
        return self.manifest.key

    def __len__(self) -> int:
        return self._count

    def verify(self) -> None:
        """Read all files, and raise an error that names a damaged one."""
        verify_files(self.path, self.manifest)
        if self.type == TEXT:
            begins = self._map("begins.npy")
            end = self.manifest.files["text.npy"].shape[0]
            falls = any(
                (np.diff(begins[low : low + _BATCH + 1]) < 0).any()
                for low in range(0, len(begins), _BATCH)
            )
            if begins[0] != 0 or begins[-1] != end or falls:
                raise DGLError(
                    f"{self.path / 'begins.npy'} is damaged: prepare the task "
                    f"again with resume=False."
                )
        self._verified = True

    def _map(self, name: str) -> np.ndarray:
        return map_file(self.path / name, self.manifest.files[name])

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """The ids of nodes: int64, or an object array of str."""
        if self.type == ROWS:
            return np.asarray(nodes, np.int64)
        if not self._verified:
            self.verify()
        if self.type == INT:
            return np.asarray(self._map("ids.npy")[nodes])
        texts = Texts(self._map("text.npy"), self._map("begins.npy"))
        found = np.empty(len(nodes), object)
        found[:] = texts.take(np.asarray(nodes))
        return found

    def batches(self) -> Iterator[tuple[int, Ids]]:
        """All ids, a few at a time, each time with the first node's number."""
        if not self._verified:
            self.verify()
        for low in range(0, self._count, _BATCH):
            high = min(low + _BATCH, self._count)
            if self.type == ROWS:
                yield low, np.arange(low, high)
            elif self.type == INT:
                yield low, np.array(self._map("ids.npy")[low:high])
            else:
                # Read, and the map dropped: its pages do not pile up.
                begins = np.array(self._map("begins.npy")[low : high + 1])
                text = np.array(self._map("text.npy")[begins[0] : begins[-1]])
                yield low, Texts(text, begins - begins[0])

    def _table(
        self, room: int, part: int, parts: int, keys: Sequence[int]
    ) -> IdTable:
        """A table of one part of the ids; two equal ids are an error."""
        table = IdTable(len(self), room, part, parts, keys)
        twins = self._add_all(table)
        if twins is None:
            return table
        first, second = self.of(np.array(twins)).tolist()
        if first != second:
            # Nobody will ever see this.
            raise DGLError(
                f"the ids {first!r} and {second!r} have the same hash: begin "
                f"again with resume=False, which takes another hash."
            )
        raise DGLError(
            f"the id {first!r} stands for two nodes, the rows {twins[0]} and "
            f"{twins[1]} of the features (counted from 0): every node needs "
            f"an id of its own."
        )

    def _add_all(self, table: IdTable) -> tuple[int, int] | None:
        for low, ids in self.batches():
            numbers = table.add(ids, low)
            own = np.arange(low, low + len(ids))
            wrong = (numbers != own) & (numbers != ELSEWHERE)
            if wrong.any():
                place = int(np.argmax(wrong))
                return int(numbers[place]), low + place
        return None

    def finders(
        self,
        room: int,
        what: str,
        budget: Budget,
        begin: int = 0,
        keys: Sequence[int] | None = None,
    ) -> Iterator["Finder"]:
        """Find nodes by a table of all ids, one part of it after another.

        Parameters
        ----------
        room : int
            Bytes that a table may take.
        what : str
            Names in messages what is looked up.
        budget : Budget
            The whole budget, for messages.
        begin : int
            The first part.
        keys : sequence of int, optional
            What decides which ids are in which part. A run that resumes needs
            those of the run before it.
        """
        keys = random_keys() if keys is None else keys
        parts = self.num_parts(room, what, budget)
        if parts > 1 and not begin:
            # Twins of all parts are found before the long work begins.
            for part in range(1, parts):
                self._table(room, part, parts, keys)
        for part in range(begin, parts):
            is_rows = self.type == ROWS
            table = None if is_rows else self._table(room, part, parts, keys)
            yield Finder(self, table, what)
            # Freed before the next one is made.
            del table

    def num_parts(self, room: int, what: str, budget: Budget) -> int:
        """How many parts a table of all ids needs to fit the room."""
        if self.type == ROWS:
            return 1
        parts = num_parts(len(self), room)
        if parts > _MOST_PARTS:
            enough = budget.memory - room + least_room(len(self), _MOST_PARTS)
            raise DGLError(
                f"memory={format_bytes(budget.memory)} is too small to find "
                f"the nodes of {what}: {format_bytes(enough)} ({enough} bytes) "
                f"would be enough."
            )
        return parts

    def find(self, ids: Ids) -> np.ndarray:
        """The numbers of the nodes with these ids, int64; -1 for others.

        The table is one of these ids, not of all: it takes memory for them
        alone.
        """
        if self.type == ROWS:
            return np.where(self._in_range(ids), ids, UNKNOWN)  # type: ignore[arg-type]
        found = np.full(len(ids), UNKNOWN, np.int64)
        if not len(ids):
            return found
        table = IdTable(len(ids))
        same = table.add(ids, 0)
        for low, known in self.batches():
            numbers = table.find(known)
            hit = np.flatnonzero(numbers >= 0)
            found[numbers[hit]] = low + hit
        return found[same]

    def _in_range(self, ids: Any) -> np.ndarray:
        return (ids >= 0) & (ids < len(self))

    def check_known(
        self,
        what: str,
        *found: tuple[Ids, np.ndarray],
        where: Callable[[int], str] | None = None,
    ) -> None:
        """Refuse ids that no node has.

        Parameters
        ----------
        what : str
            Names in messages where the ids are from.
        *found : tuple
            Ids, and the nodes that were found for them.
        where : function, optional
            Says where a place is.
        """
        unknown = [np.flatnonzero(nodes == UNKNOWN) for _, nodes in found]
        count = sum(len(places) for places in unknown)
        if not count:
            return
        named: list[Any] = []
        for (ids, _), places in zip(found, unknown, strict=True):
            some = places[:_NAMED]
            if isinstance(ids, Texts):
                named += ids.take(some)
            else:
                named += ids[some].tolist()
        first = min(int(places[0]) for places in unknown if len(places))
        place = "" if where is None else f" ({where(first)})"
        raise DGLError(
            f"{what} has {count} id{'s' * (count > 1)} that no node has, such "
            f"as {', '.join(map(repr, named[:_NAMED]))}{place}: there are "
            f"{len(self)} nodes, the rows of the features. Add the missing "
            f"rows, or remove these ids."
        )

    def convert(self, ids: Any, what: str) -> Ids:
        """Give ids of any kind as those of the nodes are kept."""
        if isinstance(ids, Texts):
            texts = ids
        else:
            if hasattr(ids, "numpy"):  # a tensor
                ids = ids.numpy()
            array = np.asarray(ids)
            if array.ndim != 1:
                raise DGLError(
                    f"{what} should have one dimension, got shape "
                    f"{array.shape}."
                )
            if array.dtype.kind in "iu" or not len(array):
                if self.type == TEXT and len(array):
                    raise DGLError(
                        f"{what} holds integers, but the ids of the nodes are "
                        f"texts: convert them to str."
                    )
                if self.type == TEXT:
                    return Texts.of([])
                if array.dtype == np.uint64 and (array >= 2**63).any():
                    raise DGLError(f"{what} holds {array.max()}: too large.")
                return array.astype(np.int64)
            items = array.tolist()
            if not all(isinstance(item, str) for item in items):
                raise DGLError(
                    f"{what} should hold integers or texts, got {array.dtype}."
                )
            texts = Texts.of(items)
        if self.type == TEXT:
            return texts
        values, wrong = parse_integers(texts)
        if wrong >= 0:
            raise DGLError(
                f"{what} holds {texts.take(np.array([wrong]))[0]!r}, but the "
                f"ids of the nodes are integers."
            )
        return values


class Finder:
    """Finds the nodes of ids that are in one part of a table.

    Get one from :meth:`NodeIds.finders`.
    """

    def __init__(self, ids: NodeIds, table: IdTable | None, what: str):
        self._ids = ids
        self._table = table
        self._what = what
        #: The kind in which ids are read from tables.
        self.kind = TEXT if ids.type == TEXT else INT

    def nodes(
        self, *columns: Any, where: Callable[[int], str] | None = None
    ) -> list[np.ndarray]:
        """The nodes of columns of ids, or ELSEWHERE.

        Unknown ids are an error; ``where`` says where a row is.
        """
        find = self._ids.find if self._table is None else self._table.find
        found = [find(ids) for ids in columns]
        pairs = zip(columns, found, strict=True)
        self._ids.check_known(self._what, *pairs, where=where)
        return found


def write_ids(
    path: Path,
    made_from: dict[str, Any],
    *,
    num_nodes: int | None = None,
    table: Table | None = None,
    column: str = "",
    kind: str = ROWS,
    progress: bool | None = None,
) -> NodeIds:
    """Write the ids of nodes, or that they are the nodes' numbers.

    Parameters
    ----------
    path : Path
        The folder to write.
    made_from : dict
        What stands for the source.
    num_nodes : int, optional
        How many nodes there are, if there is no table.
    table, column, kind : optional
        Where the ids are, and whether they are "int" or "text".
    progress : bool, optional
        Whether to show a progress bar.
    """
    names = _TYPES[kind]
    with build(path, KIND, names, made_from, {"type": kind}) as work:
        if work is not None and table is None:
            _check_count(num_nodes or 0)
            work.finish(count=num_nodes, type=ROWS)
        elif work is not None and table is not None:
            writer = _IdWriter(work, kind)
            writer.write(table, column, progress)
            writer.finish()
    return NodeIds(path)


def _check_count(count: int) -> None:
    if not 0 < count <= _MOST_NODES:
        raise DGLError(
            f"there are {count} nodes, but there should be 1 to {_MOST_NODES}."
        )


class _IdWriter:
    """Writes ids batch by batch."""

    def __init__(self, work: Build, kind: str):
        self._work = work
        self._kind = kind
        if kind == INT:
            self._ids = work.array("ids.npy", np.int64)
        else:
            self._text = work.array("text.npy", np.uint8)
            self._ids = work.array("begins.npy", np.int64)
            if not self._ids.count:
                self._ids.append(np.zeros(1, np.int64))
        # Whether the ids so far are the numbers of the nodes.
        self._are_rows: bool = work.notes.get("are_rows", kind == INT)

    @property
    def count(self) -> int:
        return self._ids.count - (self._kind == TEXT)

    def write(self, table: Table, column: str, progress: bool | None) -> None:
        fresh = 0
        with (
            reader_thread() as reader,
            closing(
                read_ahead(
                    table.batches([column], [self._kind], begin=self.count),
                    reader,
                    lambda batch: batch.read,
                    total=table.num_bytes,
                    name="ids",
                    progress=progress,
                )
            ) as batches,
        ):
            for batch in batches:
                self._append(batch.columns[0])
                fresh += 8 * batch.num_rows
                if fresh >= _COMMIT_BYTES:
                    self._work.commit(are_rows=self._are_rows)
                    fresh = 0

    def _append(self, ids: Any) -> None:
        if isinstance(ids, Texts):
            texts = ids.packed()
            self._text.append(texts.data)
            end = self._text.count - len(texts.data)
            self._ids.append(texts.begins[1:] + end)
        else:
            numbers = np.arange(self.count, self.count + len(ids))
            self._are_rows = self._are_rows and bool((ids == numbers).all())
            self._ids.append(ids)

    def finish(self) -> None:
        _check_count(self.count)
        if self._are_rows:
            self._work.finish(("ids.npy",), count=self.count, type=ROWS)
        else:
            self._work.finish(count=self.count, type=self._kind)
