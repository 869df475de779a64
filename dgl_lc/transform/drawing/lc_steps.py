"""The steps of the LC version, with the filters on its inputs."""

from collections.abc import Sequence

from torch import nn

from ..filter_words import Word
from ..linearity import LINEAR
from ..model_inputs import Input
from ..pushed import Place, Pushed
from ..recognise import DROPOUT
from ..tracing.values import Value, arguments_of, values_in
from .boxes import INPUTS, OPERATIONS
from .model_steps import ModelStep
from .moved_aggregations import inputs_of
from .operation_texts import operation_text, shape_text, weight_size
from .original_steps import ModelSteps, OriginalSteps
from .value_order import in_order


def lc_steps(
    model: nn.Module,
    pushed: Pushed,
    inputs: Sequence[Input],
    original: OriginalSteps,
    shallow_first: bool,
) -> ModelSteps:
    """List the steps of the LC version: features, inputs and operations."""
    found = ModelSteps()
    features: dict[Value, int] = {}
    place: dict[tuple[Value, Word] | Value, int] = {}
    for entry in inputs:
        for value in _origins(entry.value, original):
            if value not in features:
                features[value] = len(found.steps)
                found.steps.append(original.step(value, ()))
    for entry in inputs:
        key = entry.value, entry.word
        marks = sorted(original.marks[a] for a in original.moved.get(key, ()))
        args = [features[v] for v in _origins(entry.value, original)]
        # Names of values may have spaces in brackets: sum(x, pe).
        head = entry.formula.partition("(")[0].rstrip()
        letters = head.rpartition(" ")[0]
        name = entry.formula[len(letters) :].lstrip()
        place[key] = len(found.steps)
        found.steps.append(
            ModelStep(
                INPUTS, name, f"{entry.columns} columns", tuple(args),
                marks=tuple(marks), filter=letters,
                detail=f"{entry.formula}: argument {entry.name}",
            )
        )  # fmt: skip
    outputs = [pushed.place(v, ()) for v in values_in(pushed.trace.output)]

    def sources(value: Value) -> list[Value]:
        return [p.value for p in _places(pushed, value) if p.kind == "op"]

    ends = [p.value for p in outputs if p.kind == "op"]
    for value in in_order(ends, sources, shallow_first):
        args = [
            place[key]
            for p in _places(pushed, value)
            for key in _keys(pushed, p)
        ]
        words = len(pushed.needs[value])
        place[value] = len(found.steps)
        found.steps.append(
            ModelStep(
                OPERATIONS, operation_text(value, model), value.where,
                tuple(dict.fromkeys(args)), weight_size(value, model),
                shape_text(value),
                ("B" if words == 1 else f"{words}B",),
                changed=_is_changed(pushed, value),
            )
        )  # fmt: skip
    for end in outputs:
        ends_at = [place[key] for key in _keys(pushed, end)]
        if len(ends_at) > 1:
            shape = shape_text(end.value)
            step = ModelStep(OPERATIONS, "sum of inputs", args=tuple(ends_at),
                             shape=shape, rows=("B",))  # fmt: skip
            ends_at = [len(found.steps)]
            found.steps.append(step)
        found.outputs += ends_at
    return found


def _keys(pushed: Pushed, place: Place) -> list[tuple[Value, Word] | Value]:
    """Return the operation, or the inputs, that a place stands for."""
    if place.kind == "op":
        return [place.value]
    key = place.value, place.word
    return [*inputs_of(pushed, key)]


def _places(pushed: Pushed, value: Value) -> list[Place]:
    """Return the operations and inputs that an operation takes."""
    args = [a for a in arguments_of(value) if a.data and a.op != "number"]
    if value in pushed.exact_biases and pushed.ones is not None:
        args.append(pushed.ones)
    found = [
        pushed.place(arg, word) for arg in args for word in pushed.needs[value]
    ]
    return [place for place in found if place.kind != "shared"]


def _is_changed(pushed: Pushed, value: Value) -> bool:
    """Return whether swapping an operation makes another function."""
    if not any(pushed.needs[value]) or value in pushed.exact_biases:
        return False
    return pushed.kinds[value] not in (LINEAR, DROPOUT)


def _origins(value: Value, original: OriginalSteps) -> list[Value]:
    """Return the features that a static value is computed from."""
    every = in_order([value], original.sources)
    return [v for v in every if not original.sources(v)]
