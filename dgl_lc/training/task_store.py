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
from ..precompute.request import Request
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoredHops


def open_task_store(
    path: str | os.PathLike, model: HopModel, data: NodeData | DiskData
) -> NodeRows:
    """Open a store whose rows the model reads, made from this task.

    A store that was made from other data, or that lacks hops of the model, is
    an error that says which.

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
    if isinstance(rows, StoredHops):
        made_from = rows.head.made_from
    else:
        made_from = rows.made_from
    # The keys of the same call with this task.
    weight = edge_weight(data.graph).get("edge_weight")
    head = Request.of(data.graph, data.feat, 0, weight=weight).store_head()
    different = [
        name
        for name in ("graph", "features")
        if made_from.get(name) != head.made_from[name]
    ]
    if different:
        raise DGLError(
            f"{path} was made from {' and '.join(different)} other than those "
            f"of {data.name}: name the data it was made from, precompute it "
            f"again, or bring it up to date with dgl-lc update."
        )
    first = torch.tensor([0]) if rows.nodes is None else rows.nodes[:1]
    try:
        model.inputs(None, rows.rows(first))
    except DGLError as error:
        raise DGLError(f"{path} does not suit the model: {error}") from None
    return rows


def edge_weight(graph: dgl.DGLGraph | DiskGraph) -> dict[str, Any]:
    """Return the option of a precomputation that applies a task's weights.

    It is empty for a graph without weights, and for one on disk, whose weights
    are applied anyway.
    """
    if isinstance(graph, DiskGraph) or "weight" not in graph.edata:
        return {}
    return {"edge_weight": graph.edata["weight"]}


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
        raise DGLError(
            f"{path} has no rows of {', '.join(texts)}: add them with "
            f"dgl-lc store extend."
        )
