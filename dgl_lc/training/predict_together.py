"""Prediction by several ranks, of which each computes a part of the rows."""

from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..ranks.call import RankCall
from ..ranks.collectives import Collectives
from .description import describe_prediction
from .loader import Inputs, as_rows
from .model_rows import all_nodes, node_ids, predict_rows
from .rank_inputs import check_shard, held_nodes, refuse_full_graph


def predict_together(
    call: RankCall,
    model: nn.Module,
    inputs: Inputs,
    nodes: Any,
    batch_size: int,
    device: torch.device | str,
) -> torch.Tensor:
    """Compute a part of the rows on each rank; put them together."""
    if batch_size < 1:
        raise DGLError(f"batch_size={batch_size} should be at least 1.")
    call.stage("comparing the arguments of all ranks")
    refuse_full_graph(inputs, "inputs")
    check_shard(call.ranks, inputs, "inputs")
    rows, size = as_rows(inputs), call.ranks.size
    if nodes is not None:
        nodes = node_ids(inputs, nodes, "nodes")
    call.agree(describe_prediction(model, inputs, nodes))
    if rows.shard is None:
        nodes = all_nodes(inputs) if nodes is None else nodes
        count = len(nodes)
        low, high = (
            count * place // size
            for place in (call.ranks.rank, call.ranks.rank + 1)
        )
        places: Any = slice(low, high)
        own = nodes[low:high]
    elif nodes is None:
        # Rank r holds the rows r, r + size, r + 2 size and so on.
        own, places = all_nodes(inputs), slice(call.ranks.rank, None, size)
        counts = call.gather(len(own))
        count = sum(counts)
        if counts != [len(range(rank, count, size)) for rank in range(size)]:
            raise DGLError(
                f"inputs has {counts} rows on the ranks, which are not row "
                f"shards of one precomputation: name the nodes to predict."
            )
    else:
        places, _ = held_nodes(call, rows, nodes, "nodes")
        own, count = nodes[places], len(nodes)
    if count == 0:
        raise DGLError("nodes is empty: give at least one node.")
    call.stage("predicting")
    found = None
    if len(own):
        found = predict_rows(model, inputs, own, batch_size, device)
    kinds = call.gather(
        None if found is None else [found.shape[1], str(found.dtype)]
    )
    columns, kind = next(known for known in kinds if known is not None)
    whole = torch.zeros(count, columns, dtype=getattr(torch, kind[6:]))
    if found is not None:
        whole[places] = found
    call.stage("waiting for the other ranks (rows)")
    Collectives(call).add_rows(whole)
    return whole
