"""Training one model on one dataset, and what is worth knowing of it."""

import inspect
import time
from dataclasses import dataclass, field
from typing import Any

import dgl
import torch
from dgl import DGLError
from torch import nn

from .. import nn as models
from ..data import NodeData
from ..hops import HopFeatures
from ..nn.model import HopModel
from ..training import Fit, fit, predict
from . import originals

#: Every model by its name: on hop features, and on the whole graph.
MODELS: dict[str, type[nn.Module]] = {
    "GCN": originals.GCN,
    "JKNet": originals.JKNet,
    "GPRGNN": originals.GPRGNN,
    "MLP": originals.MLP,
    **{
        name: getattr(models, name)
        for name in models.__all__
        if issubclass(getattr(models, name), HopModel)
    },
}


@dataclass
class Result:
    """One trained model.

    Attributes
    ----------
    model : nn.Module
        With the weights of the best epoch.
    name, data : str
        Of the model and of the dataset.
    precompute_seconds : float
        0 for a model on the whole graph.
    rows : int
        Rows that pass through the model in an epoch.
    """

    model: nn.Module
    name: str
    data: str
    fit: Fit
    test_accuracy: float
    precompute_seconds: float
    rows: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def total_seconds(self) -> float:
        """Precomputation and training."""
        return self.precompute_seconds + self.fit.seconds


def make_model(name: str, data: NodeData, hid_feats: int, **options: Any):
    """A model by its name, for a dataset; options it lacks are an error."""
    if name not in MODELS:
        raise DGLError(
            f"model {name!r} is not known: choose one of {', '.join(MODELS)}."
        )
    known = inspect.signature(MODELS[name].__init__).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise DGLError(f"{name} has no option {', '.join(unknown)}.")
    sizes = {
        "in_feats": data.num_feats,
        "hid_feats": hid_feats,
        "out_feats": data.num_classes,
    }
    given = {key: size for key, size in sizes.items() if key in known}
    return MODELS[name](**given, **options)


def prepare(
    model: nn.Module, data: NodeData, **options: Any
) -> tuple[Any, Any, float]:
    """What the model reads in training and in evaluation, and the seconds.

    In the inductive setting the training inputs are of the training
    subgraph alone: no edge to or from another node.
    """
    start = time.perf_counter()
    if not isinstance(model, HopModel):
        graphs = (data.train_graph, data.graph)
        # The originals' filter has self-loops; adding them is preparation,
        # as it is in any DGL script, and not counted.
        looped = [
            dgl.add_self_loop(dgl.remove_self_loop(g))
            for g in (graphs if data.inductive else graphs[:1])
        ]
        return (looped[0], data.feat), (looped[-1], data.feat), 0.0
    splits = [data.train, data.valid, data.test]
    if not data.inductive:
        everything = _rows(model, data.graph, data, splits, options)
        return everything, everything, time.perf_counter() - start
    seen = _rows(model, data.train_graph, data, splits[:1], options)
    unseen = _rows(model, data.graph, data, splits[1:], options)
    return seen, unseen, time.perf_counter() - start


def _rows(model, graph, data, splits, options) -> HopFeatures:
    nodes = torch.cat(splits)
    if len(nodes) == graph.num_nodes():
        return model.precompute(graph, data.feat, **options)
    return model.precompute(graph, data.feat, nodes=nodes, **options)


def train_model(
    name: str,
    data: NodeData,
    *,
    hid_feats: int = 256,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    precompute: dict[str, Any] | None = None,
    **training: Any,
) -> Result:
    """Make, train and test a model.

    Parameters
    ----------
    name : str
        A name of :data:`MODELS`.
    data : NodeData
        The dataset.
    hid_feats : int, optional
        Hidden columns. Default: 256.
    seed : int, optional
        Of the weights, the shuffling and the dropout.
    options : dict, optional
        Of the model.
    precompute : dict, optional
        Of :func:`dgl_lc.block_aggregate`: memory, dtype …
    **training
        Of :func:`dgl_lc.training.fit`.
    """
    torch.manual_seed(seed)
    model = make_model(name, data, hid_feats, **(options or {}))
    seen, unseen, seconds = prepare(model, data, **(precompute or {}))
    found = fit(
        model, seen, data.labels, data.train, data.valid,
        valid_inputs=unseen, seed=seed, **training,
    )  # fmt: skip
    logits = predict(model, unseen, data.test)
    right = logits.argmax(dim=1) == data.labels[data.test]
    rows = data.graph.num_nodes()
    if isinstance(model, HopModel):
        rows = len(data.train) * model.num_inputs
    return Result(
        model, name, data.name, found, float(right.float().mean()), seconds,
        rows, options or {},
    )  # fmt: skip
