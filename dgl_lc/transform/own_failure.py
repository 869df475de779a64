"""Models that fail on the user's own arguments, not only on a probe."""

import re
from collections.abc import Iterator
from typing import Any

import dgl
import torch

from . import causes
from .refusals import LCError, first_line, refusal
from .tracing.argument_names import named_arguments
from .tracing.call_leaves import change_leaves
from .tracing.model_call import ModelCall
from .tracing.probes import copy_model
from .tracing.shared_state import kept_shared_state
from .tracing.user_lines import call_model, failing_line

#: A call with more edges, or with more bytes of features, is not tried.
_MOST_EDGES, _MOST_BYTES = 5_000_000, 1 << 30


def own_failure(call: ModelCall, submodule: str) -> LCError | None:
    """Return the error of a model that fails on the arguments it was given.

    The model is called as the user would call it, on copies, in evaluation and
    in training. None is returned if it runs, or if the call is too large.
    """
    edges = sum(graph.num_edges() for graph in call.graphs.values())
    size = sum(tensor.nbytes for tensor in call.inputs.values())
    if edges > _MOST_EDGES or size > _MOST_BYTES:
        return None
    for training in (False, True):
        try:
            own = copied_call(call)
        except Exception:
            return None
        try:
            with torch.no_grad(), kept_shared_state(own.model):
                call_model(own.model.train(training), own.args, own.kwargs)
        except Exception as error:
            found = refusal(
                causes.FAILS_BY_ITSELF, submodule, type(error).__name__,
                f"the model itself fails on the arguments that it was given "
                f"({_text(error)}); forward was called with "
                f"{', '.join(_shown(call))}",
                _advice(call), failing_line(error),
            )  # fmt: skip
            found.__cause__ = error
            return found
    return None


def _text(error: Exception) -> str:
    """Return the message of an error, without places in the code of DGL."""
    text = re.sub(r"^\[[\d:]+\] \S+: ", "", str(error).strip())
    return first_line(Exception(text)) if text else first_line(error)


def _shown(call: ModelCall) -> Iterator[str]:
    """Describe each argument of a call."""
    for name, item in named_arguments(call.model, call.args, call.kwargs):
        prefix = f"{name} = " if name else ""
        if isinstance(item, torch.Tensor):
            kind = str(item.dtype).removeprefix("torch.")
            yield f"{prefix}{kind} tensor of shape {tuple(item.shape)}"
        elif isinstance(item, dgl.DGLGraph):
            yield (
                f"{prefix}graph of {item.num_nodes():,} nodes and "
                f"{item.num_edges():,} edges"
            )
        else:
            yield f"{prefix}{type(item).__name__}"


def _advice(call: ModelCall) -> str:
    """Say what to correct, where the arguments show it."""
    tensors = {
        name or "an argument": item
        for name, item in named_arguments(call.model, call.args, call.kwargs)
        if isinstance(item, torch.Tensor) and item.dim()
    }
    sizes = {call.num_nodes}
    sizes |= {graph.num_edges() for graph in call.graphs.values()}
    first = next(call.model.parameters(), None)
    for name, item in tensors.items():
        if name in ("g", "graph"):
            return (
                f"Look at the order of the arguments: forward takes a graph "
                f"as {name}, and got a tensor"
            )
        if len(item) not in sizes:
            return (
                f"Look at {name} first: it has {len(item):,} rows, and the "
                f"graph has {call.num_nodes:,} nodes"
            )
        floats = first is not None and item.is_floating_point()
        if floats and first is not None and item.dtype != first.dtype:
            kind = str(first.dtype).removeprefix("torch.")
            return (
                f"Look at {name} first: the parameters of the model are "
                f"{kind}. Pass {name}.to(torch.{kind})"
            )
    return (
        "Correct this error first: the arguments after the model are passed "
        "to its forward as they are, in their order"
    )


def copied_call(call: ModelCall) -> ModelCall:
    """Copy a call: a forward may write into graphs and features."""
    graphs = {name: g.local_var() for name, g in call.graphs.items()}
    inputs = {name: x.clone() for name, x in call.inputs.items()}
    same: dict[int, Any] = {
        **{id(call.graphs[name]): graph for name, graph in graphs.items()},
        **{id(call.inputs[name]): tensor for name, tensor in inputs.items()},
    }

    def swap(leaf: Any) -> Any:
        return same.get(id(leaf), leaf)

    args, kwargs = change_leaves((call.args, call.kwargs), swap)
    return ModelCall(copy_model(call, same), args, kwargs, graphs, inputs)
