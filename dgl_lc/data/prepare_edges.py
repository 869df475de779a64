"""Edges between users' ids, turned into edges between node numbers.

The result is a list on disk in the order of the source, from which the graph
is sorted. It is deleted when the task is whole.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from ..storage.array_stream import ArrayStream, NpyFile
from ..storage.edge_sources import ArrayEdges, EdgeSource
from ..storage.folder import Build, build
from ..storage.free_disk import check_free
from ..storage.id_table import ELSEWHERE, random_keys
from ..storage.manifest import FolderKind, read_manifest
from ..storage.node_ids import BATCH_BYTES, Finder, NodeIds
from ..storage.npy_file import HEADER
from ..storage.npy_header import as_bytes, open_file, read_into
from ..storage.read_ahead import read_ahead, reader_thread
from ..storage.sort_memory import Budget
from ..storage.table_files import FLOAT, Batch
from .prepare_sources import Edges

KIND = FolderKind("edge list", "prepare")
WEIGHTS = "weights.npy"
#: Edges after which what is written is kept.
_COMMIT_EDGES = 1 << 24
_EDGE_BYTES = 8


def write_edge_list(
    edges: Edges,
    ids: NodeIds,
    folder: Path,
    budget: Budget,
    progress: bool | None,
) -> tuple[EdgeSource, ArrayStream | None]:
    """Write the node numbers of both ends of every edge, and weights.

    A table of all ids finds them. Where it does not fit into memory, there
    are several passes over the edges, each with a part of the ids: a pass
    completes what the one before it has written.

    Parameters
    ----------
    edges : Edges
        The edges.
    ids : NodeIds
        The ids of the nodes.
    folder : Path
        The folder to write.
    budget : Budget
        Memory that may be allocated.
    progress : bool or None
        Whether to show progress bars.

    Returns
    -------
    (EdgeSource, ArrayStream or None)
        The list, and its weights, float32.
    """
    columns = [edges.source, edges.target, edges.weight]
    names = [name for name in columns if name is not None]
    room = budget.room - edges.table.reader_bytes(names) - BATCH_BYTES
    what = edges.table.what
    parts = ids.num_parts(room, what, budget)
    files = [_pass_file(part) for part in range(parts)]
    weights = [WEIGHTS] if edges.weight is not None else []
    made_from = {"edges": edges.made_from(), "ids": ids.key}
    with build(
        folder, KIND, files + weights, made_from, {"passes": parts}
    ) as work:
        if work is not None:
            done = work.notes.get("passes", 0)
            if not done:
                _check_disk(edges, folder, parts)
            # All passes agree on which ids are in which part.
            keys = work.notes.setdefault("keys", random_keys())
            finders = ids.finders(room, what, budget, done, keys)
            for part, finder in enumerate(finders, done):
                name = "edges" if parts == 1 else f"edges ({part + 1}/{parts})"
                _Pass(edges, names, work, finder, part).run(name, progress)
                work.commit(passes=part + 1)
            for file in files:
                work.array(file, np.int32, 2)
            if weights:
                work.array(WEIGHTS, np.float32)
            work.finish(files[:-1])
    key = read_manifest(folder, KIND).key
    found = ArrayEdges(_OwnFile(folder / files[-1], key), pairs=True)
    return found, _OwnFile(folder / WEIGHTS, key) if weights else None


class _OwnFile(NpyFile):
    """A file of the list, known by its content and not by its inode."""

    def __init__(self, path: Path, key: str):
        super().__init__(path)
        self._key = key

    def made_from(self) -> dict[str, Any]:
        return {"file": self.path.name, "edge list": self._key}


def _pass_file(part: int) -> str:
    return f"ends_{part}.npy"


def _check_disk(edges: Edges, folder: Path, parts: int) -> None:
    """Refuse a disk that is too small, where the size is known."""
    count = edges.table.num_rows
    if count is not None:
        size = _EDGE_BYTES * parts + (0 if edges.weight is None else 4)
        check_free(folder, count * size, "the list of edges")


class _Pass:
    """One pass over the edges."""

    def __init__(
        self,
        edges: Edges,
        names: list[str],
        work: Build,
        finder: Finder,
        part: int,
    ):
        self._edges = edges
        self._names = names
        self._work = work
        self._finder = finder
        self._ends = work.array(_pass_file(part), np.int32, 2)
        self._before = work.path / _pass_file(part - 1) if part else None
        self._weights = None
        if edges.weight is not None and not part:
            self._weights = work.array(WEIGHTS, np.float32)

    def run(self, name: str, progress: bool | None) -> None:
        kinds = [self._finder.kind] * 2 + [FLOAT] * (len(self._names) - 2)
        table = self._edges.table
        fresh = 0
        with (
            reader_thread() as reader,
            closing(
                read_ahead(
                    table.batches(self._names, kinds, begin=self._ends.count),
                    reader,
                    lambda batch: batch.read,
                    total=table.num_bytes or None,
                    name=name,
                    progress=progress,
                )
            ) as batches,
        ):
            for batch in batches:
                self._ends.append(self._find(batch))
                if self._weights is not None:
                    self._weights.append(_check_weights(batch))
                fresh += batch.num_rows
                if fresh >= _COMMIT_EDGES:
                    self._work.commit()
                    fresh = 0

    def _find(self, batch: Batch) -> np.ndarray:
        ends = np.empty((batch.num_rows, 2), np.int32)
        before = self._read_before(batch.num_rows)
        found = self._finder.nodes(*batch.columns[:2], where=batch.where)
        for side, nodes in enumerate(found):
            if before is not None:
                elsewhere = nodes == ELSEWHERE
                nodes[elsewhere] = before[elsewhere, side]
            ends[:, side] = nodes
        return ends

    def _read_before(self, count: int) -> np.ndarray | None:
        """What the pass before this one has found for the same edges."""
        if self._before is None:
            return None
        rows = np.empty((count, 2), np.int32)
        with open_file(self._before) as file:
            file.seek(HEADER + _EDGE_BYTES * self._ends.count)
            read_into(file, as_bytes(rows))
        return rows


def _check_weights(batch: Batch) -> np.ndarray:
    given = np.asarray(batch.columns[2])
    with np.errstate(over="ignore"):
        weights = given.astype(np.float32)
    wrong = ~np.isfinite(weights)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise DGLError(
            f"{batch.where(place)}: the weight {given[place]} is not a finite "
            f"number of float32."
        )
    return weights
