"""Finding every value of a trace that can't be transformed.

Pushing stops at the first problem. Here every value that the output depends on
is looked at, in the order in which the model computes them. A value is a root
of the problems if it can't be transformed although all its arguments can;
what follows from a root is not reported again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import causes
from .causes import Cause
from .evaluate import refuse_trouble
from .find_filters import FilterFinder
from .recognise import OperationKinds
from .refusals import LCError, Line, Problem, refuse_value
from .tracing.values import Trace, Value, arguments_of, values_in


@dataclass(frozen=True)
class Root:
    """A value that can't be transformed, and the problem that it has."""

    value: Value
    problem: Problem

    def named(
        self, cause: Cause, what: str, reason: str, advice: str,
        at: Line | None = None,
    ) -> Problem:  # fmt: skip
        """Return the problem under another name, and at another line."""
        problem = self.problem
        if at is not None:
            problem = replace(
                problem, file=at.file, line=at.number, text=at.text
            )
        return replace(
            problem, code=cause.code, operation=what, reason=reason,
            advice=advice,
        )  # fmt: skip


class RootFinder:
    """Finds the roots of all problems of a trace.

    Attributes
    ----------
    bad : set of Value
        All values that can't be transformed: the roots, and what follows.
    """

    def __init__(self, trace: Trace, kinds: OperationKinds) -> None:
        self._trace = trace
        self._kinds = kinds
        self._filters = FilterFinder(Trace(list(trace.values)))
        self.bad: set[Value] = set()

    def find(self) -> Iterator[Root]:
        """Yield the roots in the order of computation."""
        needed = _needed(self._trace)
        for value in self._trace.values:
            if value not in needed:
                continue
            follows = any(v in self.bad for v in arguments_of(value))
            if value.op == "refused":
                self.bad.add(value)
                continue
            try:
                self._check(value)
            except LCError as error:
                self.bad.add(value)
                if not follows or picks_by_learned(value):
                    yield Root(value, error.problems[0])
                continue
            # What uses these values is judged, not they themselves.
            if follows and (value.static or _of_edges(value)):
                self.bad.add(value)

    def _check(self, value: Value) -> None:
        """Refuse a value that can't be transformed."""
        if value.trouble:
            refuse_trouble(value)
        if value.draws and _of_edges(value) and not _is_dropout(value):
            refuse_value(
                causes.DROPPED_EDGES, value,
                "draws random numbers for edges, so the filter is not "
                "constant",
                "Use fixed edge weights: the LC version is not trained on "
                "edges",
            )  # fmt: skip
        if value.draws and not value.data and not _is_dropout(value):
            refuse_value(
                causes.RANDOM_NUMBERS, value, "draws random numbers",
                "Use dropout, the only random function that can be "
                "transformed",
            )  # fmt: skip
        if not value.data or value.static or _of_edges(value):
            return
        if value.op == "aggregate" or self._filters.letter(value) is not None:
            self._filters.letter(value)
            return
        self._kinds.of(value)
        for arg in arguments_of(value):
            is_input = arg.static and arg.op != "number" and arg.dims
            if is_input and arg.row_dim is None:
                refuse_value(
                    causes.NUMBER_OF_THE_GRAPH, arg,
                    f"mixes nodes (its shape is {arg.dims})",
                    "Compute it before the model is called, and store it as "
                    "an attribute of the model",
                )  # fmt: skip


#: Functions that pick some of the nodes, or put them in another order.
PICKS = frozenset({
    "topk", "sort", "argsort", "msort", "kthvalue", "nonzero", "argwhere",
    "masked_select", "unique", "multinomial",
})  # fmt: skip


def picks_by_learned(value: Value) -> bool:
    """Return whether it picks nodes by learned values."""
    learned = any(v.learned and v.data for v in arguments_of(value))
    return learned and value.name.strip("_") in PICKS


def _of_edges(value: Value) -> bool:
    return "E" in value.dims or value.op in ("edges", "softmax")


def _is_dropout(value: Value) -> bool:
    # nn.Dropout is the module that draws random numbers for edges.
    return value.op == "module" or "dropout" in value.name


def _needed(trace: Trace) -> set[Value]:
    """Return the values that the output depends on; all, without an output."""
    if not trace.finished:
        return set(trace.values)
    found: set[Value] = set()
    pending = values_in(trace.output)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending.extend(arguments_of(value))
    return found
