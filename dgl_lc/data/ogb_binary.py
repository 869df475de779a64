"""Tasks of the Open Graph Benchmark on disk throughout.

ogbn-papers100M is 57 GB of features and 26 GB of edges, in binary files; the
others are csv files. Nothing here loads a file whole.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import parse_bytes
from ..storage.disk_features import DiskFeatures, check_stored
from ..storage.disk_graph import DiskGraph
from ..storage.edge_sources import NpzEdges
from ..storage.folder import build, check_output
from ..storage.free_disk import free_range
from ..storage.keys import file_stamp
from ..storage.manifest import MANIFEST
from ..storage.npz_stream import Member
from ..storage.sort_edges import build_disk_graph
from ..storage.sort_memory import Budget
from ..storage.write_features import feature_source, write_features
from . import ogb
from .disk_data import FILES, KIND, DiskData
from .disk_labels import split_room, write_labels, write_split
from .node_data import SPLITS
from .ogb_download import OgbDataset, find_files
from .prepare_task import prepare

#: Those that OGB stores as binary files, with one graph.
DATASETS = {
    "ogbn-papers100M": OgbDataset("papers100M-bin", "time", 172, 140 * 10**9)
}
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
    """Turn OGB's raw files into a task on disk, in bounded memory.

    Where they are missing, OGB's own functions download them. What is
    finished is kept: a killed run resumes where it stopped, and a second
    call only opens the folder.

    Parameters
    ----------
    root : path
        Where OGB puts its datasets, its ``root``, or the folder of the
        dataset itself.
    out : path
        The folder to write: ``graph``, ``feat``, labels and split.
    name : str, optional
        ogbn-papers100M (the default), ogbn-products or ogbn-arxiv. The last
        two are csv files, and need ``pip install "dgl-lc[tables]"``.
    memory : int or str, optional
        What may be allocated, beside the ids of the split, which the result
        holds.
    add_reverse, drop_loops : bool, optional
        As in :func:`dgl_lc.data.build_disk_graph`. The files have one
        direction: citations, or the half of an undirected graph, which OGB
        completes for ogbn-products.
    dtype : torch.dtype, optional
        The type of the features: float32, float16 or bfloat16.
    width : int, optional
        Columns in a file of features; of ogbn-papers100M alone.
    consume_raw : bool, optional
        Whether to free ``raw/data.npz``, part by part where the system can,
        and to delete it once graph and features are written. For small
        disks; of ogbn-papers100M alone.
    progress : bool, optional
        Whether to show progress bars. Default: in a terminal, if it takes a
        while.

    Returns
    -------
    DiskData
        The task, with OGB's split.
    """
    if name in ogb.DATASETS:
        if consume_raw:
            raise DGLError(
                f"consume_raw is for ogbn-papers100M: the files of {name} are "
                f"small. Omit it."
            )
        return _prepare_csv(
            name, Path(root), Path(out), add_reverse=add_reverse,
            drop_loops=drop_loops, dtype=dtype, memory=memory,
            progress=progress,
        )  # fmt: skip
    if name not in DATASETS:
        raise DGLError(
            f"name={name!r} is not known: choose one of "
            f"{', '.join([*DATASETS, *ogb.DATASETS])}."
        )
    check_output(Path(out), KIND, FILES, resume=True)
    # Before the hours that the edges take.
    split_room(Budget(parse_bytes(memory)))
    stored = check_stored(dtype)
    dataset = DATASETS[name]

    def wanted(home: Path) -> list[Path]:
        raw = home / "raw"
        files = [raw / "node-label.npz", *dataset.split_files(home).values()]
        parts = (Path(out) / part / MANIFEST for part in ("graph", "feat"))
        if not all(part.exists() for part in parts):
            files.insert(0, raw / "data.npz")
        return files

    home = find_files(name, dataset, Path(root), wanted)
    data = home / "raw" / "data.npz"
    if data.exists():
        _check_rows(data, feature_source(data).shape[0], _num_nodes(data))
    graph_options: dict[str, Any] = {
        "add_reverse": add_reverse,
        "drop_loops": drop_loops,
    }
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
    _check_rows(data, feat.shape[0], graph.num_nodes())
    _labels_and_split(name, home, Path(out), graph, feat, memory)
    return DiskData(out)


def _prepare_csv(name: str, root: Path, out: Path, **options: Any) -> DiskData:
    """Turn OGB's csv files into a task on disk."""
    files = ogb.find_csv(name, root)
    data = prepare(
        files["edge"], files["node-feat"], out, labels=files["node-label"],
        split={split: files[split] for split in SPLITS},
        columns={"id": ""}, header=False, delimiter=",", **options,
    )  # fmt: skip
    counts = ogb.read_csv(files["num-node-list"], np.int64, columns=1)
    if counts.tolist() != [[data.graph.num_nodes()]]:
        raise DGLError(
            f"{files['num-node-list']} says {counts.tolist()}, but "
            f"{files['node-feat']} has {data.graph.num_nodes()} rows."
        )
    return data


def _step(
    kind: type[Opened],
    folder: Path,
    options: dict[str, Any],
    raw: Path,
    make: Callable[[], Opened],
) -> Opened:
    """Make a part of the task, or open it where the raw file was deleted."""
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


def _check_rows(data: Path, rows: int, num_nodes: int) -> None:
    if rows != num_nodes:
        raise DGLError(
            f"{data}: node_feat has {rows} rows, but there are {num_nodes} "
            f"nodes."
        )


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
    name: str,
    home: Path,
    out: Path,
    graph: DiskGraph,
    feat: DiskFeatures,
    memory: int | str,
) -> None:
    dataset = DATASETS[name]
    splits = dataset.split_files(home)
    labels = Member(home / "raw" / "node-label.npz", "node_label")
    made_from = {"labels": labels.made_from()}
    made_from |= {split: file_stamp(path) for split, path in splits.items()}
    # Only what stands for the content: files may be copied.
    for stamp in made_from.values():
        stamp.pop("modified", None)
        stamp.pop("inode", None)
    options = {"name": name, "graph": graph.key, "feat": feat.key}
    with build(out, KIND, FILES, made_from, options) as work:
        if work is None:
            return
        n, classes = graph.num_nodes(), dataset.num_classes
        write_labels(labels, work, n, classes)
        write_split(splits, work, n, Budget(parse_bytes(memory)))
        work.finish(name=name, num_classes=classes, parts=[graph.key, feat.key])
