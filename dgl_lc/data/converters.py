"""Tasks from objects of other libraries: what NodeData is made of.

None of these libraries is imported here, except scipy, which DGL needs. An
object is taken for what it has: PyG's ``edge_index``, the ``nodes`` and
``edges`` of networkx, the columns of a pandas frame.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError
from scipy import sparse

from ..node_rows import and_others
from ..precompute.graph.adjacency import as_graph
from ..storage.table_files import USUAL_NAMES
from .classes import EncodedLabels, encode_labels
from .splits import FRACTIONS, make_split, split_by_words
from .undirected import both_directions
from .user_ids import UserIds

_PYG_MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}


def pyg_arguments(
    data: Any, split: Any, seed: int, name: str
) -> dict[str, Any]:
    """Read x, edge_index, y, edge_weight and masks of PyG's Data."""
    if getattr(data, "edge_index", None) is None:
        advice = (
            "give a Data object with edge_index; of a data set that is "
            "dataset[0], of HeteroData data.to_homogeneous(), and "
            "ToSparseTensor should be omitted"
        )
        raise DGLError(f"data has no edge_index: {advice}.")
    for key, what in (("x", "features"), ("y", "labels")):
        if getattr(data, key, None) is None:
            raise DGLError(f"data.{key} is missing: set it to the {what}.")
    feat = _features(data.x, "data.x")
    weight = getattr(data, "edge_weight", None)
    edges = torch.as_tensor(data.edge_index)
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise DGLError(
            f"data.edge_index should have shape (2, edges), got "
            f"{tuple(edges.shape)}."
        )
    graph, _ = as_graph((edges[0], edges[1]), len(feat))
    classes = encode_labels(data.y, "data.y", keep=True)
    if split is None or isinstance(split, int):
        split = _pyg_masks(data, split)
    return _arguments(graph, feat, classes, weight, split, seed, name)


def _pyg_masks(data: Any, column: int | None) -> Any:
    masks: dict[str, torch.Tensor] = {}
    for part, key in _PYG_MASKS.items():
        mask = getattr(data, key, None)
        if mask is None:
            if column is None and not masks:
                return None
            raise DGLError(
                f"data.{key} is missing: give split=, three fractions or a "
                f"mapping of train, valid and test to ids or masks."
            )
        masks[part] = _choose_column(torch.as_tensor(mask), key, column)
    return masks


def _choose_column(
    mask: torch.Tensor, key: str, column: int | None
) -> torch.Tensor:
    mask = mask.bool()
    if mask.dim() != 2:
        return mask
    if column is None or not 0 <= column < mask.shape[1]:
        raise DGLError(
            f"data.{key} has {mask.shape[1]} columns, one for each split: "
            f"choose one with split=0 to split={mask.shape[1] - 1}."
        )
    return mask[:, column]


def scipy_arguments(
    adj: Any, x: Any, y: Any, node_ids: Any, split: Any, seed: int, name: str
) -> dict[str, Any]:
    """Read a scipy.sparse matrix, features and labels."""
    if not sparse.issparse(adj):
        raise DGLError(
            f"adj should be a scipy.sparse matrix, got {type(adj).__name__}: "
            f"use scipy.sparse.coo_array(adj) for a dense one."
        )
    # A copy, as methods of the matrix may change its arrays later.
    graph, weight = as_graph(adj.copy())
    ids = None if node_ids is None else UserIds(node_ids)
    classes = encode_labels(y, "y", keep=True)
    feat = _features(x, "x")
    return _arguments(graph, feat, classes, weight, split, seed, name, ids)


def networkx_arguments(
    graph: Any,
    features: Any,
    label: str,
    weight: str | None,
    split: Any,
    seed: int,
    name: str,
) -> dict[str, Any]:
    """Read a networkx graph; an undirected one gives both directions."""
    if not (hasattr(graph, "is_directed") and hasattr(graph, "adjacency")):
        raise DGLError(
            f"graph should be a networkx graph, got {type(graph).__name__}."
        )
    ids = UserIds(list(graph.nodes), "graph.nodes")
    if len(ids) == 0:
        raise DGLError("graph has no nodes.")
    directed = graph
    if not graph.is_directed():
        directed = graph.to_directed(as_view=True)
    ends = list(directed.edges()) if weight is None else list(
        directed.edges(data=weight)
    )  # fmt: skip
    source, target = (ids.find([edge[end] for edge in ends]) for end in (0, 1))
    values = None
    if weight is not None:
        values = _edge_values(ends, weight)
    rows = dict(graph.nodes(data=True))
    feat = _node_features(rows, features)
    labels = [own.get(label) for own in rows.values()]
    if all(value is None for value in labels):
        raise DGLError(
            f"no node of graph has the attribute {label!r}: name the one of "
            f"the labels with label=."
        )
    classes = encode_labels(labels, f"the attribute {label!r}")
    if split is None and any("split" in own for own in rows.values()):
        split = "split"
    if isinstance(split, str):
        words = [own.get(split) for own in rows.values()]
        split = split_by_words(words, f"the attribute {split!r}")
    made = dgl.graph((source, target), num_nodes=len(ids))
    return _arguments(made, feat, classes, values, split, seed, name, ids)


def _edge_values(ends: list[tuple], weight: str) -> torch.Tensor:
    for source, target, value in ends:
        if value is None:
            raise DGLError(
                f"the edge from {source!r} to {target!r} has no attribute "
                f"{weight!r}: give all edges one, or omit weight=."
            )
    values = [float(value) for _, _, value in ends]
    return torch.tensor(values, dtype=torch.float32)


def _node_features(rows: dict[Any, dict], features: Any) -> torch.Tensor:
    """Read attributes of nodes, or take an array with a row for each."""
    if not isinstance(features, str) and not _is_names(features):
        return _features(features, "features")
    names = [features] if isinstance(features, str) else list(features)
    for node, own in rows.items():
        for key in names:
            if own.get(key) is None:
                raise DGLError(
                    f"node {node!r} has no attribute {key!r}: name the "
                    f"attributes of the features with features=, or give an "
                    f"array with a row for each node, in the order of "
                    f"graph.nodes."
                )
    if isinstance(features, str):
        values = [np.atleast_1d(np.asarray(o[features])) for o in rows.values()]
    else:
        values = [np.array([o[key] for key in names]) for o in rows.values()]
    if any(value.shape != values[0].shape for value in values):
        raise DGLError(
            f"the attribute {features!r} has a different shape at different "
            f"nodes: give vectors of one length."
        )
    return _features(np.stack(values), f"the attribute {features!r}")


def _is_names(features: Any) -> bool:
    return isinstance(features, Sequence) and all(
        isinstance(name, str) for name in features
    )


def pandas_arguments(
    edges: Any,
    nodes: Any,
    source: Any,
    target: Any,
    weight: Any,
    node_id: Any,
    features: Any,
    label: Any,
    split: Any,
    seed: int,
    add_reverse: bool,
    name: str,
) -> dict[str, Any]:
    """Read a frame of edges and one of nodes."""
    for frame, what in ((edges, "edges"), (nodes, "nodes")):
        if not (hasattr(frame, "columns") and hasattr(frame, "index")):
            raise DGLError(
                f"{what} should be a pandas frame, got {type(frame).__name__}."
            )
    if len(edges.columns) < 2 and None in (source, target):
        raise DGLError("edges should have two columns, source and target.")
    source = edges.columns[0] if source is None else source
    target = edges.columns[1] if target is None else target
    ids = UserIds(*_node_id_column(nodes, node_id))
    if len(ids) == 0:
        raise DGLError("nodes has no rows: give one for each node.")
    ends = [
        ids.find(_column(edges, column, "edges"), f"edges[{column!r}]")
        for column in (source, target)
    ]
    if weight is True:
        weight = _weight_column(edges, (source, target))
    values = None
    if weight is not None and weight is not False:
        column = _column(edges, weight, "edges")
        values = _numbers(column, f"edges[{weight!r}]")
    if add_reverse:
        if values is not None:
            raise DGLError(
                f"add_reverse and weight={weight!r} can't be combined, as an "
                f"edge and its reverse may have two weights: add the reverse "
                f"edges to edges, or give weight=False to ignore the weights."
            )
        sources, targets = (end.numpy() for end in ends)
        pairs = both_directions(sources, targets, len(ids))
        ends = [torch.from_numpy(end) for end in pairs]
    if split is None and "split" in nodes.columns:
        split = "split"
    word_column = split if isinstance(split, str) else None
    if word_column is not None:
        words = _column(nodes, word_column, "nodes").tolist()
        split = split_by_words(words, f"nodes[{word_column!r}]")
    classes = encode_labels(_column(nodes, label, "nodes"), f"nodes[{label!r}]")
    if isinstance(features, str):
        features = [features]
    if not features:
        features = _number_columns(nodes, {node_id, label, word_column})
    feat = torch.stack(
        [
            _numbers(_column(nodes, key, "nodes"), f"nodes[{key!r}]")
            for key in features
        ],
        dim=1,
    )
    graph = dgl.graph((ends[0], ends[1]), num_nodes=len(ids))
    return _arguments(graph, feat, classes, values, split, seed, name, ids)


def _weight_column(edges: Any, ends: tuple[Any, Any]) -> Any:
    """Find the column that dgl-lc prepare takes for weights, or None."""
    for column in edges.columns:
        usual = str(column).lower() in USUAL_NAMES["weight"]
        if usual and column not in ends:
            return column
    return None


def _node_id_column(nodes: Any, node_id: Any) -> tuple[Any, str]:
    """Return the column of ids, or the index of the frame, and its name."""
    if node_id == "id" and "id" not in nodes.columns:
        return nodes.index.to_numpy(), "the index of nodes"
    return _column(nodes, node_id, "nodes"), f"nodes[{node_id!r}]"


def _column(frame: Any, column: Any, what: str) -> np.ndarray:
    if column not in frame.columns:
        raise DGLError(
            f"{what} has no column {column!r}: its columns are "
            f"{', '.join(repr(own) for own in frame.columns)}."
        )
    return frame[column].to_numpy()


def _number_columns(nodes: Any, others: Iterable[Any]) -> list[Any]:
    found = [
        column
        for column in nodes.columns
        if column not in others and nodes[column].to_numpy().dtype.kind in "iuf"
    ]
    if not found:
        raise DGLError(
            "nodes has no column of numbers for the features: name the "
            "columns with features=."
        )
    return found


def _numbers(column: np.ndarray, what: str) -> torch.Tensor:
    """Return a column of numbers as float32; a missing one is an error."""
    try:
        values = column.astype(np.float32)
    except (TypeError, ValueError):
        raise DGLError(f"{what} should hold numbers.") from None
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        row = int(missing[0])
        raise DGLError(
            f"{what} has no number in row {row}{and_others(len(missing))}: "
            f"fill it in, or drop the row."
        )
    return torch.from_numpy(values)


def _features(x: Any, what: str) -> torch.Tensor:
    """Return features as a dense float32 tensor."""
    if sparse.issparse(x):
        x = x.toarray()
    elif hasattr(x, "to_numpy"):
        x = x.to_numpy()
    if isinstance(x, torch.Tensor):
        return x.to_dense().float() if x.is_sparse else x.float()
    try:
        return torch.from_numpy(np.array(x, dtype=np.float32))
    except (TypeError, ValueError):
        raise DGLError(
            f"{what} should be an array of numbers with a row for each node, "
            f"got {type(x).__name__}."
        ) from None


def _refuse_nan(values: torch.Tensor, what: str, owner: str) -> None:
    """Refuse missing numbers, which would spread over the graph."""
    rows = values.isnan().reshape(len(values), -1).any(dim=1).nonzero()
    if len(rows):
        raise DGLError(
            f"the {what} hold nan at {owner} {int(rows[0])}"
            f"{and_others(len(rows))}: fill it in, or drop the {owner}."
        )


def _arguments(
    graph: dgl.DGLGraph,
    feat: torch.Tensor,
    classes: EncodedLabels,
    weight: Any,
    split: Any,
    seed: int,
    name: str,
    ids: UserIds | None = None,
) -> dict[str, Any]:
    """Put the arguments of NodeData together."""
    if len(classes.labels) != graph.num_nodes():
        raise DGLError(
            f"there are {len(classes.labels)} labels for {graph.num_nodes()} "
            f"nodes: give one for each node, -1 or None where there is none."
        )
    _refuse_nan(feat, "features", "node")
    if weight is not None:
        weight = torch.as_tensor(weight).detach()
        if len(weight) != graph.num_edges():
            raise DGLError(
                f"there are {len(weight)} edge weights for "
                f"{graph.num_edges()} edges: give one for each edge."
            )
        _refuse_nan(weight, "edge weights", "edge")
        graph.edata["weight"] = weight.reshape(len(weight))
    found = make_split(
        FRACTIONS if split is None else split,
        classes.labels,
        seed,
        None if ids is None else ids.find,
    )
    return {
        "graph": graph,
        "feat": feat,
        "labels": classes.labels,
        "num_classes": classes.num_classes,
        "class_names": classes.class_names,
        "node_ids": None if ids is None else ids.ids,
        "name": name,
        **found,
    }
