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
from torch.overrides import TorchFunctionMode

from . import causes
from .apply_words import precompute_plainly
from .check_trace import (
    check_on_own_graph,
    check_trace,
    compare,
    outputs_of,
    tolerance,
)
from .evaluate import Evaluator
from .input_rows import InputRows
from .lc_module import LCModule
from .linearise import LinearModel, LinearVersion
from .linearity import NONLINEAR
from .model_inputs import Input
from .permutations import permutation_graphs
from .pushed import Pushed
from .recognise import DROPOUTS
from .refusals import first_line, refusal, refuse_value
from .tracing.model_call import ModelCall
from .tracing.probes import make_probe
from .tracing.values import tensors_in, values_in


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
    done, rtol = ["batches"], tolerance(pushed)
    probe = make_probe(call, 3)
    skipped = check_trace(probe, pushed)
    skipped += filter(None, [check_on_own_graph(call, pushed)])
    evaluate = Evaluator(probe)
    rows = precompute_plainly(inputs, evaluate)
    _check_batches(probe, module, rows, rtol)
    if skipped:
        # The model may not run a second time.
        probe = make_probe(call, 3)
    if exact:
        _check_equal(probe, module, rows, "a random graph", rtol)
        done.append("equal on a random graph")
        return _in_words(done, skipped)
    _check_rows_differ(probe, module, rows, pushed)
    _check_linearised(probe, module, rows, pushed)
    done.append("equal on a random graph if made linear")
    reasons: list[str] = []
    for attempt in permutation_graphs(call, pushed):
        reason = attempt.reason
        if not reason:
            try:
                rows = _rows_on(attempt.probe, inputs)
                _check_equal(attempt.probe, module, rows, attempt.graph, rtol)
                done.append(f"equal on {attempt.graph}")
                if attempt.graph.endswith("with weights of 1"):
                    reasons.clear()  # the graph itself says it
                break
            except _NotApplicableError as error:
                reason = f"the model does not run there: {error}"
        reasons.append(f"not compared on {attempt.graph}: {reason}")
    # The first reason is that of the graph that would show most.
    return _in_words(done, [*reasons[:1], *skipped])


def _in_words(done: list[str], skipped: list[str]) -> str:
    """Say what was compared, and what was not."""
    return "; ".join([", ".join(done), *skipped])


def _rows_on(probe: ModelCall, inputs: list[Input]) -> InputRows:
    """Compute the inputs on a probe, if the model runs there."""
    try:
        return precompute_plainly(inputs, Evaluator(probe))
    except Exception as error:
        raise _NotApplicableError(first_line(error)) from error


class _WithoutDropout(TorchFunctionMode):
    """Turns off dropout that a model has in evaluation too."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:  # fmt: skip
        if getattr(func, "__name__", "") in DROPOUTS:
            return args[0] if args else (kwargs or {})["input"]
        return func(*args, **(kwargs or {}))


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
            expected = outputs_of(probe)
        except Exception as error:
            raise _NotApplicableError(first_line(error)) from error
    compare(found, expected, f"on {name}", rtol)


def _check_rows_differ(
    probe: ModelCall, module: LCModule, rows: InputRows, pushed: Pushed
) -> None:
    """Refuse an LC version that gives all nodes the same result."""
    with torch.no_grad():
        found = tensors_in(_with_parameters(module, probe)(*rows))
        expected = outputs_of(probe)
    swapped = [
        value
        for value, words in pushed.needs.items()
        if any(words) and pushed.kinds[value] == NONLINEAR
    ]
    for mine, its in zip(found, expected, strict=True):
        dim = list(its.shape).index(probe.num_nodes)
        lost = _rows_differ(its, dim) and not _rows_differ(mine, dim)
        if lost and swapped:
            refuse_value(
                causes.NOT_A_SUM, swapped[0],
                "is aggregated, and the LC version gives all nodes the same "
                "result: a variance or a standard deviation over neighbours, "
                "S(h * h) - S(h) * S(h), is zero if aggregation is swapped "
                "with the product",
                "Use a sum or a mean over neighbours",
            )  # fmt: skip


def _rows_differ(tensor: torch.Tensor, dim: int) -> bool:
    """Return whether rows differ by more than rounding."""
    if not tensor.is_floating_point():
        return True
    first = tensor.narrow(dim, 0, 1)
    limit = 1e-4 * float(tensor.abs().max())
    return not bool(((tensor - first).abs() <= limit).all())


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
    compare(
        found, expected, "on a random graph, both made linear",
        tolerance(pushed),
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
            compare(part, expected, "on a batch of rows", rtol)
