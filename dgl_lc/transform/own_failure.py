"""Models that fail on the user's own arguments, not only on a probe."""

from typing import Any

import torch
from torch import nn

from . import causes
from .refusals import LCError, first_line, refusal
from .tracing.call_leaves import change_leaves
from .tracing.model_call import ModelCall
from .tracing.probes import copy_model
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
            model, args, kwargs = _copied(call)
        except Exception:
            return None
        try:
            with torch.no_grad():
                call_model(model.train(training), args, kwargs)
        except Exception as error:
            found = refusal(
                causes.FAILS_BY_ITSELF, submodule, type(error).__name__,
                f"the model itself fails on the arguments that it was given "
                f"({first_line(error)})",
                "Correct this error first: the arguments after the model are "
                "passed to its forward as they are", failing_line(error),
            )  # fmt: skip
            found.__cause__ = error
            return found
    return None


def _copied(call: ModelCall) -> tuple[nn.Module, tuple, dict]:
    """Copy a call: a forward may write into graphs and features."""
    same: dict[int, Any] = {
        **{id(g): g.local_var() for g in call.graphs.values()},
        **{id(x): x.clone() for x in call.inputs.values()},
    }

    def swap(leaf: Any) -> Any:
        return same.get(id(leaf), leaf)

    args, kwargs = change_leaves((call.args, call.kwargs), swap)
    return copy_model(call, same), args, kwargs
