"""What a training run is made of, in words that can be compared.

A checkpoint holds the description of its run. Names are for a message, and
long content (features, edges, labels) is described by its digest.
"""

import re
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from .._common.digest import digest
from ..hops import HopFeatures
from ..labelled_rows import LabelledRows
from ..node_rows import ModelInputs, NodeRows
from ..storage.hop_store import StoredHops
from ..storage.input_store import StoredInputs
from .loader import Inputs
from .model_rows import is_full_graph
from .run_options import RunOptions
from .schedules import describe_scheduler
from .targets import Targets

#: What every module has, whatever its class.
_OWN_ATTRIBUTES = frozenset(vars(nn.Module()))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def describe_run(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: Inputs,
    valid_inputs: Inputs | None,
    train: tuple[torch.Tensor, Targets],
    valid: tuple[torch.Tensor, Targets],
    options: RunOptions,
    size: int,
    **settings: Any,
) -> dict[str, str]:
    """Describe everything that the result of a training run depends on.

    The arguments are those of :func:`~dgl_lc.training.fit`, checked;
    ``train`` and ``valid`` are ids and targets, and ``settings`` are those
    among the arguments that are plain values; ``size`` is the number of ranks.
    Of row shards it says what all ranks have in common.
    """
    found = {name: repr(value) for name, value in settings.items()}
    found.update(_of_options(options, size))
    found.update(_of_model(model))
    found.update(_of_optimizer(optimizer, model))
    for name, (ids, targets) in (("train", train), ("valid", valid)):
        found[f"{name} (digest)"] = digest(ids)
        parts = {
            "labels": targets.values,
            "weights of labels": targets.weight,
            "places of soft labels": targets.place,
            "soft labels": targets.soft,
        }
        for part, values in parts.items():
            if values is not None:
                found[f"{part} of {name} (digest)"] = digest(values)
    found.update(_of_inputs("inputs", inputs))
    if valid_inputs is not None and valid_inputs is not inputs:
        found.update(_of_inputs("valid_inputs", valid_inputs))
    return found


def describe_stages(
    model: nn.Module,
    inputs: Any,
    valid_inputs: Any,
    labels: torch.Tensor,
    train: torch.Tensor,
    valid: torch.Tensor,
    unlabelled: torch.Tensor | None,
    **settings: Any,
) -> dict[str, str]:
    """Describe what the stages of a self-training depend on.

    The arguments are those of :func:`~dgl_lc.training.self_train`, and
    ``inputs`` and ``valid_inputs`` those of the first stage. What each stage
    depends on is in the checkpoint of its own run, which is gone once it is
    finished.
    """
    found = {
        name: _name_of(value) if callable(value) else _text(value)
        for name, value in settings.items()
        if name not in _FREE
    }
    found.update(_of_model(model))
    for name, ids in (("train", train), ("valid", valid)):
        found[f"{name} (digest)"] = digest(ids)
        found[f"labels of {name} (digest)"] = digest(labels[ids])
    others = getattr(settings.get("consistency"), "unlabelled", None)
    if others is not None:
        found["unlabelled nodes of consistency (digest)"] = digest(
            torch.as_tensor(others)
        )
    found["unlabelled (digest)"] = (
        "all" if unlabelled is None else digest(unlabelled)
    )
    for name, given in (("inputs", inputs), ("valid_inputs", valid_inputs)):
        if given is not None:
            found.update(_of_inputs(name, given))
    return found


#: Options that may be others when stages are resumed.
_FREE = ("epochs", "patience", "progress", "device")
#: The options of runs of which no description has them: what was the case
#: before they could be chosen.
BEFORE = {
    "loss": "cross_entropy",
    "class_weight": "None",
    "metric": "accuracy",
    "scheduler": "None",
    "clip_norm": "None",
    "precision": "'fp32'",
    "consistency": "None",
    "shuffle": "'full'",
}


def _of_options(options: RunOptions, size: int) -> Iterator[tuple[str, str]]:
    objective, metric = options.objective, options.metric
    yield "loss", _name_of(objective.own) or objective.kind
    yield "class_weight", _text(objective.class_weight)
    yield "metric", _name_of(metric.own) or metric.name
    yield "scheduler", describe_scheduler(options.scheduler)
    yield "clip_norm", repr(options.clip_norm)
    consistency = options.consistency
    if consistency is not None and consistency.batch_size is not None:
        # That of all ranks together, as a run may resume with others.
        whole = consistency.batch_size * size
        consistency = replace(consistency, batch_size=whole)
    yield "consistency", repr(consistency)
    if consistency is not None and consistency.unlabelled is not None:
        ids = consistency.unlabelled
        yield "unlabelled nodes of consistency (digest)", digest(ids)


def _name_of(function: Any) -> str:
    """Name a function, or an object that can be called, and its class."""
    if function is None:
        return ""
    found = function if hasattr(function, "__qualname__") else type(function)
    name = f"{found.__module__}.{found.__qualname__}"
    if isinstance(function, nn.Module):
        return f"{name}({function.extra_repr()})"
    return name


def _of_model(model: nn.Module) -> Iterator[tuple[str, str]]:
    yield "model", type(model).__name__
    for name, value in _config(model).items():
        yield f"model's {name}", _text(value)
    for name, module in model.named_modules():
        text = f"{type(module).__name__}({module.extra_repr()})"
        # A model may keep its dropout as a number, for F.dropout. None often
        # stands for something that is not computed yet.
        plain = [
            f"{key}={_text(value)}"
            for key, value in sorted(vars(module).items())
            if key not in _OWN_ATTRIBUTES
            and f"{key}=" not in text
            and _is_plain(value)
        ]
        where = f"module {name!r}" if name else "outermost module"
        yield where, _without_addresses(" ".join([text, *plain]))
    for name, value in model.state_dict().items():
        shape = getattr(value, "shape", ())
        kind = getattr(value, "dtype", type(value).__name__)
        yield f"shape of {name}", f"{tuple(shape)} of {kind}"


def _config(model: nn.Module) -> dict[str, Any]:
    try:
        found = getattr(model, "config", None)
    except NotImplementedError:
        # A model of a user's own that is derived from ours.
        return {}
    return found if isinstance(found, dict) else {}


def _of_optimizer(
    optimizer: torch.optim.Optimizer, model: nn.Module
) -> Iterator[tuple[str, str]]:
    kind = type(optimizer)
    yield "optimizer", f"{kind.__module__}.{kind.__qualname__}"
    names = {id(p): name for name, p in model.named_parameters()}
    for number, group in enumerate(optimizer.param_groups):
        where = f" (parameter group {number})"
        for name, value in group.items():
            if name == "params":
                value = [names.get(id(p), "?") for p in value]
            yield f"optimizer's {name}{where}", _text(value)


def describe_prediction(
    model: nn.Module, inputs: Inputs | None, nodes: torch.Tensor | None
) -> dict[str, str]:
    """Describe everything that a prediction depends on, on hop features."""
    found = dict(_of_model(model))
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor):
            found[f"{name} (digest)"] = digest(value.cpu())
    found["nodes (digest)"] = "all" if nodes is None else digest(nodes)
    if inputs is not None:
        found.update(_of_inputs("inputs", inputs))
    return found


def describe_shard(inputs: Any) -> str:
    """Describe the rows that a rank holds of inputs in row shards."""
    found = dict(_of_inputs("inputs", inputs, whole=False))
    return " ".join(found.values())


def _of_inputs(
    name: str, inputs: Any, whole: bool = True
) -> Iterator[tuple[str, str]]:
    if isinstance(inputs, LabelledRows):
        yield from _of_inputs(name, inputs.features, whole)
        labels = inputs.labels
        if not (whole and inputs.shard is not None):
            yield from _of_inputs(f"label features of {name}", labels, whole)
        # Of row shards, each rank may have the label features of its own.
        yield f"recipe of label features of {name}", str(labels.label_recipe)
        return
    if whole and isinstance(inputs, NodeRows) and inputs.shard is not None:
        # What the ranks hold differs: see describe_shard.
        yield name, "row shards"
        yield f"{name}: columns", f"{tuple(inputs.shape[1:])} of {inputs.dtype}"
        if isinstance(inputs, HopFeatures):
            yield f"{name}: hops", str(inputs.hops)
            yield f"{name}: filter", str(inputs.filter)
        return
    if isinstance(inputs, (StoredHops, StoredInputs)):
        hops = isinstance(inputs, StoredHops)
        yield name, "a hop store" if hops else "a store of inputs"
        yield f"{name}: key", inputs.key
        return
    if is_full_graph(inputs):
        graph, feat = inputs
        yield name, "a graph with features"
        yield f"{name}: feat (digest)", digest(feat)
        yield from _of_graph(f"{name}: graph", graph)
        return
    if isinstance(inputs, HopFeatures):
        yield name, f"hop features of hops {inputs.hops}"
        yield f"{name}: filter", str(inputs.filter)
    elif isinstance(inputs, ModelInputs):
        yield name, f"inputs {inputs.names}"
    else:
        yield name, f"a sequence of {len(inputs)} tensors"
    if isinstance(inputs, NodeRows) and inputs.nodes is not None:
        yield f"{name}: nodes (digest)", digest(inputs.nodes)
    for number, values in enumerate(inputs):
        where = f"{name}: tensor {number}"
        if values is None:
            yield where, "none"
            continue
        if not isinstance(values, np.ndarray):
            values = torch.as_tensor(values)
        yield where, f"{tuple(values.shape)} of {values.dtype}"
        yield f"{where} (digest)", digest(values)


def _of_graph(name: str, graph: Any) -> Iterator[tuple[str, str]]:
    for kind in graph.ntypes:
        yield f"{name}: nodes of {kind}", str(graph.num_nodes(kind))
        for key, value in graph.nodes[kind].data.items():
            yield f"{name}: ndata[{key!r}] of {kind} (digest)", digest(value)
    for kind in graph.canonical_etypes:
        ends = graph.edges(form="uv", order="eid", etype=kind)
        digests = ", ".join(digest(end.long()) for end in ends)
        yield f"{name}: edges of {kind} (digests)", digests
        for key, value in graph.edges[kind].data.items():
            yield f"{name}: edata[{key!r}] of {kind} (digest)", digest(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float, complex, str, *_FUNCTIONS))


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if isinstance(value, _FUNCTIONS):
        return f"{value.__module__}.{value.__qualname__}"
    return _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    """Take out what differs between two processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)
