"""Tasks of the Open Graph Benchmark, from the csv files as published."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import dgl
import numpy as np
import pandas as pd
import torch
from dgl import DGLError

from .arrays import check_range
from .node_data import SPLITS, NodeData
from .undirected import both_directions

_RAW = ("edge", "node-feat", "node-label", "num-node-list")
_BROKEN = (OSError, EOFError, ValueError, OverflowError, zlib.error)


@dataclass(frozen=True)
class _Dataset:
    archive: str
    split: str
    num_classes: int

    @property
    def url(self) -> str:
        base = "http://snap.stanford.edu/ogb/data/nodeproppred"
        return f"{base}/{self.archive}.zip"


#: Those with one graph, features and one class for each node.
DATASETS = {
    "ogbn-arxiv": _Dataset("arxiv", "time", 40),
    "ogbn-products": _Dataset("products", "sales_ranking", 47),
}
#: Known by name, and refused.
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
            "ogbn-papers100M is stored as binary files of 57 GB and more: it "
            "comes with out-of-core support, in a later version."
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
            _download(key, base, home)
    missing = [
        str(file) for file in _files(dataset, home) if not file.is_file()
    ]
    if missing:
        raise DGLError(
            f"{key} is incomplete: {', '.join(missing)} not there. Unpack "
            f"{dataset.url} again, or remove {home} to have it downloaded."
        )
    return _read(key, home, add_reverse)


def _files(dataset: _Dataset, home: Path) -> list[Path]:
    raw = [home / "raw" / f"{name}.csv.gz" for name in _RAW]
    return raw + [_split_file(dataset, home, split) for split in SPLITS]


def _split_file(dataset: _Dataset, home: Path, split: str) -> Path:
    return home / "split" / dataset.split / f"{split}.csv.gz"


def _download(name: str, folder: Path, home: Path) -> None:
    dataset = DATASETS[name]
    try:
        # Not at the top: OGB asks the network for its newest version.
        from ogb.utils.url import decide_download, download_url, extract_zip

        # Above 1 GB it asks, and a run without a terminal cannot answer.
        if not decide_download(dataset.url):
            raise RuntimeError("it was declined")
        archive = download_url(dataset.url, str(folder))
        try:
            extract_zip(archive, str(folder))
        finally:
            # A broken one would be used again.
            os.unlink(archive)
        if home.is_dir():
            home.rmdir()
        os.replace(folder / dataset.archive, home)
    except Exception as error:
        wanted = ", ".join(
            str(file.relative_to(home)) for file in _files(dataset, home)
        )
        raise DGLError(
            f"{name} could not be downloaded ({type(error).__name__}: "
            f"{error}). Without a network, get {dataset.url} elsewhere and "
            f"unpack it so that {home} has {wanted}."
        ) from error


def _read(name: str, home: Path, add_reverse: bool) -> NodeData:
    dataset = DATASETS[name]
    edge, node_feat, node_label, num_node_list = _files(dataset, home)[:4]
    counts = _csv(num_node_list, np.int64, columns=1)
    if len(counts) != 1:
        raise DGLError(
            f"{num_node_list} should hold one number, the nodes of the one "
            f"graph, got {len(counts)}."
        )
    n = int(counts[0, 0])
    source, target = _csv(edge, np.int64, columns=2).T
    for ends in (source, target):
        check_range(ends, n, str(edge), "nodes")
    if add_reverse:
        source, target = both_directions(source, target, n)
    feat = _csv(node_feat, np.float32)
    if np.isnan(feat).any():
        raise DGLError(f"{node_feat} has empty fields, or nan.")
    labels = _csv(node_label, np.int64, columns=1)[:, 0]
    for file, rows in ((node_feat, feat), (node_label, labels)):
        if len(rows) != n:
            raise DGLError(
                f"{file} has {len(rows)} rows, but {num_node_list} says "
                f"{n} nodes."
            )
    splits = {}
    for split in SPLITS:
        ids = _csv(_split_file(dataset, home, split), np.int64, columns=1)
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


def _csv(path: Path, dtype: type, columns: int | None = None) -> np.ndarray:
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
