"""What a model reads for some nodes, and what it gives for them."""

from typing import Any, TypeGuard

import dgl
import torch
from dgl import DGLError
from torch import nn

from ..hops import HopFeatures
from ..node_rows import check_ids
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


def all_nodes(inputs: Inputs) -> torch.Tensor:
    """Return the nodes that have a row, in the order of the rows."""
    rows = as_rows(inputs)
    return torch.arange(rows.shape[0]) if rows.nodes is None else rows.nodes


def predict_rows(
    model: nn.Module,
    inputs: Inputs,
    nodes: torch.Tensor,
    batch_size: int,
    device: torch.device | str,
) -> torch.Tensor:
    """Compute the output for some nodes, in batches; give it on the CPU."""
    loader = HopLoader(inputs, nodes, batch_size=batch_size, device=device)
    return torch.cat([check_output(model(None, b)).cpu() for b in loader])
