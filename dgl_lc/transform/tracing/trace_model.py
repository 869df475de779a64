"""Running the model of a probe and recording what it does."""

from typing import Any

import torch
from torch import nn

from .. import causes
from ..refusals import LCError, first_line, refusal, refuse
from .dgl_hooks import tracing
from .hidden_graphs import hidden_graph
from .made_graphs import refuse_hidden_graph
from .message_tracer import MessageTracer
from .model_call import ModelCall
from .outputs import plain_output
from .random_state import random_state
from .shared_state import kept_shared_state
from .user_lines import call_model, failing_line
from .values import Trace


def trace(
    call: ModelCall,
    training: bool,
    split_bias: bool = False,
    ignore_edge_dropout: bool = False,
    collect: bool = False,
) -> Trace:
    """Run the model of a probe and record what it does.

    With ``collect``, nothing is refused: problems are noted in the trace, and
    what can't be traced is run as it is.
    """
    call.model.train(training)
    tracer = MessageTracer(
        call.model, call.num_nodes, split_bias, ignore_edge_dropout
    )
    tracer.collects = collect
    for name, tensor in call.inputs.items():
        value = tracer.add("input", name, example=tensor, data=True)
        tracer.bind(tensor, value)
    tracer.users_graphs = call.originals
    for name, graph in call.graphs.items():
        tracer.add_graph(graph, name)
    try:
        with kept_shared_state(call.model):
            output = _run_as_torch_does(tracer, call)
        tracer.trace.output = tracer.lift(plain_output(output))
    except LCError as error:
        if not collect:
            raise
        tracer.trace.note(error.problems)
        tracer.trace.finished = False
    return tracer.trace


def _run_as_torch_does(tracer: MessageTracer, call: ModelCall) -> Any:
    """Run a model; refuse random numbers that are not torch's, and writes."""
    before, versions = random_state(), _versions(call.model)
    buffers = _own_buffers(call.model)
    output = run(tracer, call.model, call.args, call.kwargs)
    if before != random_state():
        refuse(
            causes.RANDOM_NUMBERS, "", "random numbers of Python or NumPy",
            "are drawn in forward, and can't be followed",
            "Use dropout, or draw the numbers outside the model",
        )  # fmt: skip
    for name, version in _versions(call.model).items():
        if versions.get(name) != version:
            refuse(
                causes.WRITES_IN_PLACE, "",
                f"the parameter {name}", "is changed in place by forward",
                "Change parameters outside forward",
            )  # fmt: skip
    for name, buffer in _own_buffers(call.model).items():
        if buffers.get(name) is not buffer:
            refuse(
                causes.WRITES_IN_PLACE, "",
                f"the buffer {name}", "is another tensor after forward: the "
                "model remembers something of each call, and the LC version "
                "would not",
                "Change buffers outside forward, in the training loop",
            )  # fmt: skip
    return output


def run(
    tracer: MessageTracer, model: nn.Module, args: tuple, kwargs: dict
) -> Any:
    """Run a model with a tracer; turn every error into an LCError."""
    try:
        with tracing(tracer):
            return call_model(model, args, kwargs)
    except LCError:
        raise
    except Exception as error:
        hidden = hidden_graph(model)
        if hidden is not None:
            refuse_hidden_graph(
                tracer.failed_in, *hidden, line=failing_line(error)
            )
        raise refusal(
            causes.FAILS_ON_PROBE, tracer.failed_in, type(error).__name__,
            f"the model does not run on another graph with the same kind of "
            f"features ({first_line(error)})",
            "Look for parameters, features or numbers of the size of your "
            "graph (a learnable embedding for each node, weights for each "
            "edge): they can't be transformed", failing_line(error),
        ) from error  # fmt: skip


def _versions(model: nn.Module) -> dict[str, int]:
    """Return a number for each parameter that counts changes in place."""
    return {name: p._version for name, p in model.named_parameters()}


def _own_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers of modules that are not those of torch."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules()
        if not type(module).__module__.startswith("torch.")
        for name, buffer in module.named_buffers(recurse=False)
    }
