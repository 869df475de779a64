"""The rows of a task that a model reads from a store on disk.

A store is known by what it was made from, not by its path: it may have been
made on another machine.
"""

import os
from collections.abc import Mapping
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..data import DiskData, NodeData
from ..nn.model import HopModel
from ..node_rows import NodeRows
from ..precompute import open_store
from ..precompute.checks import check_weight, has_weights
from ..precompute.graph.in_edges import in_edges
from ..precompute.request import Request
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoredHops
from ..storage.input_store import StoredInputs


def open_task_store(
    path: str | os.PathLike, model: HopModel, data: NodeData | DiskData
) -> NodeRows:
    """Open a store whose rows the model reads, made from this task.

    A store that was made from other data or with another filter, or that
    lacks hops of the model, is an error that says which.

    Parameters
    ----------
    path : path
        The folder that ``block_aggregate`` or ``model.precompute`` wrote.
    model : HopModel
        The model.
    data : NodeData or DiskData
        The task.
    """
    rows = open_store(path)
    _check_weighted(rows, path, model, data)
    _check_made_from(rows, path, data, model.weighted_of(rows))
    first = torch.tensor([0]) if rows.nodes is None else rows.nodes[:1]
    try:
        model.inputs(None, rows.rows(first))
    except DGLError as error:
        raise DGLError(f"{path} does not suit the model: {error}") from None
    return rows


def _check_weighted(
    rows: StoredHops | StoredInputs,
    path: str | os.PathLike,
    model: HopModel,
    data: NodeData | DiskData,
) -> None:
    """Refuse a store that has weights where the model has none, or not."""
    found = model.weighted_of(rows)
    if found is None or not model.uses_weights:
        return
    made, other = ("with", "without") if found else ("without", "with")
    if model.weighted is not None and model.weighted != found:
        raise DGLError(
            f"{path} was made {made} edge weights, but the model was trained "
            f"{other} them: name a store that was made {other} them, or train "
            f"the model on this one."
        )
    if model.weighted is None and has_weights(data.graph) != found:
        has = "none" if found else "some"
        raise DGLError(
            f"{path} was made {made} edge weights, but {data.name} has {has}: "
            f"precompute its hop features again into a new folder."
        )


def _check_made_from(
    rows: StoredHops | StoredInputs,
    path: str | os.PathLike,
    data: NodeData | DiskData,
    weighted: bool | None,
) -> None:
    """Refuse a store whose keys are not those of the task."""
    update = ""
    if isinstance(rows, StoredHops):
        made_from = rows.head.made_from
        update = ", or bring it up to date with dgl-lc update"
    else:
        made_from = rows.made_from
    # The keys of the same call with this task.
    use = weighted is not False and has_weights(data.graph)
    head = Request.of(
        data.graph, data.feat, 0, weight="weight" if use else False
    ).store_head()
    different = [
        name
        for name in ("graph", "features")
        if made_from.get(name) != head.made_from[name]
    ]
    if not different:
        return
    raise DGLError(
        f"{path} was not made from the {' and the '.join(different)} of "
        f"{data.name}: the content differs, or one of them is a prepared "
        f"folder and the other is not, as keys of folders and of arrays are "
        f"never equal. Name the data it was made from, precompute again into "
        f"a new folder{update}."
    )


def check_graph_key(
    rows: StoredHops, path: str | os.PathLike, data: NodeData | DiskData
) -> None:
    """Refuse a store that was not made from the graph of a task."""
    weight = "weight" if rows.filter.weighted else False
    if weight and not has_weights(data.graph):
        raise DGLError(
            f"{path} was made with edge weights, but {data.name} has none."
        )
    key = in_edges(data.graph).key(check_weight(data.graph, weight))
    if rows.head.made_from.get("graph") != key:
        raise DGLError(
            f"{path} was not made from the graph of {data.name}: name the data "
            f"it was made from, or compute it again into a new folder."
        )


def edge_weight(
    graph: dgl.DGLGraph | DiskGraph, weighted: bool | None = None
) -> dict[str, Any]:
    """Return the option of a precomputation for the weights of a task.

    Parameters
    ----------
    graph : DGLGraph or DiskGraph
        The graph of the task.
    weighted : bool, optional
        Whether to use the weights. Default: if the graph has any.
    """
    if weighted is None:
        weighted = has_weights(graph)
    return {"edge_weight": "weight" if weighted else False}


def has_row(rows: NodeRows, nodes: torch.Tensor) -> torch.Tensor:
    """Tell for each node whether it has a row."""
    if rows.nodes is None:
        return nodes < rows.shape[0]
    return torch.from_numpy(np.isin(nodes.numpy(), rows.nodes.numpy()))


def check_rows(
    rows: NodeRows, path: str | os.PathLike, nodes: Mapping[str, torch.Tensor]
) -> None:
    """Refuse a store that lacks rows of some nodes, and count these.

    Parameters
    ----------
    rows : NodeRows
        The store.
    path : path
        Its folder.
    nodes : mapping
        The nodes whose rows are needed, by what they are called.
    """
    lacking = {
        name: int((~has_row(rows, ids)).sum()) for name, ids in nodes.items()
    }
    texts = [
        f"{count:,} of {len(nodes[name]):,} {name} nodes"
        for name, count in lacking.items()
        if count
    ]
    if texts:
        advice = "add them with dgl-lc store extend"
        if isinstance(rows, StoredInputs):
            advice = (
                "a store of several filters can't be extended, so precompute "
                "again into a new folder"
            )
        raise DGLError(f"{path} has no rows of {', '.join(texts)}: {advice}.")
