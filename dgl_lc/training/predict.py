"""Prediction: the logits of some nodes."""

from typing import Any, TypeGuard

import dgl
import torch
from dgl import DGLError
from torch import nn

from ..hops import HopFeatures
from ..node_rows import NodeRows, check_ids
from .loader import HopLoader, Inputs, as_rows


def is_full_graph(
    inputs: Any,
) -> TypeGuard[tuple[dgl.DGLGraph, torch.Tensor]]:
    """Tell whether inputs are a graph and its features."""
    return (
        isinstance(inputs, (tuple, list))
        and len(inputs) == 2
        and isinstance(inputs[0], dgl.DGLGraph)
    )


def predict(
    model: nn.Module,
    inputs: Inputs,
    nodes: torch.Tensor | None = None,
    *,
    batch_size: int = 16384,
    device: torch.device | str | None = None,
) -> torch.Tensor:
    """Compute the model's output for some nodes, in evaluation mode.

    Parameters
    ----------
    model : nn.Module
        A model that is called as ``model(graph, feat)``.
    inputs : HopFeatures, sequence of Tensor, or (graph, feat)
        What the model reads. Hop features, or plain hops from hop 0 on (None
        for a hop that is not needed), are read in batches; a graph with its
        features is read as a whole.
    nodes : Tensor, optional
        Ids of nodes; the output is in this order. Or a mask with an entry for
        each node of the graph; the output is then in the order of the nodes.
        Default: all rows.
    batch_size : int, optional
        Rows in a batch. Default: 16384.
    device : torch.device, optional
        Device to compute on. Default: that of the model.

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
    if device is None:
        device = model_device(model)
    if nodes is not None:
        nodes = node_ids(inputs, nodes, "nodes")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            if is_full_graph(inputs):
                graph, feat = inputs
                logits = model(graph.to(device), feat.to(device)).cpu()
                if nodes is None:
                    return logits
                return NodeRows([logits]).rows(nodes)[0]
            if nodes is None:
                rows = as_rows(inputs)
                nodes = rows.nodes
                if nodes is None:
                    nodes = torch.arange(rows.shape[0])
            loader = HopLoader(
                inputs, nodes, batch_size=batch_size, device=device
            )
            found = [check_output(model(None, b)).cpu() for b in loader]
            return torch.cat(found)
    finally:
        model.train(training)


def node_ids(
    inputs: Inputs,
    nodes: Any,
    argument: str,
    num_nodes: int | None = None,
) -> torch.Tensor:
    """Check ids of nodes of the inputs, or turn a mask into ids."""
    if is_full_graph(inputs):
        return check_ids(nodes, argument, inputs[0].num_nodes())
    return as_rows(inputs).node_ids(nodes, argument, num_nodes)


def model_device(model: nn.Module) -> torch.device:
    """Return the device of the model's parameters."""
    if not isinstance(model, nn.Module):
        inner = isinstance(getattr(model, "module", None), nn.Module)
        hint = " Pass its module: lc.module." if inner else ""
        raise DGLError(
            f"the model should be a torch.nn.Module, and is "
            f"{type(model).__name__}.{hint}"
        )
    for parameter in model.parameters():
        return parameter.device
    return torch.device("cpu")


def check_output(output: Any) -> torch.Tensor:
    """Refuse an output that is not a tensor of rows."""
    if isinstance(output, HopFeatures):
        raise DGLError(
            f"the model's output still has hops {output.hops}. What the "
            f"original model gives is hop 0: return output[0], or precompute "
            f"just the hops the model uses (hops=[layers] for a plain GCN)."
        )
    if not isinstance(output, torch.Tensor) or output.dim() != 2:
        raise DGLError(
            f"the model should give a tensor of shape (rows, classes), and "
            f"gives {_described(output)}. {_what_to_return(output)}"
        )
    return output


def _described(output: Any) -> str:
    """Say what an output is."""
    if isinstance(output, torch.Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    if isinstance(output, (tuple, list)):
        return f"a {type(output).__name__} of {len(output)} items"
    if isinstance(output, dict):
        return f"a dict with the keys {', '.join(map(repr, output))}"
    return f"an object of {type(output).__name__}"


def _what_to_return(output: Any) -> str:
    """Say how the output becomes rows of classes."""
    if isinstance(output, torch.Tensor) and output.dim() == 1:
        return (
            "Leave out squeeze(1), so that a row has one number; for two "
            "classes, return two columns."
        )
    if isinstance(output, torch.Tensor):
        return "Return h.flatten(1), or a mean over the other dimensions."
    return (
        "Return the tensor of classes alone, or call the module with rows of "
        "HopLoader in a loop of your own."
    )
