"""Nodes without a label of which a model is confident."""

from typing import Any

import torch
from torch import nn

from .loader import Inputs
from .model_rows import all_nodes, is_full_graph
from .predict import predict

#: Nodes whose logits are in memory at once.
_CHUNK = 1 << 16


def confident_nodes(
    model: nn.Module,
    inputs: Inputs,
    nodes: torch.Tensor,
    *,
    threshold: float,
    limit: int | None = None,
    process_group: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the nodes with a class whose probability reaches a threshold.

    Logits are computed in chunks. What is kept of a chunk are its confident
    nodes, with probabilities as half floats.

    Parameters
    ----------
    model, inputs, process_group
        As for :func:`~dgl_lc.training.predict`.
    nodes : Tensor
        Ids of nodes to choose from.
    threshold : float
        The least probability of a node's most probable class.
    limit : int, optional
        Number of nodes at the most; the most confident ones are kept.

    Returns
    -------
    tuple of Tensor
        Ids in the order of ``nodes``, and a row of probabilities for each.
    """
    # The output for a whole graph is computed at once, so it is taken once.
    size = len(nodes) if is_full_graph(inputs) else _CHUNK
    kept: list[tuple[torch.Tensor, ...]] = []
    count = 0
    for part in nodes.split(max(1, size)):
        if not len(part):
            continue
        logits = predict(model, inputs, part, process_group=process_group)
        shares = logits.float().softmax(dim=1)
        sure = shares.max(dim=1).values
        chosen = sure >= threshold
        kept.append(
            (part[chosen], shares[chosen].half(), sure[chosen])
        )  # fmt: skip
        count += len(kept[-1][0])
        if limit is not None and count > 2 * limit:
            kept = [_most_confident(kept, limit)]
            count = limit
    if not kept:
        return nodes[:0], torch.empty((0, 0), dtype=torch.float16)
    ids, soft, _ = _most_confident(kept, limit)
    return ids, soft


def _most_confident(
    kept: list[tuple[torch.Tensor, ...]], limit: int | None
) -> tuple[torch.Tensor, ...]:
    """Join parts, and keep so many of their nodes in the order they have."""
    ids, soft, sure = (torch.cat(column) for column in zip(*kept, strict=True))
    if limit is None or len(ids) <= limit:
        return ids, soft, sure
    # Of equally confident nodes the first are kept.
    order = sure.argsort(descending=True, stable=True)[:limit].sort().values
    return ids[order], soft[order], sure[order]


def nodes_without_label(
    inputs: Inputs, train: torch.Tensor, valid: torch.Tensor
) -> torch.Tensor:
    """Return the nodes with a row that are in neither set."""
    if is_full_graph(inputs):
        nodes = torch.arange(inputs[0].num_nodes())
    else:
        nodes = all_nodes(inputs)
    # A mask needs a byte per node; torch.isin would sort all of them.
    last = max(
        int(ids.max()) if len(ids) else 0 for ids in (nodes, train, valid)
    )
    free = torch.ones(last + 1, dtype=torch.bool)
    free[train] = free[valid] = False
    return nodes[free[nodes]]
