"""Measuring how much the LC version differs from the model, and by what."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from dgl import DGLError

from .drift import Drift, OperationDrift
from .lc_module import LCModule
from .linearity import LINEAR
from .model_inputs import Input
from .neighbourhoods import NodeEvaluator, Parts, TooLargeError, output_values
from .number_types import has_numbers, real_parts
from .pushed import Pushed
from .recognise import DROPOUT, OperationKinds, evaluating
from .swapped_model import SwappedModel
from .tracing.model_call import ModelCall
from .tracing.values import (
    Value,
    tensors_in,
)

#: Operations that are looked at one by one; more of them are grouped.
_ONE_BY_ONE = 16


def measure_drift(
    call: ModelCall, module: LCModule, inputs: list[Input], pushed: Pushed,
    nodes: torch.Tensor | None, samples: int,
) -> Drift:  # fmt: skip
    """Compare the LC version with the model on a graph.

    Parameters
    ----------
    nodes : Tensor or None
        Nodes to compare; None: all of a small graph, ``samples`` of a larger
        one, drawn at random.
    """
    # Both have the parameters of the LC version, which may be trained.
    call = replace(call, model=module)
    outputs = output_values(pushed)
    with torch.no_grad(), evaluating(module):
        kinds = OperationKinds(module, pushed.num_nodes)
        parts = Parts(pushed, kinds)
        evaluate, chosen = _sample(call, parts, outputs, inputs, nodes, samples)
        original = [evaluate.rows(value) for value in outputs]
        rows = [evaluate.input_rows(entry) for entry in inputs]
        found = tensors_in(module(*rows))
        operations = list(
            _by_operation(evaluate, parts, pushed, outputs, original)
        )
    operations.sort(key=lambda entry: -entry.relative)
    return Drift(
        _relative(found, original), _agreement(found, original), operations,
        chosen, call.num_nodes, evaluate.size, evaluate.hops,
    )  # fmt: skip


def _by_operation(
    evaluate: NodeEvaluator, parts: Parts, pushed: Pushed,
    outputs: list[Value], original: list[torch.Tensor],
) -> Iterator[OperationDrift]:  # fmt: skip
    """Swap one operation after the other, from the output to the inputs."""
    swapped: set[Value] = set()
    before, size = original, _norm(original)
    for group in _inexact(pushed):
        swapped.update(group)
        swap = SwappedModel(evaluate, parts, pushed, swapped)
        after = [
            evaluate.at_nodes(swap.at(value, ()), value) for value in outputs
        ]
        difference = [a - b for a, b in zip(after, before, strict=True)]
        first = group[-1]
        yield OperationDrift(
            first.where, first.name, pushed.kinds[first], len(group),
            _norm(difference) / (size or 1.0),
        )  # fmt: skip
        before = after


def _sample(
    call: ModelCall, parts: Parts, outputs: list[Value], inputs: list[Input],
    nodes: torch.Tensor | None, samples: int,
) -> tuple[NodeEvaluator, int]:  # fmt: skip
    """Choose nodes whose neighbourhoods are not too large."""
    if nodes is None:
        if call.num_nodes <= samples:
            evaluate = NodeEvaluator(call, parts, outputs, inputs, None)
            return evaluate, call.num_nodes
        generator = torch.Generator().manual_seed(0)
        nodes = torch.randperm(call.num_nodes, generator=generator)[:samples]
    while len(nodes):
        try:
            evaluate = NodeEvaluator(call, parts, outputs, inputs, nodes)
        except TooLargeError:
            nodes = nodes[: len(nodes) // 2]
            continue
        return evaluate, len(nodes)
    raise DGLError(
        "drift: the neighbourhood of a single node is too large to compare "
        "the models. Pass nodes= with fewer neighbours."
    )


def _inexact(pushed: Pushed) -> list[list[Value]]:
    """Return the operations that make a difference, the last one first.

    If there are many, neighbours are taken together.
    """
    found = [
        value
        for value, words in pushed.needs.items()
        if any(words)
        and pushed.kinds[value] not in (LINEAR, DROPOUT)
        and value not in pushed.exact_biases
    ]
    found.sort(key=lambda value: -value.id)
    size = -(-len(found) // _ONE_BY_ONE) or 1
    return [found[i : i + size] for i in range(0, len(found), size)]


def _relative(found: list[torch.Tensor], original: list[torch.Tensor]) -> float:
    """Return the norm of the difference, relative to the original."""
    difference = [a - b for a, b in zip(found, original, strict=True)]
    return _norm(difference) / (_norm(original) or 1.0)


def _norm(tensors: list[torch.Tensor]) -> float:
    """Return the norm of all numbers together."""
    numbers = [t for t in tensors if has_numbers(t)]
    floats = [real_parts(t).double() for t in numbers]
    return sum(float(t.pow(2).sum()) for t in floats) ** 0.5


def _agreement(
    found: list[torch.Tensor], original: list[torch.Tensor]
) -> float | None:
    """Return the share of nodes with the same largest output."""
    a, b = found[0], original[0]
    if b.dim() != 2 or b.shape[1] < 2 or not b.is_floating_point():
        return None
    same = a.argmax(dim=1) == b.argmax(dim=1)
    return float(same.double().mean()) if len(same) else None
