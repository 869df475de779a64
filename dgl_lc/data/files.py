"""Tasks in NumPy's files: one npz file, or a folder of npy files."""

import os
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from .._common.file_access import replace_buffered
from ..storage.numpy_files import (
    check_range,
    csr_rows,
    integers,
    read_npy,
    read_npz,
)
from .node_data import NodeData, errors_name
from .splits import SPLITS
from .undirected import both_directions

_NEEDED = ("edges", "labels", *SPLITS)
#: Another name of edges.
_SAME = "edge_index"
_SPARSE = ("feat_indptr", "feat_indices", "feat_data", "feat_dim")
#: Read from a folder as well as from a file.
_OPTIONAL = ("edge_weight", "class_names", "node_ids")
_EXTRA = ("num_nodes", "num_classes", "name", "inductive", "train_edges")


def load_npz(path: str | os.PathLike, add_reverse: bool = False) -> NodeData:
    """Read a task from an npz file, or from a folder of npy files.

    The keys of the file are the names of the files in the folder, where
    ``feat.npy`` is mapped into memory if it holds float32.

    ==============================  =========================================
    edges, or edge_index            integers (2, E): source and destination
    labels                          integers (n,), -1 where there is none
    train, valid, test              node ids, or masks (n,) of bools
    feat                            the features (n, d), or as a CSR matrix:
    feat_indptr, feat_indices,      feat_data of length 1 means that every
    feat_data, feat_dim             stored value is this one
    edge_weight                     optional: numbers (E,), which become
                                    ``graph.edata["weight"]``
    class_names                     optional: texts, one for each class
    node_ids                        optional: integers or texts (n,)
    num_nodes, num_classes, name,   optional, in a file
    inductive, train_edges
    ==============================  =========================================

    Parameters
    ----------
    path : path
        The file or the folder.
    add_reverse : bool
        Whether to make the graph undirected: every edge in both directions,
        once. Otherwise the edges are as stored.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_lc.data import block_model, save_npz
    >>> from dgl_lc.data.files import load_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_npz(block_model(100, num_feats=4), f"{folder}/task.npz")
    ...     data = load_npz(f"{folder}/task.npz")
    >>> data.feat.shape
    torch.Size([100, 4])
    """
    path = Path(path)
    if path.is_dir():
        arrays = _read_folder(path)
        name = path.resolve().name
    else:
        keys = (*_NEEDED, _SAME, "feat", *_SPARSE, *_OPTIONAL, *_EXTRA)
        arrays = read_npz(path, keys)
        name = path.stem
    if _SAME in arrays:
        if "edges" in arrays:
            raise DGLError(
                f"{path} has both edges and {_SAME}, two names for the same: "
                f"keep one of them."
            )
        arrays["edges"] = arrays.pop(_SAME)
    missing = [key for key in _NEEDED if key not in arrays]
    if "feat" not in arrays:
        left = [key for key in _SPARSE if key not in arrays]
        missing += ["feat"] if len(left) == len(_SPARSE) else left
    if missing:
        raise DGLError(
            f"{path} has no {', '.join(missing)}: a task has "
            f"{', '.join(_NEEDED)}, and feat or {', '.join(_SPARSE)}."
        )
    return _make(arrays, path, name, add_reverse)


def save_npz(data: NodeData, path: str | os.PathLike) -> None:
    """Write a task into an npz file that ``load`` reads.

    The file appears when it is complete: a run that is killed leaves an old
    file as it was. Features are stored dense. Of the data of the graph's
    nodes and edges only ``graph.edata["weight"]`` is stored.

    Parameters
    ----------
    data : NodeData
        The task.
    path : path
        The file; its name ends in .npz.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_lc.data import block_model, load, save_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_npz(block_model(100), f"{folder}/task.npz")
    ...     load(f"{folder}/task.npz").num_classes
    8
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise DGLError(f"path should end in .npz, got {str(path)!r}.")
    if not path.parent.is_dir():
        raise DGLError(f"path: the folder {str(path.parent)!r} does not exist.")
    arrays: dict[str, Any] = {
        "num_nodes": np.int64(data.graph.num_nodes()),
        "num_classes": np.int64(data.num_classes),
        "name": np.str_(data.name),
        "inductive": np.bool_(data.inductive),
        "edges": _edges(data.graph),
        "feat": data.feat.detach().cpu().numpy(),
        "labels": data.labels.cpu().numpy(),
    }
    for split in SPLITS:
        arrays[split] = getattr(data, split).cpu().numpy()
    if data._train_graph is not None:
        arrays["train_edges"] = _edges(data._train_graph)
    if data.edge_weight is not None:
        arrays["edge_weight"] = _weights(data.edge_weight)
    if data.class_names is not None:
        arrays["class_names"] = _texts(data.class_names, "class_names")
    if data.node_ids is not None:
        arrays["node_ids"] = data.node_ids
        if data.node_ids.dtype == object:
            arrays["node_ids"] = _texts(data.node_ids.tolist(), "node_ids")
    replace_buffered(path, lambda file: np.savez(file, **arrays))


def _edges(graph: dgl.DGLGraph) -> np.ndarray:
    small = graph.num_nodes() < 2**31
    # Only with COO does DGL give the edges in their order.
    edges = torch.stack(graph.formats(["coo", "csr", "csc"]).edges())
    return edges.to(torch.int32 if small else torch.int64).cpu().numpy()


def _weights(weight: torch.Tensor) -> np.ndarray:
    weight = weight.detach().cpu()
    # NumPy has no bfloat16.
    return (
        weight.float() if weight.dtype == torch.bfloat16 else weight
    ).numpy()


def _texts(values: list[Any], what: str) -> np.ndarray:
    """Return texts as an array of fixed width, which needs no pickle."""
    for value in values:
        if not isinstance(value, str) or value.endswith("\0"):
            raise DGLError(
                f"{what} holds {value!r}: only integers, and texts that do "
                f"not end in a zero character, can be saved."
            )
    return np.array(values, dtype=np.str_)


def _read_folder(path: Path) -> dict[str, np.ndarray]:
    arrays = {
        key: read_npy(path / f"{key}.npy", mapped=key == "feat")
        for key in (*_NEEDED, _SAME, "feat", *_OPTIONAL)
        if (path / f"{key}.npy").exists()
    }
    if "feat" not in arrays:
        raise DGLError(
            f"{path} has no feat.npy: a folder with a task has "
            f"{', '.join(f'{key}.npy' for key in (*_NEEDED, 'feat'))}."
        )
    return arrays


def _make(
    arrays: dict[str, np.ndarray], path: Path, name: str, add_reverse: bool
) -> NodeData:
    labels = integers(arrays["labels"], f"{path}: labels")
    n = _scalar(arrays, "num_nodes", path, len(labels))
    if n < 1:
        raise DGLError(f"{path} has {n} nodes: at least one is needed.")
    if len(labels) != n:
        raise DGLError(
            f"{path}: labels has {len(labels)} entries, but there are {n} "
            f"nodes: give one for each node, -1 where there is none."
        )
    classes = max(1, int(labels.max()) + 1)
    train_graph = None
    if "train_edges" in arrays:
        train_graph = _graph(
            arrays["train_edges"], n, f"{path}: train_edges", False
        )
    graph = _graph(arrays["edges"], n, f"{path}: edges", add_reverse)
    if "edge_weight" in arrays:
        if add_reverse:
            raise DGLError(
                f"{path} has edge_weight, so add_reverse can't be used: an "
                f"edge and its reverse may have two weights."
            )
        weight = _read_weight(arrays["edge_weight"], graph.num_edges(), path)
        graph.edata["weight"] = weight
    feat = _features(arrays, n, path)
    own: dict[str, Any] = {split: arrays[split] for split in SPLITS}
    for key in ("class_names", "node_ids"):
        if key in arrays:
            own[key] = _read_texts(arrays[key], key, path)
    with errors_name(path):
        return NodeData(
            graph=graph,
            feat=feat,
            labels=torch.from_numpy(labels),
            **own,
            num_classes=_scalar(arrays, "num_classes", path, classes),
            name=str(arrays.get("name", name)),
            inductive=bool(_scalar(arrays, "inductive", path, 0)),
            _train_graph=train_graph,
        )


def _read_weight(array: np.ndarray, num_edges: int, path: Path) -> torch.Tensor:
    if array.dtype.kind not in "fiub" or array.size != num_edges:
        raise DGLError(
            f"{path}: edge_weight should hold a number for each of "
            f"{num_edges} edges, got {array.dtype} of shape {array.shape}."
        )
    double = array.dtype.kind == "f" and array.dtype.itemsize == 8
    dtype = np.float64 if double else np.float32
    return torch.from_numpy(array.reshape(-1).astype(dtype))


def _read_texts(array: np.ndarray, key: str, path: Path) -> Any:
    kinds = "U" if key == "class_names" else "Uiu"
    if array.dtype.kind not in kinds or array.ndim != 1:
        raise DGLError(
            f"{path}: {key} should be a list of texts"
            f"{' or integers' * ('i' in kinds)}, got {array.dtype} of shape "
            f"{array.shape}."
        )
    return array.tolist() if array.dtype.kind == "U" else array


def _scalar(
    arrays: dict[str, np.ndarray], key: str, path: Path, default: int
) -> int:
    value = arrays.get(key)
    if value is None:
        return default
    if value.size != 1 or value.dtype.kind not in "iub":
        raise DGLError(
            f"{path}: {key} should be one integer, got {value.dtype} of shape "
            f"{value.shape}."
        )
    return int(value.reshape(()))


def _graph(
    edges: np.ndarray, num_nodes: int, what: str, add_reverse: bool
) -> dgl.DGLGraph:
    edges = integers(edges, what, ndim=2)
    if edges.shape[0] != 2:
        raise DGLError(
            f"{what} should have shape (2, E), sources and destinations, got "
            f"{edges.shape}: save edges.T if that is what it is."
        )
    source, target = edges
    for ids in (source, target):
        check_range(ids, num_nodes, what, "nodes")
    if add_reverse:
        source, target = both_directions(source, target, num_nodes)
    return dgl.graph(
        (torch.from_numpy(source), torch.from_numpy(target)),
        num_nodes=num_nodes,
    )


def _features(
    arrays: dict[str, np.ndarray], num_nodes: int, path: Path
) -> torch.Tensor:
    if "feat" not in arrays:
        return _dense(arrays, num_nodes, path)
    feat = arrays["feat"]
    if feat.dtype.kind not in "fiub":
        raise DGLError(
            f"{path}: feat should hold numbers, got {feat.dtype}: save it as "
            f"float32."
        )
    # Mapped features in the right type stay on the disk.
    with np.errstate(over="ignore"):
        return torch.from_numpy(feat.astype(np.float32, copy=False))


def _dense(
    arrays: dict[str, np.ndarray], num_nodes: int, path: Path
) -> torch.Tensor:
    indptr = integers(arrays["feat_indptr"], f"{path}: feat_indptr")
    indices = integers(arrays["feat_indices"], f"{path}: feat_indices")
    values = arrays["feat_data"].reshape(-1)
    columns = _scalar(arrays, "feat_dim", path, 0)
    if columns < 1:
        raise DGLError(f"{path}: feat_dim should be at least 1, got {columns}.")
    if values.dtype.kind not in "fiub" or len(values) not in (1, len(indices)):
        raise DGLError(
            f"{path}: feat_data should hold one number, or as many as "
            f"feat_indices, {len(indices)}; got {len(values)} of "
            f"{values.dtype}."
        )
    rows = csr_rows(indptr, indices, (num_nodes, columns), f"{path}: feat")
    try:
        feat = np.zeros((num_nodes, columns), dtype=np.float32)
    except (MemoryError, ValueError):
        raise DGLError(
            f"{path}: feat_dim={columns} is too large: {num_nodes} rows of so "
            f"many columns do not fit into memory."
        ) from None
    # Entries stored more than once add up, as in every CSR matrix.
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(feat, (rows, indices), values.astype(np.float32))
    return torch.from_numpy(feat)
