"""Tasks in the files of GraphSAINT: Flickr, and the Reddit of the paper."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from .._common.json_files import read_json
from ..storage.numpy_files import (
    check_range,
    csr_rows,
    integers,
    read_npy,
    read_npz,
)
from .node_data import NodeData, errors_name

FILES = (
    "adj_full.npz",
    "adj_train.npz",
    "feats.npy",
    "class_map.json",
    "role.json",
)
_ROLES = {"train": "tr", "valid": "va", "test": "te"}
#: Rows that are standardised at a time.
_ROWS = 16_384


def load_graphsaint(
    folder: str | os.PathLike, standardize: bool = True
) -> NodeData:
    """Read a task from a folder with GraphSAINT's files.

    These are ``adj_full.npz`` and ``adj_train.npz`` (CSR matrices as SciPy
    saves them; a node gathers from the columns of its row), ``feats.npy``,
    ``class_map.json`` and ``role.json``. The task is inductive, and its
    training graph is that of ``adj_train.npz``.

    Parameters
    ----------
    folder : path
        The folder.
    standardize : bool
        Whether to shift and scale each column by the mean and the standard
        deviation of the training nodes, as GraphSAINT does.

    Returns
    -------
    NodeData
        The task, named as the folder. A node with several labels is an
        error.
    """
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DGLError(
            f"{folder} has no {', '.join(missing)}: GraphSAINT's format has "
            f"{', '.join(FILES)}."
        )
    graph = _read_graph(folder / "adj_full.npz")
    train_graph = _read_graph(folder / "adj_train.npz")
    n = graph.num_nodes()
    labels, num_classes = _read_labels(folder / "class_map.json", n)
    splits = _read_roles(folder / "role.json", n)
    feats = read_npy(folder / "feats.npy", mapped=True)
    if feats.ndim != 2 or feats.dtype.kind not in "fiub" or len(feats) != n:
        raise DGLError(
            f"{folder / 'feats.npy'} should hold numbers in {n} rows, one for "
            f"each node, got {feats.dtype} of shape {feats.shape}."
        )
    # In the order of the file: the rows of a large file are read faster.
    train = np.sort(splits["train"]) if standardize else None
    feat = _features(feats, train)
    nodes: dict[str, Any] = {
        name: torch.from_numpy(ids) for name, ids in splits.items()
    }
    with errors_name(folder):
        return NodeData(
            graph=graph,
            feat=feat,
            labels=torch.from_numpy(labels),
            **nodes,
            num_classes=num_classes,
            name=folder.resolve().name,
            inductive=True,
            _train_graph=train_graph,
        )


def _read_graph(path: Path) -> dgl.DGLGraph:
    keys = ("data", "indices", "indptr", "shape")
    arrays = read_npz(path, (*keys, "format"))
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DGLError(
            f"{path} has no {', '.join(missing)}: save the adjacency matrix "
            f"with scipy.sparse.save_npz, in CSR format."
        )
    form = arrays.get("format", np.array("csr")).tolist()
    if form not in (b"csr", "csr"):
        raise DGLError(
            f"{path} is in the format {form!r}: save matrix.tocsr()."
        )
    shape = integers(arrays["shape"], f"{path}: shape")
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise DGLError(
            f"{path} has shape {tuple(shape.tolist())}: an adjacency matrix "
            f"is square, and has a row for each node."
        )
    n = int(shape[0])
    source = integers(arrays["indices"], f"{path}: indices")
    indptr = integers(arrays["indptr"], f"{path}: indptr")
    target = csr_rows(indptr, source, (n, n), str(path))
    data = arrays["data"]
    if data.shape != source.shape or data.dtype.kind not in "fiub":
        raise DGLError(
            f"{path}: data should hold a number for each of the "
            f"{len(source)} indices, got {data.dtype} of shape {data.shape}."
        )
    # A stored zero is no edge; other values are not weights, but counts of
    # nothing: GraphSAINT itself takes them as true.
    there = data != 0
    return dgl.graph(
        (torch.from_numpy(source[there]), torch.from_numpy(target[there])),
        num_nodes=n,
    )


def _read_roles(path: Path, num_nodes: int) -> dict[str, np.ndarray]:
    roles = read_json(path)
    splits = {}
    for name, role in _ROLES.items():
        ids = roles.get(role)
        if not isinstance(ids, list) or not ids:
            raise DGLError(
                f"{path}: {role} should be a list of {name} node ids."
            )
        splits[name] = _plain_integers(ids, f"{path}: {role}")
        check_range(splits[name], num_nodes, f"{path}: {role}", "nodes")
    return splits


def _read_labels(path: Path, num_nodes: int) -> tuple[np.ndarray, int]:
    """The labels, and how many classes there are."""
    class_map = read_json(path)
    try:
        nodes = [int(node) for node in class_map]
    except ValueError as error:
        raise DGLError(f"{path}: keys should be node ids: {error}") from None
    if not nodes:
        raise DGLError(f"{path} is empty: give the class of each node.")
    if len(set(nodes)) < len(nodes):
        raise DGLError(f"{path} holds a node more than once.")
    if min(nodes) < 0 or max(nodes) >= num_nodes:
        wrong = min(nodes) if min(nodes) < 0 else max(nodes)
        raise DGLError(
            f"{path} holds node {wrong}, but there are nodes 0 to "
            f"{num_nodes - 1}."
        )
    values = list(class_map.values())
    if isinstance(values[0], list):
        classes, num_classes = _one_hot(values, path)
    else:
        classes = _plain_integers(values, str(path))
        if classes.min() < 0:
            raise DGLError(
                f"{path} holds the class {classes.min()}: omit nodes "
                f"that have none."
            )
        # GraphSAINT counts classes from the lowest one.
        classes -= classes.min()
        num_classes = int(classes.max()) + 1
    labels = np.full(num_nodes, -1, dtype=np.int64)
    labels[nodes] = classes
    return labels, num_classes


def _plain_integers(values: list[Any], what: str) -> np.ndarray:
    # NumPy would turn true into 1, and a mixture into a string.
    if not all(type(value) is int for value in values):
        raise DGLError(f"{what} should hold integers only.")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise DGLError(f"{what} holds integers that are too large.") from None


def _one_hot(values: list[Any], path: Path) -> tuple[np.ndarray, int]:
    try:
        rows = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or not np.isin(rows, (0, 1)).all():
        raise DGLError(
            f"{path} should hold an integer, or a list of zeros and ones of "
            f"one length, for each node."
        )
    wrong = np.flatnonzero(rows.sum(axis=1) != 1)
    if len(wrong):
        raise DGLError(
            f"{path}: {len(wrong)} nodes have several labels, or none. "
            f"Multi-label tasks are not supported: give each node one class."
        )
    return rows.argmax(axis=1), rows.shape[1]


def _features(feats: np.ndarray, train: np.ndarray | None) -> torch.Tensor:
    """The features in float32, standardised if there are training nodes."""
    shift, scale = np.zeros(1), np.ones(1)
    made = np.empty(feats.shape, dtype=np.float32)
    # Numbers that are infinite, or nan, stay so.
    with np.errstate(all="ignore"):
        if train is not None:
            shift, scale = _moments(feats, train)
        for begin in range(0, len(feats), _ROWS):
            rows = slice(begin, begin + _ROWS)
            made[rows] = (feats[rows].astype(np.float64) - shift) / scale
    return torch.from_numpy(made)


def _moments(
    feats: np.ndarray, train: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over training nodes, piece by piece."""

    def pieces() -> Iterator[np.ndarray]:
        for begin in range(0, len(train), _ROWS):
            yield feats[train[begin : begin + _ROWS]].astype(np.float64)

    zero = np.zeros(feats.shape[1])
    mean = sum((p.sum(axis=0) for p in pieces()), zero) / len(train)
    variance = sum((((p - mean) ** 2).sum(axis=0) for p in pieces()), zero)
    scale = np.sqrt(variance / len(train))
    # The mean of equal numbers is off by rounding, so that a constant column
    # has a tiny deviation, which would blow up the other nodes' values.
    first = feats[train[0]].astype(np.float64)
    varies = sum(((p != first).any(axis=0) for p in pieces()), zero)
    return mean, np.where(varies > 0, scale, 1.0)
