"""Checking the arguments of a task in memory."""

import operator
from typing import TYPE_CHECKING, Any

import dgl
import torch
from dgl import DGLError

from ..node_rows import check_ids
from .splits import SPLITS

if TYPE_CHECKING:
    from .node_data import NodeData


def check_task(data: "NodeData") -> None:
    """Raise an error that names the first argument with something wrong.

    Masks of the split are replaced by ids.
    """
    _check_graph("graph", data.graph)
    for name in ("feat", "labels"):
        _check_tensor(name, getattr(data, name), data.graph)
    for name in SPLITS:
        ids = _check_ids(name, getattr(data, name), data.graph)
        setattr(data, name, ids)
    data.num_classes = _check_count(data.num_classes)
    _check_feat(data)
    _check_labels(data)
    _check_splits(data)
    _check_train_graph(data)


def _check_feat(data: "NodeData") -> None:
    if data.feat.dim() != 2:
        raise DGLError(
            f"feat should have two dimensions, (nodes, columns), got "
            f"shape {tuple(data.feat.shape)}."
        )
    if data.feat.shape[0] != data.graph.num_nodes():
        raise DGLError(
            f"feat has {data.feat.shape[0]} rows, but graph has "
            f"{data.graph.num_nodes()} nodes: give a row for each node."
        )
    if data.feat.shape[1] == 0:
        raise DGLError("feat has no columns: give at least one.")
    if data.feat.dtype != torch.float32:
        raise DGLError(f"feat is {data.feat.dtype}: use feat.float().")


def _check_labels(data: "NodeData") -> None:
    labels, n = data.labels, data.graph.num_nodes()
    if labels.dim() == 2 and labels.shape[1] > 1:
        raise DGLError(
            f"labels has shape {tuple(labels.shape)}: give the class of "
            f"each node; for one-hot rows that is labels.argmax(1). Nodes "
            f"with several labels are not supported."
        )
    if labels.dim() != 1:
        raise DGLError(
            f"labels should have one dimension, got shape "
            f"{tuple(labels.shape)}: use labels.reshape(-1)."
        )
    if len(labels) != n:
        raise DGLError(
            f"labels has {len(labels)} entries, but graph has {n} nodes: "
            f"give one for each node, -1 where there is none."
        )
    if labels.dtype != torch.int64:
        raise DGLError(
            f"labels is {labels.dtype}: give integers, -1 where there is "
            f"none, and use labels.long()."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < -1:
        raise DGLError(
            f"labels holds {low}: classes are counted from 0; mark a node "
            f"that has none with -1."
        )
    if high >= data.num_classes:
        raise DGLError(
            f"labels holds class {high}, but num_classes is "
            f"{data.num_classes}: classes go from 0 to num_classes - 1."
        )


def _check_splits(data: "NodeData") -> None:
    n = data.graph.num_nodes()
    owner = torch.full((n,), -1, dtype=torch.int8)
    owner = owner.to(data.graph.device)
    for index, name in enumerate(SPLITS):
        ids = getattr(data, name)
        taken = owner[ids]
        if (taken >= 0).any():
            place = int((taken >= 0).nonzero()[0])
            other = SPLITS[int(taken[place])]
            raise DGLError(
                f"node {int(ids[place])} is in {other} and in {name}: a "
                f"node may be in one split only."
            )
        owner[ids] = index
        if int((owner == index).sum()) < len(ids):
            raise DGLError(
                f"{name} holds some nodes more than once: use {name}.unique()."
            )
        bare = (data.labels[ids] < 0).nonzero()
        if len(bare):
            raise DGLError(
                f"{name} holds node {int(ids[bare[0]])}, the label of "
                f"which is -1, none: omit such nodes, with "
                f"{name}[labels[{name}] >= 0]."
            )


def _check_train_graph(data: "NodeData") -> None:
    graph = data._train_graph
    if graph is None:
        return
    _check_graph("the training graph", graph)
    if graph.num_nodes() != data.graph.num_nodes():
        raise DGLError(
            f"the training graph has {graph.num_nodes()} nodes, but graph "
            f"has {data.graph.num_nodes()}: node ids should be the same, "
            f"and nodes outside training isolated."
        )
    degrees = graph.in_degrees() + graph.out_degrees()
    for name in ("valid", "test"):
        ids = getattr(data, name)
        seen = degrees[ids].nonzero()
        if len(seen):
            raise DGLError(
                f"the training graph has an edge at node "
                f"{int(ids[seen[0]])}, which is in {name}: omit "
                f"edges at nodes that training may not see."
            )


def _check_graph(name: str, graph: object) -> None:
    if not isinstance(graph, dgl.DGLGraph):
        raise DGLError(
            f"{name} should be a DGLGraph, got {type(graph).__name__}."
        )
    if graph.is_block or not graph.is_homogeneous:
        raise DGLError(
            f"{name} should have one node type and one edge type: take one "
            f"relation with dgl.edge_type_subgraph, or merge them with "
            f"dgl.to_homogeneous."
        )
    if graph.num_nodes() == 0:
        raise DGLError(f"{name} has no nodes.")


def _check_tensor(name: str, tensor: object, graph: dgl.DGLGraph) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise DGLError(
            f"{name} should be a tensor, got {type(tensor).__name__}: use "
            f"torch.as_tensor({name})."
        )
    if tensor.layout != torch.strided:
        raise DGLError(f"{name} is sparse: use {name}.to_dense().")
    _check_device(name, tensor, graph)


def _check_device(name: str, tensor: torch.Tensor, graph: dgl.DGLGraph) -> None:
    if tensor.device != graph.device:
        raise DGLError(
            f"{name} is on {tensor.device} and graph on {graph.device}: put "
            f"all on one device, with {name}.to(graph.device)."
        )


def _check_count(num_classes: object) -> int:
    try:
        if isinstance(num_classes, bool):
            raise TypeError
        count = operator.index(num_classes)  # type: ignore[arg-type]
    except TypeError:
        raise DGLError(
            f"num_classes should be an integer, got {num_classes!r}."
        ) from None
    if count < 1:
        raise DGLError(f"num_classes should be at least 1, got {count}.")
    return count


def _check_ids(name: str, ids: Any, graph: dgl.DGLGraph) -> torch.Tensor:
    if isinstance(ids, torch.Tensor):
        _check_device(name, ids, graph)
    n = graph.num_nodes()
    found = check_ids(ids, name, n).to(graph.device)
    if len(found) == 0:
        raise DGLError(f"{name} is empty: name at least one node.")
    if int(found.max()) >= n:
        raise DGLError(
            f"{name} holds {int(found.max())}, but graph has nodes 0 to "
            f"{n - 1}."
        )
    return found
