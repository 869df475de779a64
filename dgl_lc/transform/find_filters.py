"""Finding filters: which values are an aggregation, or scale rows."""

import operator
from typing import Any

import torch

from .filter_words import Aggregate, Diagonal, Letter
from .refusals import refuse
from .tracing.values import Trace, Value

#: The source of a message, its edge weight if any, and the graph.
_Message = tuple[Value, Value | None, Any]


class FilterFinder:
    """Says of a value which letter it applies, and to which value."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._letters: dict[int, tuple[Value, Letter] | None] = {}

    def letter(self, value: Value) -> tuple[Value, Letter] | None:
        """The value is a letter, applied to another value."""
        if value.id not in self._letters:
            if value.op == "aggregate":
                self._letters[value.id] = self._aggregate(value)
            else:
                self._letters[value.id] = _diagonal(value)
        return self._letters[value.id]

    def _aggregate(self, value: Value) -> tuple[Value, Letter] | None:
        graph, op, reduce = value.target
        source, weight = value.args
        if op == "copy_rhs" and isinstance(weight, Value):
            message = self._message(weight)
            if message is not None and message[2] == graph:
                source, weight, _ = message
                op = "copy_lhs" if weight is None else "mul"
        linear = (
            reduce == "sum"
            and op in ("copy_lhs", "mul", "div")
            and isinstance(source, Value)
            and source.row_dim == 0
            and source.example.is_floating_point()
            and (weight is None or _one_for_each_edge(weight))
        )
        if linear and source.data:
            if op == "copy_lhs" or _is_ones(weight):
                return source, Aggregate(graph)
            return source, Aggregate(graph, weight, op == "div")
        if value.static:
            return None
        reason, advice = _why_not(op, reduce, weight)
        return refuse(value.where, f"message passing ({op}, {reduce})",
                      reason, advice)  # fmt: skip

    def _message(self, value: Value) -> _Message | None:
        """(source, weight, graph) of a value w_e * h_u, made by hand."""
        if value.op == "edges":
            graph, op, left, right = value.target
            if op == "copy_lhs" and left == "u":
                return value.args[0], None, graph
            if op == "mul" and {left, right} == {"u", "e"}:
                first, second = value.args
                source, weight = (
                    (first, second) if left == "u" else (second, first)
                )
                if _one_for_each_edge(weight):
                    return source, weight, graph
            return None
        if value.op != "call" or value.target is not operator.mul:
            return None
        for message, weight in (value.args, value.args[::-1]):
            if not isinstance(message, Value) or not _one_for_each_edge(weight):
                continue
            found = self._message(message)
            if found is not None and not message.static:
                source, first, graph = found
                if first is not None:
                    weight = self._product(first, weight, value)
                return source, weight, graph
        return None

    def _product(self, a: Value, b: Value, where: Value) -> Value:
        made = Value(
            len(self._trace.values), "call", _flat_product, (a, b), {},
            where.where, _flat_product(a.example, b.example), data=True,
            dims=("E",),
        )  # fmt: skip
        self._trace.values.append(made)
        return made


def _why_not(op: str, reduce: str, weight: Any) -> tuple[str, str]:
    learned = isinstance(weight, Value) and not weight.static
    if learned and weight.random and not weight.learned:
        return (
            "edges are dropped at random, so the filter is not constant",
            "Set the edge dropout to 0, or give ignore_edge_dropout=True",
        )
    if learned and op == "copy_rhs":
        return (
            "the message is a learned value of the edge, other than a "
            "fixed weight times the source's",
            "Use copy_u, u_mul_e, or a product with static weights",
        )
    if learned and (weight.data or weight.learned):
        return (
            "edge weights are learned (attention, gates), so the filter "
            "is not constant",
            "Use fixed edge weights, or a model without attention",
        )
    if reduce != "sum":
        return (
            f"{reduce} over neighbours of a learned value is not a "
            f"linear filter",
            "Use sum or mean",
        )
    if isinstance(weight, Value) and not _one_for_each_edge(weight):
        return (
            "edge weights have several channels, a filter for each",
            "Use one weight for each edge",
        )
    return (
        f"the message {op!r} is not a linear function of the source",
        "Use copy_u or u_mul_e",
    )


def _diagonal(value: Value) -> tuple[Value, Letter] | None:
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
    if not isinstance(weight, Value) or not weight.static:
        return False
    return weight.dims[:1] == ("E",) and all(d == 1 for d in weight.dims[1:])


def _is_ones(weight: Value | None) -> bool:
    """Whether edge weights are ones, made by torch.ones."""
    if weight is None or weight.op != "call":
        return False
    if weight.name in ("to", "float", "double", "reshape", "view"):
        return _is_ones(weight.args[0])
    return weight.target is torch.ones


def _scales(factor: Any, rows: Any, result: Value) -> bool:
    """Whether factor has one static number for each row."""
    if not isinstance(factor, Value) or not isinstance(rows, Value):
        return False
    if not factor.static or not rows.data or rows.row_dim != 0:
        return False
    one_each = factor.row_dim == 0 and all(d == 1 for d in factor.dims[1:])
    alike = len(factor.dims) == len(rows.dims) and rows.dims == result.dims
    scalar_rows = all(d == 1 for d in rows.dims[1:])
    if rows.static and scalar_rows:
        # Two norms, multiplied with each other: not a filter of features.
        return False
    return one_each and alike and rows.example.is_floating_point()


def _flat_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two edge weights, whatever their shapes."""
    return a.reshape(-1) * b.reshape(-1)
