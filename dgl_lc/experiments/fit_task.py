"""Training a model on the inputs of a task: in one stage, or in several."""

import math
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..data import DiskData, NodeData
from ..training import Consistency, Fit, fit, self_train
from ..training.confident_nodes import nodes_without_label
from ..training.metrics import Metric
from ..training.rank_inputs import is_shard


def fit_task(
    model: nn.Module,
    seen: Any,
    unseen: Any,
    data: NodeData | DiskData,
    *,
    stages: int = 1,
    threshold: float = 0.9,
    consistency: float | Consistency | None = None,
    **training: Any,
) -> Fit:
    """Train a model on a task.

    Parameters
    ----------
    model : nn.Module
        The model.
    seen, unseen
        Inputs of training, and of evaluation. With several stages they may
        be functions, as for :func:`dgl_lc.training.self_train`.
    data : NodeData or DiskData
        The task.
    stages : int, optional
        Stages of :func:`dgl_lc.training.self_train`. Default: 1, which is
        :func:`dgl_lc.training.fit`.
    threshold : float, optional
        Least probability of nodes that join a later stage. Default: 0.9.
    consistency : float or Consistency, optional
        The weight of the loss between passes, for nodes without a label as
        well, or all of its options.
    **training
        Options of :func:`dgl_lc.training.fit`.
    """
    inductive = getattr(data, "inductive", False)
    if stages > 1 and inductive:
        raise DGLError(
            f"stages={stages}: {data.name} is inductive, so that nodes without "
            f"a label are not seen in training, and none can join. Omit it."
        )
    first = seen(1, None, None) if callable(seen) else seen
    # Of row shards, each rank knows its own nodes only.
    shard = is_shard(first)
    if isinstance(consistency, (int, float)):
        rest = data.test
        if inductive:
            # A whole graph has rows of all nodes, seen or not.
            rest = rest[:0]
        elif not shard:
            rest = nodes_without_label(first, data.train, data.valid)
        consistency = Consistency(
            float(consistency), unlabelled=rest if len(rest) else None
        )
    split = (data.labels, data.train, data.valid)
    options = {
        "valid_inputs": unseen, "consistency": consistency, **training
    }  # fmt: skip
    if stages == 1:
        return fit(model, seen, *split, **options)
    return self_train(
        model, seen, *split, stages=stages, threshold=threshold,
        unlabelled=data.test if shard else None, **options,
    )  # fmt: skip


def metric_of(name: str, logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Compute a metric of test nodes; nan where it is not defined."""
    try:
        return Metric(name).value(logits.float(), labels)
    except (DGLError, ValueError):
        return math.nan
