"""Drift: how much the LC version differs from the model, and by what."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .apply_words import apply_word
from .filter_words import Letter, Word
from .lc_module import LCModule
from .linearity import LINEAR
from .model_inputs import Input
from .neighbourhoods import NodeEvaluator, Parts, TooLargeError, output_values
from .pushed import Pushed
from .recognise import DROPOUT, OperationKinds
from .tracing.model_call import ModelCall
from .tracing.values import (
    Value,
    arguments_of,
    callable_of,
    tensors_in,
)
from .tracing.values import replace as replace_leaves

#: Operations that are looked at one by one; more of them are grouped.
_ONE_BY_ONE = 16


@dataclass(frozen=True)
class OperationDrift:
    """The difference that moving aggregations past an operation makes.

    Operations are swapped one after the other, from the output to the inputs:
    an operation can be swapped only after those that follow it. After the last
    one, the result is the LC version.

    Attributes
    ----------
    submodule, operation, kind : str
        Operation, as in the report.
    count : int
        Number of operations, if several are taken together; the names are
        those of the first one in the model.
    relative : float
        Norm of the change of the outputs when it is swapped, divided by the
        norm of the model's outputs.
    """

    submodule: str
    operation: str
    kind: str
    count: int
    relative: float

    def __str__(self) -> str:
        where = f" in {self.submodule}" if self.submodule else ""
        more = self.count - 1
        times = f" and the {more} that follow" if more else ""
        name = f"{self.kind}: {self.operation}{where}{times}"
        return f"{self.relative:8.2g}  {name}"


@dataclass(frozen=True)
class Drift:
    """The outputs of the LC version compared with those of the model.

    Attributes
    ----------
    relative : float
        Norm of the difference of the outputs, divided by the norm of the
        model's outputs.
    agreement : float or None
        Share of the nodes whose largest output is at the same place (whose
        class is the same); None if the output has no classes.
    operations : list of OperationDrift
        What swapping each operation that is not exact contributes; the
        largest first.
    nodes, num_nodes : int
        Number of nodes that were compared, and of the graph.
    neighbours, hops : int
        Number of nodes that these were computed from, and how many hops
        away they are.
    """

    relative: float
    agreement: float | None
    operations: list[OperationDrift]
    nodes: int
    num_nodes: int
    neighbours: int
    hops: int

    def __str__(self) -> str:
        line = f"drift: outputs differ by {self.relative:.2g} (relative)"
        if self.agreement is not None:
            line += f", argmax agrees for {self.agreement:.1%} of the nodes"
        lines = [line]
        if self.nodes == self.num_nodes:
            lines.append(f"  compared for all {self.nodes:,} nodes")
        else:
            lines.append(
                f"  compared for {self.nodes:,} of {self.num_nodes:,} nodes, "
                f"with all {self.neighbours:,} nodes of their neighbourhoods "
                f"of {self.hops} hops"
            )
        if self.operations:
            lines.append("  by operation, in the order of size:")
            lines.extend(f"  {entry}" for entry in self.operations)
        return "\n".join(lines)


class LazyDrift:
    """A drift that is measured when it is asked for.

    It is measured again if a parameter or a buffer has changed since.
    """

    def __init__(self, measure: Callable[[], Drift], module: LCModule) -> None:
        self._measure, self._module = measure, module
        self._known: tuple[list, Drift] | None = None

    def known(self) -> Drift | None:
        """Return the drift if it was measured for the present parameters."""
        if self._known is None or self._known[0] != self._state():
            return None
        return self._known[1]

    def measure(self) -> Drift:
        """Return the drift for the present parameters."""
        found = self.known()
        if found is None:
            found = self._measure()
            self._known = self._state(), found
        return found

    def _state(self) -> list[tuple[int, int]]:
        tensors = (*self._module.parameters(), *self._module.buffers())
        return [(id(tensor), tensor._version) for tensor in tensors]


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
    with torch.no_grad(), _in_evaluation(module):
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
        swap = _Swap(evaluate, parts, pushed, swapped)
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


class _Swap:
    """Evaluates a model in which only some operations are swapped.

    ``at(value, word)`` is the word applied to the value. For an operation to
    be swapped it is the operation on its arguments at that word; for any
    other that is not linear, the word is applied to its result.
    """

    def __init__(
        self, evaluate: NodeEvaluator, parts: Parts, pushed: Pushed,
        swapped: set[Value],
    ) -> None:  # fmt: skip
        self._evaluate = evaluate
        self._parts = parts
        self._kinds = pushed.kinds
        self._exact = pushed.exact_biases
        self._scaled = pushed.scaled
        self._swapped = swapped
        self._changed = self._find_changed(pushed)
        self._known: dict[tuple[Value, Word], Any] = {}

    def _find_changed(self, pushed: Pushed) -> set[Value]:
        """Return the values that depend on an operation to be swapped."""
        found = set(self._swapped)
        for value in pushed.trace.values:
            inside = self._parts.of(value) or ()
            if any(v in found for v in inside):
                found.add(value)
        return found

    def at(self, value: Value, word: Word) -> Any:
        """Return a word applied to a value.

        There is no recursion, for which deep models have too many values.
        """
        pending = [(value, word)]
        while pending:
            top = pending[-1]
            if top in self._known:
                pending.pop()
                continue
            needed = [p for p in self._needed(*top) if p not in self._known]
            if needed:
                pending.extend(needed)
            else:
                self._known[top] = self._compute(*top)
        return self._known[value, word]

    def _passes(self, value: Value) -> bool:
        """Return whether a word is handed on to the arguments of a value."""
        if value.is_item:
            return self._passes(value.args[0])
        linear = self._kinds.get(value) in (LINEAR, DROPOUT)
        return value in self._swapped or (linear and value not in self._exact)

    def _letter(self, value: Value, word: Word) -> tuple[Value, Letter] | None:
        """Return the letter that a value adds to a word, and its source."""
        # As in the LC version, scaling rows may be an operation at no word.
        if not word and value in self._scaled:
            return None
        return self._parts.letter(value)

    def _needed(self, value: Value, word: Word) -> list[tuple[Value, Word]]:
        """Return the values at words that this one is computed from."""
        if value not in self._changed:
            return []
        found = self._letter(value, word)
        if found is not None:
            source, letter = found
            return [(source, (*word, letter))]
        there = word if self._passes(value) else ()
        return [(arg, there) for arg in arguments_of(value)]

    def _compute(self, value: Value, word: Word) -> Any:
        evaluate = self._evaluate
        if value not in self._changed:
            return self._apply(word, evaluate(value), value)
        needed = self._needed(value, word)
        if self._letter(value, word) is not None:
            return self._known[needed[0]]
        there = needed[0][1]

        def argument(leaf: Any) -> Any:
            if isinstance(leaf, Value):
                return self._known[leaf, there]
            return evaluate._argument(leaf)

        args, kwargs = replace_leaves((value.args, value.kwargs), argument)
        result = callable_of(value, evaluate.call.model)(*args, **kwargs)
        return result if there == word else self._apply(word, result, value)

    def _apply(self, word: Word, result: Any, value: Value) -> Any:
        """Apply a word to the rows of a result."""
        dim = value.row_dim
        if not word or not value.data or dim is None:
            return result
        if not result.is_floating_point():
            return result
        rows = apply_word(word, result.movedim(dim, 0), self._evaluate)
        return rows.movedim(0, dim)


def _relative(found: list[torch.Tensor], original: list[torch.Tensor]) -> float:
    """Return the norm of the difference, relative to the original."""
    difference = [a - b for a, b in zip(found, original, strict=True)]
    return _norm(difference) / (_norm(original) or 1.0)


def _norm(tensors: list[torch.Tensor]) -> float:
    """Return the norm of all numbers together."""
    floats = [t.double() for t in tensors if t.is_floating_point()]
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


@contextmanager
def _in_evaluation(model: nn.Module) -> Iterator[None]:
    """Put a model and its parts into evaluation, and back again."""
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
