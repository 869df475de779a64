"""Checking the LC version before it is returned to the user.

On a graph whose filters only reorder the nodes, aggregation commutes with
everything, so the LC version must compute what the model does. On every
graph, a batch must give the same rows as all nodes together; an exact LC
version must be equal to the model; and any other LC version must be equal to
the model once both are made linear.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from . import causes
from .apply_words import precompute_plainly
from .evaluate import Evaluator
from .input_rows import InputRows
from .lc_module import LCModule
from .linearise import LinearModel, LinearVersion
from .linearity import close
from .model_inputs import Input
from .number_types import has_numbers, real_parts
from .permutations import permutation_graphs
from .pushed import Pushed
from .recognise import DROPOUTS
from .refusals import first_line, refusal, refuse
from .tracing.model_call import ModelCall
from .tracing.outputs import plain_output
from .tracing.probes import make_probe
from .tracing.values import Value, tensors_in, values_in

_ADVICE = (
    "dgl_lc can't transform this model correctly: please report it, with the "
    "model"
)


def check(
    call: ModelCall, module: LCModule, inputs: list[Input],
    pushed: Pushed, exact: bool,
) -> str:  # fmt: skip
    """Compare the LC version with the model; return what was compared.

    ``exact``: whether both should be equal on every graph.
    """
    with _WithoutDropout():
        return _check(call, module, inputs, pushed, exact)


def _check(
    call: ModelCall, module: LCModule, inputs: list[Input],
    pushed: Pushed, exact: bool,
) -> str:  # fmt: skip
    """Compare the LC version with the model, if nothing is random."""
    done, rtol = ["batches"], _tolerance(pushed)
    probe = make_probe(call, 3)
    _check_trace(probe, pushed)
    evaluate = Evaluator(probe)
    rows = precompute_plainly(inputs, evaluate)
    _check_batches(probe, module, rows, rtol)
    if exact:
        _check_equal(probe, module, rows, "a random graph", rtol)
        return ", ".join([*done, "equal on a random graph"])
    _check_linearised(probe, module, rows, pushed)
    done.append("equal on a random graph if made linear")
    skipped: list[str] = []
    for attempt in permutation_graphs(call, pushed):
        reason = attempt.reason
        if not reason:
            try:
                rows = _rows_on(attempt.probe, inputs)
                _check_equal(attempt.probe, module, rows, attempt.graph, rtol)
                done.append(f"equal on {attempt.graph}")
                if attempt.graph.endswith("with weights of 1"):
                    skipped.clear()  # the graph itself says it
                break
            except _NotApplicableError as error:
                reason = f"the model does not run there: {error}"
        skipped.append(f"not compared on {attempt.graph}: {reason}")
    # The first reason is that of the graph that would show most.
    return "; ".join([", ".join(done), *skipped[:1]])


def _rows_on(probe: ModelCall, inputs: list[Input]) -> InputRows:
    """Compute the inputs on a probe, if the model runs there."""
    try:
        return precompute_plainly(inputs, Evaluator(probe))
    except Exception as error:
        raise _NotApplicableError(first_line(error)) from error


def _tolerance(pushed: Pushed) -> float:
    """Return the relative error that rounding may cause."""
    coarse = max(
        torch.finfo(value.example.dtype).eps
        for value in pushed.trace.values
        if isinstance(value.example, torch.Tensor)
        and has_numbers(value.example)
    )
    # With autocast, numbers are rounded to 16 bits between the operations.
    return max(1e-3, 32 * coarse)


class _WithoutDropout(TorchFunctionMode):
    """Turns off dropout that a model has in evaluation too."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:  # fmt: skip
        if getattr(func, "__name__", "") in DROPOUTS:
            return args[0] if args else (kwargs or {})["input"]
        return func(*args, **(kwargs or {}))


class _Replay(Evaluator):
    """Evaluates all traced values, with gradients of the parameters."""

    def _evaluate(self, value: Value) -> Any:
        if value.op == "param":
            return self._params[value.target]
        return super()._evaluate(value)


def _check_trace(probe: ModelCall, pushed: Pushed) -> None:
    """Compare the traced values with the model: results and gradients."""
    probe.model.eval()
    replay = _Replay(probe)
    outputs = values_in(pushed.trace.output)
    found = tensors_in([replay(value) for value in outputs])
    expected = _outputs_of(probe)
    rtol = _tolerance(pushed)
    _compare(found, expected, "on a random graph, operation by operation", rtol)
    parameters = [p for p in probe.model.parameters() if p.requires_grad]
    try:
        its = _gradients(expected, parameters)
    except RuntimeError:
        # A model that changes tensors in place may have no gradients.
        return
    mine = _gradients(found, parameters)
    mine, its = _without_rounding(mine, its)
    _compare(mine, its, "on a random graph: gradients differ", rtol)


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


def _outputs_of(probe: ModelCall) -> list[torch.Tensor]:
    """Run the model of a probe, and return the tensors of its output."""
    output = probe.model(*probe.args, **probe.kwargs)
    return tensors_in(plain_output(output))


class _NotApplicableError(Exception):
    """Raised where the model does not run on a graph of this kind."""


def _with_parameters(module: LCModule, probe: ModelCall) -> LCModule:
    """Copy the LC version, with the parameters of a probe's model."""
    made = copy.deepcopy(module)
    its = probe.model.state_dict()
    mine = made.state_dict()
    same = {k: v for k, v in its.items() if v.shape == mine[k].shape}
    made.load_state_dict(same, strict=False)
    return made.eval()


def _check_equal(
    probe: ModelCall, module: LCModule, rows: InputRows, name: str,
    rtol: float,
) -> None:  # fmt: skip
    """Compare the LC version with the model as it is."""
    probe.model.eval()
    with torch.no_grad():
        found = tensors_in(_with_parameters(module, probe)(*rows))
        try:
            expected = _outputs_of(probe)
        except Exception as error:
            raise _NotApplicableError(first_line(error)) from error
    _compare(found, expected, f"on {name}", rtol)


def _check_linearised(
    probe: ModelCall, module: LCModule, rows: InputRows, pushed: Pushed
) -> None:
    """Compare the LC version with the model, both made linear."""
    model = LinearModel(probe, pushed)
    version = LinearVersion(_with_parameters(module, probe), pushed)
    with torch.no_grad():
        outputs = values_in(pushed.trace.output)
        expected = tensors_in([model(value) for value in outputs])
        found = tensors_in(version.run(*rows))
    _compare(
        found, expected, "on a random graph, both made linear",
        _tolerance(pushed),
    )  # fmt: skip


def _compare(
    found: list[torch.Tensor], expected: list[torch.Tensor], where: str,
    rtol: float,
) -> None:  # fmt: skip
    """Refuse an LC version whose results differ from the expected ones."""
    same = len(found) == len(expected) and all(
        close(a, b, rtol) for a, b in zip(found, expected, strict=True)
    )
    if not same:
        refuse(
            causes.INTERNAL, "", "the LC version",
            f"does not compute what the model does {where}",
            _ADVICE,
        )  # fmt: skip


def _check_batches(
    probe: ModelCall, module: LCModule, rows: InputRows, rtol: float
) -> None:
    """Compare batches of the LC version with all its rows."""
    made = _with_parameters(module, probe)
    with torch.no_grad():
        whole = tensors_in(made(*rows))
        for ids in (torch.tensor([5, 2, 8, 2]), torch.tensor([4])):
            try:
                part = tensors_in(made(*rows.rows(ids)))
            except Exception as error:
                raise refusal(
                    causes.MIXED_NODES, "", "the LC version",
                    f"does not run on a batch of {len(ids)} rows "
                    f"({first_line(error)})",
                    "Look for a fixed number of nodes, and for squeeze() "
                    "without a dimension",
                ) from error  # fmt: skip
            dims = [list(t.shape).index(probe.num_nodes) for t in whole]
            expected = [
                tensor.index_select(dim, ids)
                for tensor, dim in zip(whole, dims, strict=True)
            ]
            _compare(part, expected, "on a batch of rows", rtol)
