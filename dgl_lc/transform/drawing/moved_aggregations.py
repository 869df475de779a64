"""Which aggregations of a model were moved to which input."""

from collections.abc import Callable

from ..filter_words import Word, degree
from ..pushed import Place, Pushed
from ..tracing.values import Value, arguments_of, values_in
from .value_order import in_order, number_of

#: Values that a value is computed from.
_Sources = Callable[[Value], list[Value]]


def moved_aggregations(
    pushed: Pushed, sources: _Sources
) -> dict[tuple[Value, Word], frozenset[Value]]:
    """Return the aggregations that were moved to each input.

    They are those on the way from the input to an output, along operations at
    the words that the input is used for.
    """
    passed: dict[tuple[Value, Word], frozenset[Value]] = {}

    def reach(value: Value, word: Word, so_far: frozenset[Value]) -> None:
        end = pushed.place(value, word)
        if end.kind == "shared":
            return
        between = _between(value, end, sources)
        key = end.value, end.word
        keys = [key] if end.kind == "op" else inputs_of(pushed, key)
        for found in keys:
            # Of a sum of inputs, one may have no filter.
            if found == key or degree(found[1]):
                before = passed.get(found, frozenset())
                passed[found] = before | so_far | between

    for value in values_in(pushed.trace.output):
        reach(value, (), frozenset())
    for value in sorted(pushed.needs, key=number_of, reverse=True):
        for word in pushed.needs[value]:
            for arg in arguments_of(value):
                if arg.data and arg.op != "number":
                    reach(arg, word, passed.get((value, word), frozenset()))
    inputs = set(pushed.inputs)
    return {key: found for key, found in passed.items() if key in inputs}


def inputs_of(
    pushed: Pushed, key: tuple[Value, Word]
) -> list[tuple[Value, Word]]:
    """Return the inputs that a static value at a word is the sum of."""
    return [item for _, item in pushed.sums.get(key, ((1.0, key),))]


def _between(value: Value, end: Place, sources: _Sources) -> frozenset[Value]:
    """Return the aggregations from a value down to where it is found.

    Those that an input is computed with are counted, too.
    """

    def until_end(v: Value) -> list[Value]:
        stop = v is end.value and end.kind == "op"
        return [] if stop else sources(v)

    every = in_order([value], until_end)
    return frozenset(v for v in every if v.op == "aggregate")
