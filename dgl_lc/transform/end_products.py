"""Products of values of both ends of an edge.

The value of the target is the same for all edges into a node. It leaves the
sum: the sum of w_e h_u * h_v is h_v * (the sum of w_e h_u). A linear function
of such products is applied to the sum.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch

from .made_values import MadeValues
from .terms import (
    Form,
    Term,
    as_column,
    flat_product,
    on_rows,
    sum_of_edges,
    summed_term,
)
from .tracing.values import Value

#: The two kinds of terms that have a product here, the simpler one second.
_PAIRS = {"uv", "vv", "uu", "ev", "sv", "s1", "u1", "v1"}


def end_products(
    values: MadeValues, graph: Any, a: Form, b: Form, dims: tuple
) -> Form:
    """Return the terms of a product of values of both ends."""
    if not a or not b or not all(isinstance(size, int) for size in dims[1:]):
        return None
    found: list[Term] = []
    for one in a:
        for other in b:
            pair = (one, other)
            if one.end + other.end not in _PAIRS:
                pair = (other, one)
            made = _product(values, graph, *pair, dims)
            if made is None:
                return None
            found.append(made)
    return found


def _product(
    values: MadeValues, graph: Any, one: Term, other: Term, dims: tuple
) -> Term | None:
    """Return the product of two terms."""
    ends = one.end + other.end
    if ends not in _PAIRS or not _same_dims(one, dims):
        return None
    if other.end != "1" and not _same_dims(other, dims):
        return None
    if one.rows.example.dtype != other.rows.example.dtype:
        return None
    factor, weight = one.factor * other.factor, one.weight or other.weight
    if one.weight is not None and other.weight is not None:
        pair = (one.weight, other.weight)
        weight = values.call(flat_product, pair, ("E",))

    def times(rows: Value) -> Value:
        return _times(values, rows, other.rows, dims)

    if ends in ("vv", "uu", "u1", "v1"):
        made = Term(factor, one.end, times(one.rows), weight)
    else:
        total = _total_of(values, graph, one)
        made = summed_term(factor, weight, lambda w: times(total(w)))
    return made if made.rows.example.shape[1:] == dims[1:] else None


def _total_of(
    values: MadeValues, graph: Any, term: Term
) -> Callable[[Value | None], Value]:
    """Return what writes the sum of a term over edges, for given weights."""
    if term.summed is not None:
        return term.summed

    def total(weight: Value | None) -> Value:
        rows = term.rows
        if term.end == "e":
            return sum_of_edges(values, graph, rows, weight)
        own = ("N", *rows.dims[1:])
        if weight is None:
            return values.aggregate(graph, "copy_lhs", (rows, None), own)
        pair = (rows, as_column(values, weight, rows))
        return values.aggregate(graph, "mul", pair, own)

    return total


def _times(values: MadeValues, a: Value, b: Value, dims: tuple) -> Value:
    return values.call(operator.mul, (a, b), ("N", *dims[1:]))


def _same_dims(term: Term, dims: tuple) -> bool:
    """Return whether a term has the dimensions of a product."""
    size = torch.Size(dims[1:])
    own = term.rows.dims[1:]
    if len(own) != len(size) or not term.rows.example.is_floating_point():
        return False
    return all(a in (1, b) for a, b in zip(own, size, strict=True))


def sums_of_columns(values: MadeValues, form: Form) -> Form:
    """Sum the columns of products, as in a dot product of both ends."""

    def total(rows: Value) -> Value:
        dims = (*rows.dims[:-1], 1)
        return values.call(torch.sum, (rows, -1, True), dims)

    return None if form is None else [on_rows(term, total) for term in form]
