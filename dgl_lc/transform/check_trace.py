"""Checking the traced operations: they have to compute what the model does.

They are compared with the model on a random graph, results and gradients, and
on the user's own graph if it is small. The model is called twice, because a
model that keeps something from call to call has no LC version.
"""

import torch
from torch import nn

from .._common.bytes import format_bytes
from . import causes
from .evaluate import Evaluator
from .linearity import close
from .number_types import has_numbers, real_parts
from .own_failure import copied_call
from .pushed import Pushed
from .refusals import LCError, first_line, refuse
from .tracing.model_call import ModelCall
from .tracing.outputs import plain_output
from .tracing.shared_state import kept_shared_state
from .tracing.values import Value, tensors_in, values_in

#: The user's own graph is looked at up to these sizes.
_MOST_EDGES, _MOST_BYTES = 100_000, 1 << 24
#: Share of the rows that rounding may change a lot, as where a number is cut.
_ROUNDED = 0.01

_ADVICE = (
    "dgl_lc can't transform this model correctly: please report it, with the "
    "model"
)


def check_trace(probe: ModelCall, pushed: Pushed) -> list[str]:
    """Compare the traced values with the model on a random graph.

    What could not be compared is returned, with the reason.
    """
    probe.model.eval()
    rtol = tolerance(pushed)
    given = {name: tensor.clone() for name, tensor in probe.inputs.items()}
    replay = _Replay(probe)
    outputs = values_in(pushed.trace.output)
    found = tensors_in([replay(value) for value in outputs])
    where = "on a random graph"
    with kept_shared_state(probe.model):
        expected = _run(probe)
        compare(found, expected, f"{where}, operation by operation", rtol)
        skipped = [
            _check_gradients(probe, found, expected, where, rtol),
            _check_second_call(probe, given, expected, rtol),
        ]
    return [*filter(None, skipped)]


def _check_gradients(
    probe: ModelCall, found: list[torch.Tensor], expected: list[torch.Tensor],
    where: str, rtol: float,
) -> str:  # fmt: skip
    """Compare the gradients of the traced values with those of the model.

    The reason is returned if the model has none.
    """
    parameters = [p for p in probe.model.parameters() if p.requires_grad]
    try:
        its = _gradients(expected, parameters)
    except RuntimeError as error:
        # A model that changes tensors in place may have no gradients.
        return (
            f"gradients not compared: the model has none ({first_line(error)})"
        )
    mine = _gradients(found, parameters)
    mine, its = _without_rounding(mine, its)
    compare(mine, its, f"{where}: gradients differ", rtol)
    return ""


class _Replay(Evaluator):
    """Evaluates all traced values, with gradients of the parameters."""

    def _evaluate(self, value: Value) -> object:
        if value.op == "param":
            return self._params[value.target]
        return super()._evaluate(value)


def outputs_of(probe: ModelCall) -> list[torch.Tensor]:
    """Run the model of a probe, and return the tensors of its output."""
    with kept_shared_state(probe.model):
        return _run(probe)


def _run(probe: ModelCall) -> list[torch.Tensor]:
    output = probe.model(*probe.args, **probe.kwargs)
    return tensors_in(plain_output(output))


def tolerance(pushed: Pushed) -> float:
    """Return the relative error that rounding may cause."""
    coarse = max(
        torch.finfo(value.example.dtype).eps
        for value in pushed.trace.values
        if isinstance(value.example, torch.Tensor)
        and has_numbers(value.example)
    )
    # With autocast, numbers are rounded to 16 bits between the operations.
    return max(1e-3, 32 * coarse)


def compare(
    found: list[torch.Tensor], expected: list[torch.Tensor], where: str,
    rtol: float,
) -> None:  # fmt: skip
    """Refuse an LC version whose results differ from the expected ones."""
    if not _same(found, expected, rtol):
        refuse(
            causes.INTERNAL, "", "the LC version",
            f"does not compute what the model does {where}",
            _ADVICE,
        )  # fmt: skip


def _same(
    found: list[torch.Tensor], expected: list[torch.Tensor], rtol: float
) -> bool:
    return len(found) == len(expected) and all(
        close(a, b, rtol) for a, b in zip(found, expected, strict=True)
    )


def _check_second_call(
    probe: ModelCall, given: dict[str, torch.Tensor],
    first: list[torch.Tensor], rtol: float,
) -> str:  # fmt: skip
    """Refuse a model that gives another result when it is called again.

    It is called in training in between: a counter may count these calls only.
    The reason is returned if it can't be called again.
    """
    model = probe.model
    buffers = {name: b.clone() for name, b in model.named_buffers()}

    def run(training: bool) -> list[torch.Tensor]:
        # A forward may write into the features that it is given.
        for name, tensor in probe.inputs.items():
            tensor.copy_(given[name])
        model.train(training)
        return _run(probe)

    with torch.no_grad():
        before = [tensor.detach().clone() for tensor in first]
        try:
            run(training=True)
            # Batch norms change their statistics in training, which is fine.
            for name, buffer in model.named_buffers():
                buffer.copy_(buffers.get(name, buffer))
            # A flag that every call turns over is the same after two calls.
            again = [*run(training=False), *run(training=False)]
        except Exception as error:
            return (
                f"a second call not compared: the model fails when it is "
                f"called again ({first_line(error)})"
            )
        finally:
            model.eval()
    if not _same(again, before + before, rtol):
        refuse(
            causes.KEEPS_STATE, "", "forward",
            "gives another result when it is called again with the same "
            "arguments: the model keeps something from call to call (a "
            "counter, the last result), or draws random numbers from a "
            "generator of its own, and the LC version would not",
            "Let the result depend on the arguments and the parameters alone; "
            "count in the training loop",
        )  # fmt: skip
    return ""


def check_on_own_graph(call: ModelCall, pushed: Pushed) -> str:
    """Compare the traced values with the model on the user's own graph.

    Nothing is compared if the graph is large, or if the model fails there:
    then the reason is returned.
    """
    edges = sum(graph.num_edges() for graph in call.graphs.values())
    size = sum(tensor.nbytes for tensor in call.inputs.values())
    skipped = "not compared on your graph"
    if edges > _MOST_EDGES:
        return f"{skipped}: it has more than {_MOST_EDGES:,} edges"
    if size > _MOST_BYTES:
        most = format_bytes(_MOST_BYTES)
        return f"{skipped}: its features have more than {most}"
    outputs = values_in(pushed.trace.output)
    with torch.no_grad():
        try:
            own = copied_call(call)
            own.model.eval()
            expected = outputs_of(own)
        except LCError:
            raise
        except Exception as error:
            return f"{skipped}: the model fails there ({first_line(error)})"
        replay = _Replay(copied_call(call))
        replay.call.model.eval()
        try:
            found = tensors_in([replay(value) for value in outputs])
        except LCError:
            raise
        except Exception as error:
            return (
                f"{skipped}: what was traced can't be computed there "
                f"({first_line(error)})"
            )
    rtol = tolerance(pushed)
    if len(found) != len(expected) or any(
        _changed_rows(a, b, rtol) > _ROUNDED
        for a, b in zip(found, expected, strict=True)
    ):
        refuse(
            causes.OTHER_ON_OTHER_GRAPHS, "", "forward",
            "computes something else on your graph than on the graphs that "
            "it was traced on: it depends on the graph in a way that can't "
            "be followed (the number of nodes as a key of a dict or in a "
            "text)",
            "Write a forward that does the same operations on every graph",
        )  # fmt: skip
    return ""


def _changed_rows(
    found: torch.Tensor, expected: torch.Tensor, rtol: float
) -> float:
    """Return the share of rows that differ by more than rounding."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return 1.0
    if not expected.numel() or close(found, expected, rtol):
        return 0.0
    differs = found != expected
    if has_numbers(expected):
        size = expected.abs()
        usable = torch.isfinite(size)
        limit = rtol * (size + size[usable].mean())
        # What is not a number is close to nothing.
        differs = usable & ~((found - expected).abs() <= limit)
    return float(differs.view(len(differs), -1).any(1).double().mean())


def _without_rounding(
    mine: list[torch.Tensor], its: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Replace gradients that are zero, except for rounding, by zeros.

    A bias before a softmax, for instance, has no effect.
    """
    largest = max((float(t.abs().max()) for t in its if t.numel()), default=0.0)

    def cleaned(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        pair = (tensor, other)
        small = all((t.abs() <= 1e-5 * largest).all() for t in pair)
        return torch.zeros_like(tensor) if small else tensor

    pairs = list(zip(mine, its, strict=True)) if len(mine) == len(its) else []
    if not pairs:
        return mine, its
    return [cleaned(a, b) for a, b in pairs], [cleaned(b, a) for a, b in pairs]


def _gradients(
    outputs: list[torch.Tensor], parameters: list[nn.Parameter]
) -> list[torch.Tensor]:
    """Return the gradients of a sum of all outputs with random weights."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(())
    for output in outputs:
        if output.requires_grad:
            output = real_parts(output)
            weights = torch.rand(output.shape, generator=generator)
            total = total + (output * weights.to(output)).sum().float()
    if not total.requires_grad:
        return []
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    return [
        torch.zeros_like(p) if gradient is None else gradient
        for p, gradient in zip(parameters, found, strict=True)
    ]
