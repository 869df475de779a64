"""Tasks of the Open Graph Benchmark, from the csv files as published."""

import os
import zlib
from pathlib import Path

import dgl
import numpy as np
import pandas as pd
import torch
from dgl import DGLError

from ..storage.numpy_files import check_range
from .node_data import SPLITS, NodeData
from .ogb_download import OgbDataset, download
from .undirected import both_directions

_RAW = ("edge", "node-feat", "node-label", "num-node-list")
_BROKEN = (OSError, EOFError, ValueError, OverflowError, zlib.error)


#: Those with one graph, features and one class for each node.
DATASETS = {
    "ogbn-arxiv": OgbDataset("arxiv", "time", 40, 300 * 10**6),
    "ogbn-products": OgbDataset("products", "sales_ranking", 47, 4 * 10**9),
}
#: Known by name, and read elsewhere.
PAPERS = "ogbn-papers100m"


def load_ogb(
    name: str,
    folder: str | os.PathLike = "dataset",
    *,
    add_reverse: bool = True,
) -> NodeData:
    """Read a task of the Open Graph Benchmark, from OGB's raw files.

    Where they are missing, OGB's own functions download them. What OGB made
    of them earlier (``processed``, ``split_dict.pt``) is not used: nothing
    is unpickled.

    Parameters
    ----------
    name : str
        ogbn-arxiv or ogbn-products.
    folder : path, optional
        Where OGB puts its datasets, its ``root``; the files of ogbn-arxiv
        are in ``ogbn_arxiv`` there. The folder of the dataset will do too.
    add_reverse : bool, optional
        Whether to make the graph undirected: every edge in both directions,
        once. The files have one direction: citations, in ogbn-arxiv; in
        ogbn-products the half of an undirected graph that OGB completes.
        Default: True.

    Returns
    -------
    NodeData
        The task, with OGB's split.
    """
    key = str(name).lower().replace("_", "-")
    if key == PAPERS:
        raise DGLError(
            "ogbn-papers100M does not fit into memory: turn its files into a "
            "task on disk with dgl_lc.data.prepare_ogb(root, out)."
        )
    if key not in DATASETS:
        raise DGLError(
            f"name={name!r} is not known: choose one of {', '.join(DATASETS)}."
        )
    dataset = DATASETS[key]
    base = Path(folder)
    home = base
    if not (base / "raw").is_dir():
        home = base / key.replace("-", "_")
        if not home.is_dir() or not any(home.iterdir()):
            download(key, dataset, base, home, _files(dataset, home))
    missing = [
        str(file) for file in _files(dataset, home) if not file.is_file()
    ]
    if missing:
        raise DGLError(
            f"{key} is incomplete: {', '.join(missing)} not there. Unpack "
            f"{dataset.url} again, or remove {home} to have it downloaded."
        )
    return _read(key, home, add_reverse)


def _files(dataset: OgbDataset, home: Path) -> list[Path]:
    raw = [home / "raw" / f"{name}.csv.gz" for name in _RAW]
    return raw + [_split_file(dataset, home, split) for split in SPLITS]


def _split_file(dataset: OgbDataset, home: Path, split: str) -> Path:
    return home / "split" / dataset.split / f"{split}.csv.gz"


def _read(name: str, home: Path, add_reverse: bool) -> NodeData:
    dataset = DATASETS[name]
    edge, node_feat, node_label, num_node_list = _files(dataset, home)[:4]
    counts = read_csv(num_node_list, np.int64, columns=1)
    if len(counts) != 1:
        raise DGLError(
            f"{num_node_list} should hold one number, the nodes of the one "
            f"graph, got {len(counts)}."
        )
    n = int(counts[0, 0])
    source, target = read_csv(edge, np.int64, columns=2).T
    for ends in (source, target):
        check_range(ends, n, str(edge), "nodes")
    if add_reverse:
        source, target = both_directions(source, target, n)
    feat = read_csv(node_feat, np.float32)
    if np.isnan(feat).any():
        raise DGLError(f"{node_feat} has empty fields, or nan.")
    labels = read_csv(node_label, np.int64, columns=1)[:, 0]
    for file, rows in ((node_feat, feat), (node_label, labels)):
        if len(rows) != n:
            raise DGLError(
                f"{file} has {len(rows)} rows, but {num_node_list} says "
                f"{n} nodes."
            )
    splits = {}
    for split in SPLITS:
        ids = read_csv(_split_file(dataset, home, split), np.int64, columns=1)
        splits[split] = torch.from_numpy(ids[:, 0].copy())
    try:
        return NodeData(
            graph=dgl.graph(
                (
                    torch.from_numpy(np.ascontiguousarray(source)),
                    torch.from_numpy(np.ascontiguousarray(target)),
                ),
                num_nodes=n,
            ),
            feat=torch.from_numpy(feat),
            labels=torch.from_numpy(labels.copy()),
            num_classes=dataset.num_classes,
            name=name,
            inductive=False,
            **splits,
        )
    except DGLError as error:
        raise DGLError(f"{home}: {error}") from None


def read_csv(path: Path, dtype: type, columns: int | None = None) -> np.ndarray:
    """A matrix of numbers, without a header."""
    try:
        table = pd.read_csv(path, compression="gzip", header=None, dtype=dtype)
    except _BROKEN as error:
        raise DGLError(f"{path} cannot be read: {error}") from None
    if columns is not None and table.shape[1] != columns:
        raise DGLError(
            f"{path} has {table.shape[1]} columns, wanted "
            f"{'is' if columns == 1 else 'are'} {columns}."
        )
    # Column after column in pandas; a gather of rows wants them contiguous.
    return np.array(table.to_numpy(), order="C")
