"""Tasks of the Open Graph Benchmark, from the csv files as published."""

import os
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..storage.csv_file import read_tables
from ..storage.numpy_files import check_range
from .node_data import SPLITS, NodeData, errors_name
from .ogb_download import OgbDataset, find_files
from .undirected import both_directions

_RAW = ("edge", "node-feat", "node-label", "num-node-list")

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

    If they are missing, OGB's own functions download them. What OGB made of
    them earlier (``processed``, ``split_dict.pt``) is not used, because
    nothing is ever unpickled.

    Parameters
    ----------
    name : str
        ogbn-arxiv or ogbn-products.
    folder : path, optional
        Where OGB puts its datasets, its ``root``; the files of ogbn-arxiv
        are in ``ogbn_arxiv`` there. The folder of the dataset itself is
        accepted too.
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
    return _read(key, find_csv(key, Path(folder)), add_reverse)


def find_csv(name: str, folder: Path) -> dict[str, Path]:
    """Find the files of a dataset by name, or download them.

    Those of the split are called train, valid and test.
    """
    dataset = DATASETS[name]

    def files(home: Path) -> dict[str, Path]:
        raw = {part: home / "raw" / f"{part}.csv.gz" for part in _RAW}
        return raw | dataset.split_files(home)

    home = find_files(
        name, dataset, folder, lambda home: list(files(home).values())
    )
    return files(home)


def _read(name: str, files: dict[str, Path], add_reverse: bool) -> NodeData:
    edge, node_feat, node_label, num_node_list = (files[raw] for raw in _RAW)
    counts = read_csv(num_node_list, np.int64, columns=1)
    if len(counts) != 1:
        raise DGLError(
            f"{num_node_list} should hold one number, the nodes of the one "
            f"graph, got {len(counts)}."
        )
    n = int(counts[0, 0])
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
    source, target = read_csv(edge, np.int64, columns=2).T
    for ends in (source, target):
        check_range(ends, n, str(edge), "nodes")
    if add_reverse:
        source, target = both_directions(source, target, n)
    splits: dict[str, Any] = {
        split: torch.from_numpy(
            read_csv(files[split], np.int64, columns=1)[:, 0]
        )
        for split in SPLITS
    }
    with errors_name(edge.parents[1]):
        return NodeData(
            graph=dgl.graph(
                (
                    torch.from_numpy(np.ascontiguousarray(source)),
                    torch.from_numpy(np.ascontiguousarray(target)),
                ),
                num_nodes=n,
            ),
            feat=torch.from_numpy(feat),
            labels=torch.from_numpy(labels),
            num_classes=DATASETS[name].num_classes,
            name=name,
            inductive=False,
            **splits,
        )


def read_csv(path: Path, dtype: Any, columns: int | None = None) -> np.ndarray:
    """Read a matrix of numbers, without a header."""
    # pandas gives column after column; a gather of rows is faster if these
    # are contiguous.
    tables = [np.ascontiguousarray(table) for table in read_tables(path, dtype)]
    if not tables:
        raise DGLError(f"{path} cannot be read: it is empty.")
    found = np.concatenate(tables)
    if columns is not None and found.shape[1] != columns:
        raise DGLError(
            f"{path} has {found.shape[1]} columns, but should have {columns}."
        )
    return found
