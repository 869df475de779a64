"""Training one model on one data set, with its accuracy and times."""

import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dgl
import pandas as pd
import psutil
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from torch import nn

from .._common.bytes import format_bytes, parse_bytes
from ..data import DiskData, NodeData
from ..nn.hop_attention import WeighsHops
from ..nn.model import HopModel
from ..node_rows import NodeRows
from ..precompute import with_labels
from ..precompute.checks import has_weights
from ..ranks.group import find_ranks
from ..storage.disk_graph import DiskGraph
from ..training import Fit, predict
from ..training.label_inputs import compute_labels, reads_labels
from ..training.task_store import check_rows, edge_weight, open_task_store
from .fit_task import fit_task, metric_of
from .named_models import make_model
from .originals import with_self_loops
from .stage_labels import StageLabels, check_later_stages


@dataclass
class TrainedModel:
    """A model after training, and what its training took.

    Attributes
    ----------
    model : nn.Module
        The model with the weights of its best epoch.
    name, data : str
        Names of the model and of the data set.
    fit : Fit
        The history of the training.
    test_accuracy : float
        Share of the test nodes whose class is predicted; nan without any.
    precompute_seconds : float
        Seconds of the precomputation; 0 for a model that reads the graph.
    rows : int
        Number of rows that pass through the model per epoch.
    test_metric : float
        The metric of the training, of the test nodes; nan without any.
    attention : pandas.DataFrame or None
        How much the model weighs each hop, a column for each, in some
        validation nodes, a row for each; None if it was not asked for, or
        if the model does not weigh hops.
    """

    model: nn.Module
    name: str
    data: str
    fit: Fit
    test_accuracy: float
    precompute_seconds: float
    rows: int
    test_metric: float = math.nan
    attention: pd.DataFrame | None = None

    @property
    def num_parameters(self) -> int:
        """Number of learned numbers."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def total_seconds(self) -> float:
        """Seconds of precomputation and training."""
        return self.precompute_seconds + self.fit.seconds


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of rows whose largest logit is that of the label.

    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    0.5
    """
    return float((logits.argmax(dim=1) == labels).double().mean())


def prepare(
    model: nn.Module, data: NodeData | DiskData, **options: Any
) -> tuple[Any, Any, float]:
    """Make what the model reads.

    In the inductive setting the inputs of training come from the training
    subgraph, which has no edge to or from another node.

    Parameters
    ----------
    model : nn.Module
        A model on hop features, or one that reads the graph.
    data : NodeData or DiskData
        The data set.
    **options
        Options of the precomputation, such as ``memory`` and ``out``.

    Returns
    -------
    tuple
        Inputs of training, inputs of evaluation, and the seconds of the
        precomputation.
    """
    if not isinstance(model, HopModel):
        if isinstance(data, DiskData):
            raise DGLError(
                f"{type(model).__name__} reads the whole graph, and that of "
                f"{data.name} is on disk: choose a model of dgl_lc.nn."
            )
        if has_weights(data.graph):
            warnings.warn(
                f"{type(model).__name__} is an original and ignores the edge "
                f"weights of {data.name}; models of dgl_lc.nn use them.",
                DGLWarning,
                stacklevel=2,
            )
        # Adding self-loops is not counted as time: every DGL script does so.
        seen = with_self_loops(data.train_graph)
        unseen = with_self_loops(data.graph) if data.inductive else seen
        return (seen, data.feat), (unseen, data.feat), 0.0
    start = time.perf_counter()
    splits = [data.train, data.valid, data.test]
    if isinstance(data, DiskData) or not data.inductive:
        everything = _rows(model, data.graph, data, splits, options)
        return everything, everything, time.perf_counter() - start
    trained = _rows(model, data.train_graph, data, splits[:1], options)
    others = _rows(model, data.graph, data, splits[1:], options)
    return trained, others, time.perf_counter() - start


def _rows(
    model: HopModel,
    graph: dgl.DGLGraph | DiskGraph,
    data: NodeData | DiskData,
    splits: Sequence[torch.Tensor],
    options: dict[str, Any],
) -> NodeRows:
    """Compute the hop features of the nodes of some splits."""
    nodes = torch.cat(list(splits))
    if "out" not in options:
        _check_rows_fit(model, data, len(nodes), options.get("memory"))
    options = {**edge_weight(graph), **options}
    feat: Any = data.feat
    if len(nodes) == graph.num_nodes():
        return model.precompute(graph, feat, **options)
    return model.precompute(graph, feat, nodes=nodes, **options)


def _check_rows_fit(
    model: HopModel,
    data: NodeData | DiskData,
    rows: int,
    memory: int | str | None,
) -> None:
    """Refuse hop features that do not fit in memory, before any work."""
    size = rows * model.num_inputs * data.num_feats * data.feat.dtype.itemsize
    free = psutil.virtual_memory().available
    if memory is not None:
        free = min(free, parse_bytes(memory))
    if size > free:
        raise DGLError(
            f"the hop features of {rows:,} nodes take {format_bytes(size)} of "
            f"memory, and {format_bytes(free)} may be used: have them on disk, "
            f"with --hops-out in the shell or out= in precompute=, or choose "
            f"fewer hops."
        )


def train_model(
    name: str,
    data: NodeData | DiskData,
    *,
    hid_feats: int = 256,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    precompute: dict[str, Any] | None = None,
    store: str | os.PathLike | None = None,
    attention_rows: int = 0,
    label_store: str | os.PathLike | None = None,
    soft_labels: bool = False,
    **training: Any,
) -> TrainedModel:
    """Make, train and test a model.

    Parameters
    ----------
    name : str
        A key of :data:`~dgl_lc.experiments.named_models.MODELS`.
    data : NodeData or DiskData
        The data set.
    hid_feats : int, optional
        Hidden feature size. Default: 256.
    seed : int, optional
        Random seed of weights, shuffling and dropout. Default: 0.
    options : dict, optional
        Options of the model.
    precompute : dict, optional
        Options of :func:`dgl_lc.block_aggregate`, such as ``memory``, or
        ``out`` to have the hop features on disk.
    store : path, optional
        A hop store of this data set, to read rows from. Default: the rows
        are computed.
    attention_rows : int, optional
        Number of validation nodes whose hop attention is read after the
        training, at most. Default: 0.
    label_store : path, optional
        A folder for the label features of a model with ``label_feats``, which
        is written, or read if it exists. Default: in memory.
    soft_labels : bool, optional
        Whether label features of later stages are made of the soft labels of
        the nodes that have joined as well; it needs ``label_store``. Default:
        False, all stages read those of the training labels, which is safe:
        soft labels of neighbours may tell a node its own label.
    **training
        Options of :func:`~dgl_lc.experiments.fit_task.fit_task` and
        :func:`dgl_lc.training.fit`.
    """
    options = options or {}
    for split, ids in (("training", data.train), ("validation", data.valid)):
        if len(ids) == 0:
            raise DGLError(
                f"{data.name} has no {split} nodes: prepare it again with "
                f"labels and a split."
            )
    torch.manual_seed(seed)
    model = make_model(name, data, hid_feats, **options)
    if store is None:
        seen, unseen, seconds = prepare(model, data, **(precompute or {}))
    else:
        assert isinstance(model, HopModel)
        seen = unseen = _open_rows(store, model, data)
        seconds = 0.0
    stage_labels = None
    if soft_labels and training.get("stages", 1) > 1:
        stage_labels = _label_each_stage(
            model, data, seen, (precompute or {}).get("memory"), label_store,
            training.get("resume", True), training.get("checkpoint"),
        )  # fmt: skip
        # Validation reads the same.
        seen, unseen = stage_labels, None
    elif reads_labels(model):
        start = time.perf_counter()
        memory = (precompute or {}).get("memory")
        seen, unseen = _pair_with_labels(
            model, data, seen, unseen, memory, label_store
        )
        seconds += time.perf_counter() - start
    found = fit_task(model, seen, unseen, data, seed=seed, **training)
    if stage_labels is not None:
        unseen = stage_labels.of_best(found)
    right = tested = math.nan
    if len(data.test):
        logits = predict(model, unseen, data.test)
        right = accuracy(logits, data.labels[data.test])
        tested = right
        if found.metric != "accuracy":
            tested = metric_of(found.metric, logits, data.labels[data.test])
    rows = data.graph.num_nodes()
    if isinstance(model, HopModel):
        rows = len(data.train) * model.num_inputs
    attention = None
    if attention_rows and isinstance(model, WeighsHops):
        attention = _read_attention(model, unseen, data.valid, attention_rows)
    return TrainedModel(
        model, name, data.name, found, right, seconds, rows, tested, attention
    )


def _read_attention(
    model: WeighsHops, inputs: NodeRows, nodes: torch.Tensor, limit: int
) -> pd.DataFrame:
    """Read the hop attention of some of these nodes."""
    if inputs.shard is not None and inputs.nodes is not None:
        # The rows of other nodes are those of other ranks.
        nodes = nodes[torch.isin(nodes, inputs.nodes.cpu())]
    step = max(1, -(-len(nodes) // limit))
    batch = inputs.rows(nodes[::step]).to(next(model.parameters()).device)
    found = model.hop_attention(batch).float().cpu()
    return pd.DataFrame(found.numpy(), columns=model.hop_names)


def _pair_with_labels(
    model: nn.Module,
    data: NodeData | DiskData,
    seen: NodeRows,
    unseen: NodeRows,
    memory: int | str | None,
    out: str | os.PathLike | None,
) -> tuple[NodeRows, NodeRows]:
    """Compute label features, and pair the inputs with them."""
    assert isinstance(model, HopModel)
    if unseen is not seen:
        assert isinstance(data, NodeData)
        labels = compute_labels(
            model, data, seen.nodes, data.train_graph, memory=memory
        )
        others = compute_labels(model, data, unseen.nodes, memory=memory)
        return with_labels(seen, labels), with_labels(unseen, others)
    nodes = seen.nodes
    if seen.shard is None or out is not None:
        # A store may have more rows; ranks share that of the label features.
        nodes = _nodes_of_split(data)
    labels = compute_labels(model, data, nodes, memory=memory, out=out)
    both = with_labels(seen, labels)
    return both, both


def _nodes_of_split(data: NodeData | DiskData) -> torch.Tensor | None:
    """Return the nodes of the split; None if these are all nodes."""
    splits = torch.cat([data.train, data.valid, data.test])
    return splits if len(splits) < data.graph.num_nodes() else None


def _label_each_stage(
    model: nn.Module,
    data: NodeData | DiskData,
    rows: Any,
    memory: int | str | None,
    out: str | os.PathLike | None,
    resume: bool,
    checkpoint: str | os.PathLike | None,
) -> StageLabels:
    """Check what soft labels among the label features need."""
    if not isinstance(model, HopModel) or not reads_labels(model):
        raise DGLError(
            "soft_labels is for models that read label features: give "
            "label_feats in options, or omit it."
        )
    if out is None:
        raise DGLError(
            "soft_labels needs label_store, a folder: label features of soft "
            "labels cannot be made again from the data."
        )
    if resume:
        check_later_stages(out, checkpoint)
    return StageLabels(
        model, data, rows, out, _nodes_of_split(data), memory, resume
    )


def _open_rows(
    store: str | os.PathLike, model: HopModel, data: NodeData | DiskData
) -> NodeRows:
    """Open a store that has the rows of all nodes of the split."""
    rows = open_task_store(store, model, data)
    splits = {
        "training": data.train, "validation": data.valid, "test": data.test
    }  # fmt: skip
    if rows.shard is None or find_ranks() is None:
        # What row shards of all ranks lack is refused in training.
        check_rows(rows, store, splits)
    return rows
