"""Prediction: the logits of some nodes."""

from typing import Any

import torch
from torch import nn

from ..node_rows import NodeRows
from ..ranks.call import RankCall
from ..ranks.group import find_ranks
from .loader import Inputs
from .model_rows import (
    all_nodes,
    is_full_graph,
    model_device,
    node_ids,
    predict_rows,
)
from .predict_together import predict_together


def predict(
    model: nn.Module,
    inputs: Inputs,
    nodes: torch.Tensor | None = None,
    *,
    batch_size: int = 16384,
    device: torch.device | str | None = None,
    process_group: Any = None,
) -> torch.Tensor:
    """Compute the model's output for some nodes, in evaluation mode.

    Where ``torch.distributed`` is initialised, as under ``torchrun``, all
    ranks have to make the same call. Each computes a part of the output, and
    all of them return the whole output.

    Parameters
    ----------
    model : nn.Module
        A model that is called as ``model(graph, feat)``.
    inputs : HopFeatures, sequence of Tensor, or (graph, feat)
        What the model reads. Hop features, or plain hops from hop 0 on (None
        for a hop that is not needed), are read in batches; a graph with its
        features is read as a whole, in one process. Ranks have the same
        inputs, or row shards of the same inputs.
    nodes : Tensor, optional
        Ids of nodes; the output is in this order. Or a mask with an entry for
        each node of the graph; the output is then in the order of the nodes.
        Default: all rows; those of row shards are in the order in which they
        were precomputed.
    batch_size : int, optional
        Rows in a batch. Default: 16384.
    device : torch.device, optional
        Device to compute on. Default: that of the model.
    process_group : ProcessGroup or False, optional
        The ranks that compute together; False for this process alone, also
        to compute the rows of one row shard. Default: the default group, if
        it is initialised.

    Returns
    -------
    Tensor
        A row for each node, on the CPU.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import predict
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> model = SGC(3, 2)
    >>> predict(model, model.precompute(g, torch.eye(3)), [2, 0]).shape
    torch.Size([2, 2])
    """
    ranks = find_ranks(process_group)
    if device is None:
        device = model_device(model)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            if ranks is not None:
                with RankCall(ranks, "predict") as call:
                    return predict_together(
                        call, model, inputs, nodes, batch_size, device
                    )
            if nodes is not None:
                nodes = node_ids(inputs, nodes, "nodes")
            if is_full_graph(inputs):
                graph, feat = inputs
                logits = model(graph.to(device), feat.to(device)).cpu()
                if nodes is None:
                    return logits
                return NodeRows([logits]).rows(nodes)[0]
            if nodes is None:
                nodes = all_nodes(inputs)
            return predict_rows(model, inputs, nodes, batch_size, device)
    finally:
        model.train(training)
