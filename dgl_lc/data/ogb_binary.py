"""Tasks of the Open Graph Benchmark in its binary files, on disk throughout.

ogbn-papers100M is 57 GB of features and 26 GB of edges. Nothing here loads
a file whole.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from dgl import DGLError

from ..storage.disk_features import DiskFeatures, check_stored
from ..storage.disk_graph import DiskGraph
from ..storage.edge_sources import NpzEdges
from ..storage.folder import (
    MANIFEST,
    Build,
    build,
    check_output,
)
from ..storage.free_disk import free_range
from ..storage.keys import file_stamp
from ..storage.npy_file import HEADER
from ..storage.npz_stream import Member
from ..storage.sort_edges import build_disk_graph
from ..storage.write_features import feature_source, write_features
from .disk_data import KIND, DiskData
from .node_data import SPLITS
from .ogb import read_csv
from .ogb_download import OgbDataset, download

_FILES = ("labels.npy", "train.npy", "valid.npy", "test.npy")
#: Those that OGB stores as binary files, with one graph.
DATASETS = {
    "ogbn-papers100M": OgbDataset("papers100M-bin", "time", 172, 140 * 10**9)
}
#: Labels that are read at a time.
_ROWS = 1 << 20

Opened = TypeVar("Opened", DiskGraph, DiskFeatures)


def prepare_ogb(
    root: str | os.PathLike,
    out: str | os.PathLike,
    *,
    name: str = "ogbn-papers100M",
    memory: int | str = "4GiB",
    add_reverse: bool = True,
    drop_loops: bool = False,
    dtype: torch.dtype = torch.float32,
    width: int = 16,
    consume_raw: bool = False,
    progress: bool | None = None,
) -> DiskData:
    """Turn OGB's binary files into a task on disk, in bounded memory.

    Where they are missing, OGB's own functions download them. What is
    finished is kept: a killed run goes on where it stopped, and a second
    call only opens the folder.

    Parameters
    ----------
    root : path
        Where OGB puts its datasets, its ``root``, or the folder of the
        dataset itself.
    out : path
        The folder to write: ``graph``, ``feat``, labels and split.
    name : str, optional
        ogbn-papers100M.
    memory : int or str, optional
        What may be allocated.
    add_reverse, drop_loops : bool, optional
        As in :func:`dgl_lc.data.build_disk_graph`. The files have one
        direction, citations.
    dtype : torch.dtype, optional
        Of the features: float32, float16 or bfloat16.
    width : int, optional
        Columns in a file of features.
    consume_raw : bool, optional
        Whether to free ``raw/data.npz``, part by part where the system can,
        and to delete it once graph and features are written. For small
        disks.
    progress : bool, optional
        Show progress bars. Default: in a terminal, if it takes a while.

    Returns
    -------
    DiskData
        The task, with OGB's split.
    """
    if name not in DATASETS:
        raise DGLError(
            f"name={name!r} is not known: choose one of {', '.join(DATASETS)}. "
            f"Smaller ones are read by load_ogb."
        )
    check_output(Path(out), KIND, _FILES)
    home = _home(name, Path(root), Path(out))
    data = home / "raw" / "data.npz"
    if data.exists():
        # Before the hours that the edges take.
        feature_source(data)
    stored = check_stored(dtype)
    graph_options = {"add_reverse": add_reverse, "drop_loops": drop_loops}
    feat_options = {"width": width, "dtype": stored.name}

    def make_graph() -> DiskGraph:
        return build_disk_graph(
            NpzEdges(data), _num_nodes(data), Path(out) / "graph",
            memory=memory, progress=progress, **graph_options,
        )  # fmt: skip

    def make_features() -> DiskFeatures:
        return _features(
            data,
            Path(out) / "feat",
            width,
            dtype,
            memory,
            consume_raw,
            progress,
        )

    graph = _step(
        DiskGraph, Path(out) / "graph", graph_options, data, make_graph
    )
    if consume_raw and data.exists():
        edges = Member(data, "edge_index")
        # Its header stays, for what is asked of it when this runs again.
        begin, end = edges.span
        free_range(data, begin + edges.header, end)
    feat = _step(
        DiskFeatures, Path(out) / "feat", feat_options, data, make_features
    )
    if consume_raw:
        data.unlink(missing_ok=True)
    if feat.shape[0] != graph.num_nodes():
        raise DGLError(
            f"{data}: node_feat has {feat.shape[0]} rows, but there are "
            f"{graph.num_nodes()} nodes."
        )
    _labels_and_split(name, home, Path(out), graph, feat)
    return DiskData(out)


def _home(name: str, root: Path, out: Path) -> Path:
    """The folder of the dataset, with its files."""
    dataset = DATASETS[name]
    home = root
    if not (root / "raw").is_dir():
        home = root / name.replace("-", "_")
    wanted = [
        home / "raw" / "data.npz",
        home / "raw" / "node-label.npz",
        *(_split_file(dataset, home, split) for split in SPLITS),
    ]
    if not home.is_dir() or not any(home.iterdir()):
        download(name, dataset, root, home, wanted)
    if all((out / part / MANIFEST).exists() for part in ("graph", "feat")):
        wanted = wanted[1:]
    missing = [str(file) for file in wanted if not file.is_file()]
    if missing:
        raise DGLError(
            f"{name} is incomplete: {', '.join(missing)} not there. Unpack "
            f"{dataset.url} again, or remove {home} to have it downloaded."
        )
    return home


def _split_file(dataset: OgbDataset, home: Path, split: str) -> Path:
    return home / "split" / dataset.split / f"{split}.csv.gz"


def _step(
    kind: type[Opened],
    folder: Path,
    options: dict[str, Any],
    raw: Path,
    make: Callable[[], Opened],
) -> Opened:
    """Make a part of the task, or open it where the raw file is gone."""
    if raw.exists():
        return make()
    opened = kind(folder)
    found = opened.manifest["options"]
    for name, value in options.items():
        if found.get(name) != value:
            raise DGLError(
                f"{folder} was made with {name}={found.get(name)!r}, asked "
                f"for is {value!r}, and {raw} no longer exists to make it "
                f"again."
            )
    return opened


def _num_nodes(data: Path) -> int:
    counts = {}
    for name in ("num_nodes_list", "num_edges_list"):
        member = Member(data, name)
        if member.num_values != 1 or member.dtype.kind not in "iu":
            raise DGLError(
                f"{member.what} should hold one integer, for the one graph, "
                f"got {member.dtype} of shape {member.shape}."
            )
        counts[name] = int(member.whole().reshape(()))
    edges = NpzEdges(data).num_edges
    if counts["num_edges_list"] != edges:
        raise DGLError(
            f"{data}: num_edges_list says {counts['num_edges_list']} edges, "
            f"edge_index has {edges}."
        )
    return counts["num_nodes_list"]


def _features(
    data: Path,
    folder: Path,
    width: int,
    dtype: torch.dtype,
    memory: int | str,
    consume_raw: bool,
    progress: bool | None,
) -> DiskFeatures:
    member = Member(data, "node_feat")
    row = member.num_bytes // max(member.shape[0], 1)

    def free(rows: int) -> None:
        # A compressed member would have to be unpacked from its beginning.
        if consume_raw and member.stored:
            begin = member.span[0] + member.header
            free_range(data, begin, begin + rows * row)

    return write_features(
        member, folder, width=width, dtype=dtype, memory=memory,
        progress=progress, on_commit=free,
    )  # fmt: skip


def _labels_and_split(
    name: str, home: Path, out: Path, graph: DiskGraph, feat: DiskFeatures
) -> None:
    dataset = DATASETS[name]
    member = Member(home / "raw" / "node-label.npz", "node_label")
    made_from = {"labels": member.made_from()}
    for split in SPLITS:
        made_from[split] = file_stamp(_split_file(dataset, home, split))
    # Only content: files may be copied.
    for stamp in made_from.values():
        stamp.pop("modified", None)
    options = {"name": name, "graph": graph.key, "feat": feat.key}
    with build(out, KIND, _FILES, made_from, options) as work:
        if work is None:
            return
        labels = _labels(member, work, graph.num_nodes(), dataset.num_classes)
        _split(dataset, home, work, labels)
        work.finish(
            name=name,
            num_classes=dataset.num_classes,
            parts=[graph.key, feat.key],
        )


def _labels(member: Member, work: Build, n: int, classes: int) -> np.ndarray:
    """Classes as int64, -1 where the file has nan."""
    if member.num_values != n or member.shape[0] != n:
        raise DGLError(
            f"{member.what} has shape {member.shape}, wanted is one label for "
            f"each of {n} nodes."
        )
    if member.dtype.kind not in "fiu":
        raise DGLError(
            f"{member.what} should hold numbers, got {member.dtype}."
        )
    file = work.array("labels.npy", np.int64)
    for values in member.values(_ROWS):
        known = ~np.isnan(values)
        part = np.full(len(values), -1)
        part[known] = values[known]
        wrong = known & ((part != values) | (part < 0) | (part >= classes))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise DGLError(
                f"{member.what} holds {values[place]} at node "
                f"{file.count + place}, but classes go from 0 to "
                f"{classes - 1}; nan is no label."
            )
        file.append(part)
    return np.memmap(file.path, np.int64, "r", HEADER, (n,))


def _split(
    dataset: OgbDataset, home: Path, work: Build, labels: np.ndarray
) -> None:
    taken = np.empty(0, np.int64)
    for split in SPLITS:
        path = _split_file(dataset, home, split)
        ids = read_csv(path, np.int64, columns=1)[:, 0]
        if len(ids) == 0 or ids.min() < 0 or ids.max() >= len(labels):
            raise DGLError(
                f"{path} should hold ids of nodes, 0 to {len(labels) - 1}."
            )
        if (labels[ids] < 0).any():
            node = int(ids[np.argmax(labels[ids] < 0)])
            raise DGLError(f"{path} holds node {node}, which has no label.")
        taken = np.concatenate([taken, ids])
        if len(np.unique(taken)) < len(taken):
            raise DGLError(f"{path} holds nodes that are in a split already.")
        work.array(f"{split}.npy", np.int64).append(ids)
