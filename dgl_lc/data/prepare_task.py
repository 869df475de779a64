"""Tasks on disk from files of one's own, in bounded memory.

The work has stages, each of which writes a folder of its own: the ids of the
nodes, the list of edges between node numbers, the features and the graph.
What a stage has finished is kept, so that a killed run resumes.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import format_bytes, parse_bytes
from ..storage import disk_features, disk_graph, node_ids
from ..storage.array_stream import ArrayStream
from ..storage.array_table import EdgeTable
from ..storage.disk_features import DiskFeatures, check_stored
from ..storage.edge_sorter import WeightConflict
from ..storage.edge_sources import EdgeSource
from ..storage.feature_rows import FeatureRows
from ..storage.folder import (
    Build,
    build,
    check_apart,
    check_output,
    discard,
)
from ..storage.free_disk import check_free
from ..storage.node_ids import BATCH_BYTES, ROWS, Finder, NodeIds, write_ids
from ..storage.sort_edges import build_disk_graph
from ..storage.sort_memory import OVERHEAD, Budget
from ..storage.table_files import FLOAT
from ..storage.write_features import feature_source, write_features
from . import prepare_edges
from .disk_data import FILES, KIND, DiskData
from .node_data import SPLITS
from .prepare_edges import write_edge_list
from .prepare_labels import UNSET, label_codes
from .prepare_sources import (
    Column,
    Edges,
    Nodes,
    Reading,
    Source,
    check_columns,
    open_edges,
    open_nodes,
    open_values,
)
from .prepare_split import Split, mark_split, open_split, split_made_from
from .prepare_summary import describe_sources

#: The folders of a task, and what is in them.
_PARTS = {
    "ids": node_ids.KIND,
    "edges": prepare_edges.KIND,
    "feat": disk_features.KIND,
    "graph": disk_graph.KIND,
}
#: Labels that are written at a time.
_ROWS = 1 << 16
#: Memory that has to be left beside what reading takes.
_LEAST_ROOM = 4 << 20
#: What reading one or two columns takes, of any format.
_READER_BYTES = 32 << 20


def prepare(
    edges: Source,
    features: Source,
    out: str | Path,
    *,
    labels: Source = None,
    split: Any = None,
    nodes: Source = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    id_type: str | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    add_reverse: bool = False,
    drop_loops: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    memory: int | str = "4GiB",
    progress: bool | None = None,
    resume: bool = True,
    report: Callable[[str], None] | None = None,
) -> DiskData:
    """Turn files of your own into a task on disk, in bounded memory.

    Files are csv, tsv or txt (also packed: .gz, .zst), parquet, npy or npz,
    by the ends of their names, or folders of csv or parquet files. npy, npz
    and csv files of integers need no further package, others need
    ``pip install "dgl-lc[tables]"``. Arrays, memory maps and tensors are
    accepted in the place of files.

    Nodes are numbered in the order of the rows of ``features``. Edges keep
    their order, so that the same content gives the same task, bit for bit,
    in whichever format it comes.

    Parameters
    ----------
    edges : path or array
        A table with a source and a target in each row, and perhaps a weight;
        or an array (2, m) or (m, 2), which is ``edge_index`` or ``edges`` in
        an npz file. Messages go from source to target.
    features : path or array
        A table with the id of a node in each row and its features in further
        columns: all columns of numbers, or one column of lists; or an array
        (n, d), which is ``feat``, ``features`` or ``x`` in an npz file.
    out : path
        The folder to write.
    labels : path or array, optional
        A table of ids and labels, or a label for each row of the features:
        integers or texts. Missing are null, blank texts, and the texts nan,
        na, n/a, null, none and -1. Default: the column ``label`` of the
        features or nodes, if there is one.
    split : optional
        Three fractions of the labelled nodes, as ``(0.6, 0.2, 0.2)``; a
        mapping of train, valid and test to ids or masks, or to files of them;
        a folder or npz file with such parts; or a table of ids and the words
        train, valid and test. Default: the column ``split`` of the features
        or nodes, if there is one.
    nodes : path or array, optional
        The ids of the rows of the features, if these have none. It may have
        columns of labels and split. Default: ids are the numbers of the rows.
    columns : mapping, optional
        Names of columns by what they are: source, target, weight, id, label,
        split, features. Columns of a text file without a header are called
        "0", "1" and so on. An empty name means that there is none. Default:
        the usual names, otherwise the first two columns of the edges and the
        first one of other tables. A table of features whose first column is
        neither texts nor called something that ends in "id" needs a name
        here, or "" if the ids are the numbers of the rows.
    id_type : {"int", "text"}, optional
        The type of ids in text files. Default: int if all ids of the first
        block are integers (007 is not).
    header : bool, optional
        Whether text files have a header. Default: as their first rows
        suggest.
    delimiter : str, optional
        What separates values in text files. Default: as the name or the
        first row suggests.
    add_reverse : bool, optional
        Whether to make the graph undirected: every edge in both directions,
        once, so that duplicates become one edge.
    drop_loops : bool, optional
        Whether to omit self-loops.
    dtype : torch.dtype, optional
        The type in which features are stored: float32, float16 or bfloat16.
    seed : int, optional
        Determines a split by fractions.
    memory : int or str, optional
        What may be allocated, beside the ids of the split, which the result
        holds.
    progress : bool, optional
        Whether to show progress bars. Default: in a terminal, if it takes a
        while.
    resume : bool, optional
        Whether to resume where a killed run stopped. A folder that was made
        from other files or with other options is then an error; with False
        it is written again.
    report : function, optional
        Called at the start with a line of text for each source, which says
        which of its columns are taken for what, and which are not used. Pass
        ``print`` to see them.

    Returns
    -------
    DiskData
        The task, open. If the folder was whole already, nothing is done.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import prepare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = prepare(
    ...         edges=np.array([[10, 20], [30, 20]]),  # 10 → 20, 30 → 20
    ...         features=np.eye(3, dtype=np.float32),
    ...         nodes=np.array([10, 20, 30]),
    ...         labels=np.array([1, 0, -1]),
    ...         out=f"{folder}/task",
    ...     )
    ...     data.graph.num_edges(), data.find_nodes([30]), data.ids_of([0])
    (2, tensor([2]), array([10]))
    """
    folder = Path(out)
    budget = Budget(parse_bytes(memory))
    stored = check_stored(dtype)
    if id_type not in (None, "int", "text"):
        raise DGLError(f'id_type should be "int" or "text", got {id_type!r}.')
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise DGLError(f"seed should be an integer from 0 on, got {seed!r}.")
    reading = Reading(check_columns(columns), header, delimiter, id_type)
    sources = _open(edges, features, labels, split, nodes, reading)
    _check_apart(folder, edges, features, labels, split, nodes)
    if report is not None:
        for line in describe_sources(
            sources.edges, sources.nodes, sources.labels, sources.split
        ):
            report(line)
    options = {
        "add_reverse": bool(add_reverse),
        "drop_loops": bool(drop_loops),
        "dtype": stored.name,
        "id_type": id_type,
        "seed": seed if isinstance(sources.split, tuple) else None,
    }
    made_from = sources.made_from()
    check_output(folder, KIND, FILES, resume=resume)
    with build(
        folder, KIND, FILES, made_from, options, resume=resume
    ) as work:  # fmt: skip
        if work is not None:
            if not resume:
                for name, kind in _PARTS.items():
                    discard(folder / name, kind)
            _check_memory(sources, budget)
            _check_disk(sources, folder, stored.itemsize, add_reverse)
            preparation = _Preparation(sources, folder, work, budget, progress)
            preparation.run(bool(add_reverse), bool(drop_loops), dtype, seed)
            if sources.made_from() != made_from:
                raise DGLError(
                    f"a source of {folder} changed while it was read: leave "
                    f"the files as they are, and begin again with "
                    f"resume=False."
                )
            preparation.finish()
    # Needed on the way only, and kept until here, so that a run that is
    # killed before the last step need not make it again.
    with contextlib.suppress(DGLError):
        discard(folder / "edges", prepare_edges.KIND)
    return DiskData(folder)


@dataclass(frozen=True)
class _Sources:
    """All that a task is made from, opened."""

    edges: Edges
    nodes: Nodes
    labels: Column | None
    split: Split | None

    def made_from(self) -> dict[str, Any]:
        """What stands for the content of all sources, without reading it."""
        nodes = self.nodes
        rows = nodes.stream if nodes.stream is not None else nodes.table
        assert rows is not None
        return {
            "edges": self.edges.made_from(),
            "features": rows.made_from() | {"columns": nodes.features},
            "ids": nodes.ids and nodes.ids.made_from(),
            "labels": self.labels and self.labels.made_from(),
            "split": self.split and split_made_from(self.split),
        }


def _open(
    edges: Source,
    features: Source,
    labels: Source,
    split: Any,
    nodes: Source,
    reading: Reading,
) -> _Sources:
    found = open_nodes(
        features, nodes, reading,
        has_labels=labels is not None, has_split=split is not None,
    )  # fmt: skip
    if found.stream is not None:
        feature_source(found.stream)
    label_column = found.labels
    if labels is not None:
        label_column = open_values(labels, "label", "labels", reading)
    parts: Split | None = found.split
    if split is not None:
        parts = open_split(split, reading)
    if parts is not None and label_column is None:
        raise DGLError(
            "split is given, but no labels: a split is one of labelled nodes. "
            "Give labels, or omit split."
        )
    return _Sources(open_edges(edges, reading), found, label_column, parts)


def _check_apart(folder: Path, *sources: Any) -> None:
    """Refuse sources that lie in the folder that is to be written."""
    for source in sources:
        if isinstance(source, Mapping):
            _check_apart(folder, *source.values())
        elif isinstance(source, (str, Path)) and Path(source).exists():
            check_apart(Path(source), folder)


def _check_disk(
    sources: _Sources, folder: Path, itemsize: int, add_reverse: bool
) -> None:
    """Refuse a disk that is too small, as far as sizes are known."""
    needed = 0
    n, stream = sources.nodes.num_rows, sources.nodes.stream
    if n is not None:
        width = len(sources.nodes.features)
        width = stream.shape[1] if stream is not None else width
        needed += n * (itemsize * width + 16 + 8)
    m = sources.edges.table.num_rows
    if m is not None:
        needed += 4 * m + (0 if _is_direct(sources.edges) else 8 * m)
    for part in ("ids", "edges", "feat", "graph"):
        # What an earlier run has written need not be written again.
        files = (folder / part).glob("*.npy")
        needed -= sum(file.stat().st_size for file in files)
    check_free(folder, needed, "the task")


def _check_memory(sources: _Sources, budget: Budget) -> None:
    """Refuse a budget in which a source cannot be read, before any work."""
    edges, nodes = sources.edges, sources.nodes
    ends = [edges.source, edges.target]
    ends += [] if edges.weight is None else [edges.weight]
    needed = {
        edges.table.what: edges.table.reader_bytes(ends) + BATCH_BYTES,
    }
    if nodes.table is not None:
        size = nodes.table.reader_bytes(nodes.features) + OVERHEAD
        needed[nodes.table.what] = size
    for column in (nodes.ids, sources.labels):
        if column is not None:
            names = [column.name] + ([column.id] if column.id else [])
            size = column.table.reader_bytes(names) + BATCH_BYTES
            needed[column.table.what] = max(
                size, needed.get(column.table.what, 0)
            )
    what = max(needed, key=lambda name: needed[name])
    # Some room for the table of ids, and for the rows of features.
    enough = needed[what] + budget.overhead + _LEAST_ROOM
    if budget.memory < enough:
        raise DGLError(
            f"memory={format_bytes(budget.memory)} is too small to read "
            f"{what}: {format_bytes(enough)} ({enough} bytes) is the least."
        )


def _is_direct(edges: Edges) -> bool:
    return isinstance(edges.table, EdgeTable)


class _Preparation:
    """The stages of one call."""

    def __init__(
        self,
        sources: _Sources,
        folder: Path,
        work: Build,
        budget: Budget,
        progress: bool | None,
    ):
        self._sources = sources
        self._folder = folder
        self._work = work
        self._budget = budget
        self._progress = progress

    def run(
        self, add_reverse: bool, drop_loops: bool, dtype: torch.dtype, seed: int
    ) -> None:
        """Run all stages that an earlier run has not finished."""
        self.ids = self._write_ids()
        # First what is short and may be wrong.
        self._write_labels(seed)
        edges, weights = self._edge_list()
        self.feat = self._write_features(dtype)
        try:
            self.graph = build_disk_graph(
                edges, len(self.ids), self._folder / "graph",
                memory=self._budget.memory, add_reverse=add_reverse,
                drop_loops=drop_loops, progress=self._progress,
                weights=weights,
                weight_dtype=None if weights is None else "float32",
            )  # fmt: skip
        except WeightConflict as error:
            # Users know their file and ids, not our list and node numbers.
            ids = self.ids.of(np.array(error.ends)).tolist()
            what = self._sources.edges.table.what
            raise WeightConflict(what, ids, error.weights) from None

    def _write_ids(self) -> NodeIds:
        nodes = self._sources.nodes
        write = partial(
            write_ids, self._folder / "ids", progress=self._progress
        )
        if nodes.ids is not None:
            column = nodes.ids
            made_from = column.made_from()
            ids = write(
                made_from, table=column.table, column=column.name,
                kind=nodes.id_kind,
            )  # fmt: skip
        else:
            count = nodes.num_rows
            if count is None:
                assert nodes.table is not None
                count = _count_rows(nodes)
            ids = write({"rows": count}, num_nodes=count)
        if nodes.num_rows is not None and nodes.num_rows != len(ids):
            raise DGLError(
                f"there are {len(ids)} ids of nodes, but the features have "
                f"{nodes.num_rows} rows: give an id for each row."
            )
        return ids

    def _finders(self, what: str) -> Iterator[Finder]:
        """Find nodes in the memory that labels and split leave."""
        taken = 5 * len(self.ids) + BATCH_BYTES + _READER_BYTES
        room = self._budget.room - taken
        return self.ids.finders(room, what, self._budget)

    def _write_labels(self, seed: int) -> None:
        """Write labels and split; both are small, compared with the rest."""
        work = self._work
        if "num_classes" in work.notes:
            return
        n = len(self.ids)
        # A label, a part and a mark for each node; a split at random also
        # has the numbers of all labelled nodes, several times.
        each = 6 + (32 if isinstance(self._sources.split, tuple) else 0)
        if each * n > self._budget.room:
            enough = each * n + self._budget.overhead
            raise DGLError(
                f"memory={format_bytes(self._budget.memory)} is too small for "
                f"the labels of {n} nodes: {format_bytes(enough)} ({enough} "
                f"bytes) is the least."
            )
        labels = np.full(n, UNSET, np.int32)
        names, count = None, 0
        column = self._sources.labels
        if column is not None:
            finders = self._finders(column.table.what)
            found = label_codes(column, self.ids, finders, labels)
            classes, count, names = found.ordered()
            if not count:
                raise DGLError(
                    f"{column.table.what} has no labels: all are missing."
                )
            # Those without a label have the last place.
            classes = np.append(classes, np.int32(UNSET))
            for low in range(0, n, _ROWS):
                part = labels[low : low + _ROWS]
                part[:] = classes[part]
        file = work.array("labels.npy", np.int64)
        for low in range(0, n, _ROWS):
            file.append(labels[low : low + _ROWS])
        self._write_split(labels, seed)
        work.commit(num_classes=count, class_names=names)

    def _write_split(self, labels: np.ndarray, seed: int) -> None:
        split = self._sources.split
        parts = np.full(len(labels), UNSET, np.int8)
        if split is not None:
            mark_split(
                split, self.ids, partial(self._finders, "split"),
                lambda: np.flatnonzero(labels >= 0), seed, parts,
            )  # fmt: skip
        for place, name in enumerate(SPLITS):
            nodes = np.flatnonzero(parts == place)
            without = nodes[labels[nodes] < 0]
            if len(without):
                some = self.ids.of(without[:3]).tolist()
                raise DGLError(
                    f"split: {len(without)} of the {name} nodes have no label, "
                    f"such as {', '.join(map(repr, some))}: remove them from "
                    f"the split, or give their labels."
                )
            self._work.array(f"{name}.npy", np.int64).append(nodes)

    def _edge_list(self) -> tuple[EdgeSource, ArrayStream | None]:
        """What the graph is sorted from: edges, and weights or None."""
        edges = self._sources.edges
        if self.ids.type == ROWS and isinstance(edges.table, EdgeTable):
            return edges.table.source, edges.table.weights
        return write_edge_list(
            edges, self.ids, self._folder / "edges", self._budget,
            self._progress,
        )  # fmt: skip

    def _write_features(self, dtype: torch.dtype) -> DiskFeatures:
        nodes = self._sources.nodes
        memory = self._budget.memory
        rows = nodes.stream
        if rows is None:
            assert nodes.table is not None
            rows = FeatureRows(nodes.table, nodes.features, len(self.ids))
            memory -= rows.reader_bytes()
        return write_features(
            rows, self._folder / "feat", dtype=dtype, memory=memory,
            progress=self._progress,
        )  # fmt: skip

    def finish(self) -> None:
        """Make the task whole."""
        for name in FILES:
            self._work.array(name, np.int64)
        notes = self._work.notes
        self._work.finish(
            num_classes=notes["num_classes"],
            class_names=notes["class_names"],
            parts=[self.graph.key, self.feat.key, self.ids.key],
        )


def _count_rows(nodes: Nodes) -> int:
    """Count the rows of a table that does not say how many it has."""
    assert nodes.table is not None
    names = nodes.features[:1]
    batches = nodes.table.batches(names, [FLOAT])
    return sum(batch.num_rows for batch in batches)
