"""Finding filters: values that aggregate, or that scale rows."""

import operator
from typing import Any

from . import causes
from .causes import Cause
from .filter_words import Aggregate, Diagonal, Letter
from .refusals import refuse
from .tracing.values import Trace, Value


class FilterFinder:
    """Finds the letter that a value applies, and the value it applies it to."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._letters: dict[int, tuple[Value, Letter] | None] = {}

    def letter(self, value: Value) -> tuple[Value, Letter] | None:
        """Return (source, letter) if a value is a letter times a source."""
        if value.id not in self._letters:
            if value.op == "aggregate":
                self._letters[value.id] = self._aggregate(value)
            else:
                self._letters[value.id] = _diagonal(value)
        return self._letters[value.id]

    def _aggregate(self, value: Value) -> tuple[Value, Letter] | None:
        """Return (source, aggregation), or refuse message passing."""
        graph, op, reduce = value.target
        source, weight = value.args
        linear = (
            reduce == "sum"
            and op in ("copy_lhs", "mul", "div")
            and isinstance(source, Value)
            and source.row_dim == 0
            and source.example.is_floating_point()
            and (weight is None or _one_for_each_edge(weight))
        )
        if linear and source.data:
            if op == "copy_lhs":
                return source, Aggregate(graph)
            return source, Aggregate(graph, weight, op == "div")
        if value.static:
            return None
        cause, reason, advice = _why_not(op, reduce, weight)
        operation = f"message passing ({op}, {reduce})"
        return refuse(cause, value.where, operation, reason, advice, value.line)


def _why_not(op: str, reduce: str, weight: Any) -> tuple[Cause, str, str]:
    """Return the cause why this is no filter, and what to do."""
    learned = isinstance(weight, Value) and not weight.static
    if learned and weight.random and not weight.learned:
        return (
            causes.DROPPED_EDGES,
            "edges are dropped at random, so the filter is not constant",
            "Set the edge dropout to 0, or pass ignore_edge_dropout=True",
        )
    if learned and op == "copy_rhs":
        return (
            causes.LEARNED_MESSAGES,
            "the message is a learned value of the edge, and not a fixed "
            "weight times the source's value",
            "Use copy_u, u_mul_e, or a product with static weights",
        )
    if learned and (weight.data or weight.learned):
        return (
            causes.LEARNED_EDGE_WEIGHTS,
            "edge weights are learned (attention, gates), so the filter "
            "is not constant",
            "Use fixed edge weights, or a model without attention",
        )
    if reduce != "sum":
        return (
            causes.NOT_A_SUM,
            f"{reduce} over neighbours of a learned value is not a "
            f"linear filter",
            "Use sum or mean",
        )
    if isinstance(weight, Value) and not _one_for_each_edge(weight):
        return (
            causes.UNSUPPORTED_MESSAGES,
            "edge weights have several channels, each of which is a filter",
            "Use one weight for each edge",
        )
    return (
        causes.LEARNED_MESSAGES,
        f"the message {op!r} is not a linear function of the source",
        "Use copy_u or u_mul_e",
    )


def _diagonal(value: Value) -> tuple[Value, Letter] | None:
    """Return (source, diagonal) if a value is scaled rows of a source."""
    if value.op != "call" or len(value.args) != 2 or value.kwargs:
        return None
    divides = value.target is operator.truediv
    if not divides and value.target is not operator.mul:
        return None
    a, b = value.args
    if _scales(b, a, value):
        return a, Diagonal(b, divides)
    if not divides and _scales(a, b, value):
        return b, Diagonal(a)
    return None


def _one_for_each_edge(weight: Any) -> bool:
    """Return whether it is static, with one number for each edge."""
    if not isinstance(weight, Value) or not weight.static:
        return False
    return weight.dims[:1] == ("E",) and all(d == 1 for d in weight.dims[1:])


def _scales(factor: Any, rows: Any, result: Value) -> bool:
    """Return whether a factor has one static number for each row."""
    if not isinstance(factor, Value) or not isinstance(rows, Value):
        return False
    if not factor.static or not rows.data or rows.row_dim != 0:
        return False
    one_each = factor.row_dim == 0 and all(d == 1 for d in factor.dims[1:])
    alike = len(factor.dims) == len(rows.dims) and rows.dims == result.dims
    scalar_rows = all(d == 1 for d in rows.dims[1:])
    if rows.static and scalar_rows:
        # A product of two norms is a norm, not a filter of features.
        return False
    return one_each and alike and rows.example.is_floating_point()
