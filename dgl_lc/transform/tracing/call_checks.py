"""Calls of lc_transform that can't be right, and what to pass instead."""

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ...hops import HopFeatures
from ...nn.plain.lcgraphconv import LCConv
from ...nn.plain.model_on_hops import ModelOnHops
from ...storage.disk_features import DiskFeatures
from ...storage.disk_graph import DiskGraph
from .. import causes
from ..refusals import refuse
from .argument_names import named_arguments
from .call_leaves import named_leaves
from .hidden_graphs import hidden_graph
from .made_graphs import refuse_hidden_graph

#: Modules around a model, and the attribute that has the model itself.
_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}


def check_model(model: Any) -> None:
    """Refuse what is no model, or a model inside something else."""
    if not isinstance(model, nn.Module):
        refuse(
            causes.WRONG_CALL, "", type(model).__name__,
            "is not a torch.nn.Module",
            "Pass the model, then the arguments of its forward: "
            "lc_transform(model, g, x)",
        )  # fmt: skip
    _check_lazy(model)
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            refuse(
                causes.WRAPPED, name, kind,
                "is compiled by torch.jit, so that its operations can't be "
                "seen",
                "Pass the model as it was before torch.jit.script or "
                "torch.jit.trace, and script lc.module instead",
            )  # fmt: skip
        torchs = type(module).__module__.startswith("torch.")
        if torchs and kind in _WRAPPERS:
            inner = ".".join(filter(None, ["model", name, _WRAPPERS[kind]]))
            refuse(
                causes.WRAPPED, name, kind,
                "is around the model, and runs it in a way that can't be "
                "followed",
                f"{'Replace it by' if name else 'Pass'} {inner}, and wrap "
                f"lc.module instead",
            )  # fmt: skip
        if isinstance(module, (LCConv, ModelOnHops)):
            refuse(
                causes.NOTHING_TO_DO, name, kind,
                "is a part of an LC version, which needs no transformation",
                "Pass the model as written for dgl.nn, with its plain "
                "features, or give block_aggregate's hop features to this one",
            )  # fmt: skip


def _check_lazy(model: nn.Module) -> None:
    """Refuse lazy layers that have no weights yet."""
    for name, module in model.named_modules():
        tensors = [*module._parameters.values(), *module._buffers.values()]
        if any(map(is_lazy, tensors)):
            refuse(
                causes.WRONG_CALL, name, type(module).__name__,
                "is a lazy layer whose parameters have no shapes yet: it gets "
                "them when the model is called for the first time",
                "Call the model once before lc_transform: model(g, x)",
            )  # fmt: skip


def check_features(
    model: nn.Module, args: tuple, kwargs: dict, may_be_arrays: bool
) -> None:
    """Refuse features that are not plain tensors, nor files that are mapped."""
    for name, item in _arguments(model, args, kwargs):
        if isinstance(item, HopFeatures):
            refuse(
                causes.WRONG_CALL, "", "hop features",
                "were given to the model, but lc_transform precomputes on "
                "its own",
                "Pass the plain features, as given to block_aggregate",
            )  # fmt: skip
        is_array = isinstance(item, np.ndarray) and item.ndim
        mapped = may_be_arrays or isinstance(item, np.memmap)
        if is_array and not mapped:
            refuse(
                causes.WRAPPED, "", f"the argument {name}",
                "is an array of NumPy, whose use can't be followed",
                "Pass a tensor: torch.as_tensor(array)",
            )  # fmt: skip
        sparse = isinstance(item, torch.Tensor) and (
            item.layout is not torch.strided
        )
        if sparse and _is_square(item):
            _refuse_matrix(f"the argument {name}", item)
        if sparse:
            refuse(
                causes.WRAPPED, "", f"the argument {name}",
                f"is a sparse tensor ({item.layout}), but rows of features "
                f"are precomputed as dense ones",
                "Pass x.to_dense(), and let forward multiply dense features",
            )  # fmt: skip


def _arguments(
    model: nn.Module, args: tuple, kwargs: dict
) -> Iterator[tuple[str, Any]]:
    """Yield all that the arguments have, by names."""
    given = named_arguments(model, args, kwargs)
    for place, (name, item) in enumerate(given):
        yield from named_leaves(item, name or f"args.{place}")


def _is_square(item: Any) -> bool:
    """Return whether it is a matrix of as many rows as columns."""
    square = isinstance(item, torch.Tensor) and item.dim() == 2
    return square and item.shape[0] == item.shape[1] > 1


def _refuse_matrix(what: str, matrix: torch.Tensor) -> NoReturn:
    """Refuse a matrix of nodes in the place of a graph."""
    refuse(
        causes.WRONG_CALL, "", what,
        f"is a matrix of shape {tuple(matrix.shape)}, such as an "
        f"adjacency matrix: which nodes are neighbours is read from graphs "
        f"alone",
        "Let forward take a graph, and make the matrix there, adj = "
        "g.adj_external(), or aggregate with dgl.ops.u_mul_e_sum(g, h, "
        "weights). A matrix of your own is the graph dgl.graph((col, row)), "
        "with row, col = adj.nonzero(as_tuple=True) and the weights "
        "adj[row, col]",
    )  # fmt: skip


def _check_matrices(model: nn.Module, args: tuple, kwargs: dict) -> None:
    """Refuse matrices and lists of edges in the place of a graph."""
    given = [
        (f"the argument {name}", item)
        for name, item in _arguments(model, args, kwargs)
    ]
    tensors = [item for _, item in given if isinstance(item, torch.Tensor)]
    rows = {len(item) for item in tensors if item.dim() > 1}
    held = [
        (f"self.{name}", item)
        for name, item in named_leaves({**vars(model), **model._buffers})
        if isinstance(item, torch.Tensor) and not name.startswith("_")
    ]
    for what, item in (*given, *held):
        others = [t for t in tensors if t is not item and t.dim()]
        if _is_square(item) and any(len(t) == len(item) for t in others):
            _refuse_matrix(what, item)
        integers = isinstance(item, torch.Tensor) and item.dtype in (
            torch.int64, torch.int32,
        )  # fmt: skip
        if integers and item.dim() == 2 and len(item) == 2 and rows - {2}:
            refuse(
                causes.WRONG_CALL, "", what,
                "has the ends of edges, as an edge_index of PyG: which nodes "
                "are neighbours is read from graphs alone",
                "Let forward take a graph, g = dgl.graph((edge_index[0], "
                "edge_index[1])), and read both ends from it: u, v = g.edges()",
            )  # fmt: skip


def refuse_without_graph(
    model: nn.Module, args: tuple, kwargs: dict
) -> NoReturn:
    """Refuse a call without a graph: there is nothing to transform."""
    _check_matrices(model, args, kwargs)
    hidden = hidden_graph(model)
    if hidden is not None:
        refuse_hidden_graph("", *hidden)
    layers = [
        name
        for name, module in model.named_modules()
        if type(module).__module__.startswith("dgl.")
    ]
    if layers:
        refuse(
            causes.WRONG_CALL, "", "the call",
            f"has no graph, but {layers[0] or 'the model'} is a layer of DGL: "
            f"neither an argument nor an attribute of the model is a graph",
            "Pass the arguments of the model's forward: lc_transform(model, "
            "g, x), or store the graph as an attribute of the model",
        )  # fmt: skip
    refuse(
        causes.NOTHING_TO_DO, "", "the call",
        "has no graph: neither an argument nor an attribute of the model is "
        "one. A model without a graph (an MLP, SIGN on hop features) needs no "
        "transformation",
        "Train it on mini-batches of rows as it is, for instance with "
        "dgl_lc.training.HopLoader([x], nids, labels). If its forward reads a "
        "graph from somewhere else, pass the graph: lc_transform(model, g, x)",
    )  # fmt: skip


def check_in_memory(items: list[tuple[str, Any]]) -> None:
    """Refuse to trace a model on a graph or features that are on disk."""
    for name, item in items:
        if isinstance(item, (DiskGraph, DiskFeatures, np.memmap)):
            refuse(
                causes.WRONG_CALL, "", f"{name}, a {type(item).__name__}",
                "can't be traced: the model runs on small graphs and tensors "
                "in memory",
                "Trace the model on a sample, and precompute on what is on "
                "disk: sample_g = disk_graph.sample(1000); sample_x = "
                "disk_features.rows(range(1000)); lc = lc_transform(model, "
                "sample_g, sample_x); lc.precompute(disk_graph, "
                'disk_features, out="inputs")',
            )  # fmt: skip
