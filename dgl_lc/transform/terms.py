"""Terms of messages, and functions of them."""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from .made_values import MadeValues
from .tracing.values import Value, arguments_of, replace


class Term(NamedTuple):
    """A term of a message: a weight times a value of one end of the edge.

    ``rows`` is the value of nodes, and ``end`` is "u" or "v"; for a static
    value of edges, ``rows`` is that value, and ``end`` is "e". For a bias,
    which is the same on every edge, ``rows`` is the bias, and ``end`` is "1".
    For a linear function that is applied to the sum of its arguments over
    edges, ``rows`` is the result, a value of nodes, and ``end`` is "s";
    ``summed`` writes it again for other weights. For a learned row that
    is chosen by the type of each edge, ``rows`` is the table, ``types`` are
    the types, and ``end`` is "t".
    """

    factor: float
    end: str
    rows: Value
    weight: Value | None = None
    types: Value | None = None
    summed: Callable[[Value | None], Value] | None = None


#: The terms of a message; None if it is not a sum of such terms.
Form = list[Term] | None


def summed_term(
    factor: float, weight: Value | None,
    summed: Callable[[Value | None], Value],
) -> Term:  # fmt: skip
    """Return the term of a function that writes its sum over edges."""
    return Term(factor, "s", summed(weight), weight, summed=summed)


def scaled(form: Form, factor: float) -> Form:
    """Multiply terms by a number."""
    if form is None:
        return None
    return [term._replace(factor=factor * term.factor) for term in form]


def weighted(values: MadeValues, form: Form, weight: Value) -> Form:
    """Multiply terms by a weight of each edge."""
    found: list[Term] = []
    for term in form or ():
        its = weight
        if term.weight is not None:
            its = values.call(flat_product, (term.weight, weight), ("E",))
        if term.summed is not None:
            found.append(summed_term(term.factor, its, term.summed))
        else:
            found.append(term._replace(weight=its))
    kept = [t for t in found if t.weight and not values.is_zero(t.weight)]
    return kept or found


def bias_term(arg: Any) -> Form:
    """Return the term of a value that is the same on every edge."""
    if not isinstance(arg, Value) or arg.data or arg.random or arg.trouble:
        return None
    if not isinstance(arg.example, torch.Tensor):
        return None
    return [Term(1.0, "1", arg)]


def same_width(arg: Value, dims: tuple) -> bool:
    """Return whether a product has the width of one of its factors."""
    return arg.dims[1:] == dims[1:]


def is_zero(arg: Any) -> bool:
    """Return whether it is the number zero, or a tensor made by zeros."""
    if isinstance(arg, Value):
        return arg.op == "call" and arg.target is torch.zeros
    return type(arg) in (int, float) and arg == 0


def flat_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two edge weights, whatever their shapes."""
    return a.reshape(-1) * b.reshape(-1)


def as_column(values: MadeValues, weight: Value, rows: Value | None) -> Value:
    """Return a weight with as many dimensions as the rows have."""
    ones = 0 if rows is None else len(rows.dims) - 1
    dims = ("E", *[1] * ones)
    if weight.dims == dims:
        return weight
    return values.call(torch.Tensor.reshape, (weight, (-1, *dims[1:])), dims)


def sum_of_edges(
    values: MadeValues, graph: Any, rows: Value, weight: Value | None
) -> Value:
    """Write the sum of static values of edges over the edges into a node."""
    if rows.target is nn.functional.pad and len(rows.args) == 2:
        # Columns of zeros are added to the sums.
        inner, around = rows.args
        total = sum_of_edges(values, graph, inner, weight)
        return values.call(rows.target, (total, around), ("N", *rows.dims[1:]))
    if weight is not None:
        pair = (as_column(values, weight, rows), rows)
        rows = values.call(operator.mul, pair, rows.dims)
    dims = ("N", *rows.dims[1:])
    return values.aggregate(graph, "copy_rhs", (None, rows), dims)


def times(
    values: MadeValues, rows: Value, matrix: Value, blocks: tuple | None
) -> Value:
    """Write the product of rows of nodes and a matrix, or its blocks."""
    if blocks is None:
        out = matrix.dims[-1]
        return values.call(operator.matmul, (rows, matrix), ("N", out))
    number, width, out = blocks
    matrix = values.call(torch.Tensor.reshape, (matrix, blocks), blocks)
    parts = tuple(
        values.call(operator.getitem, (matrix, block), (width, out))
        for block in range(number)
    )
    dims = (number * width, number * out)
    whole = values.call(torch.block_diag, parts, dims)
    return values.call(operator.matmul, (rows, whole), ("N", number * out))


def on_bias(
    values: MadeValues, value: Value, part: Value, bias: Value
) -> Value | None:
    """Write an operation on edges as one on a row that all edges have."""
    if bias.dims != part.dims[1:]:
        return None
    row = values.call(torch.Tensor.unsqueeze, (bias, 0), (1, *bias.dims))
    if any(v.op == "number" for v in arguments_of(value)):
        return None

    def move(leaf: Any) -> Any:
        return row if leaf is part else leaf

    args, kwargs = replace((value.args, value.kwargs), move)
    dims = (1, *value.dims[1:])
    try:
        made = values.make(value.op, value.target, args, dims, value, kwargs)
    except Exception:
        return None
    if made.example.shape != dims:
        return None
    return values.call(operator.getitem, (made, 0), dims[1:])


def without_bias(
    values: MadeValues, value: Value, module: nn.Module | None
) -> tuple[Value, Value] | None:
    """Return (layer without a bias, bias) of a linear layer with one."""
    linear = nn.functional.linear
    if module is not None:
        if not isinstance(module, nn.Linear) or module.bias is None:
            return None
        weight = values.parameter(f"{value.target}.weight", value)
        bias = values.parameter(f"{value.target}.bias", value)
        args = (value.args[0], weight)
    elif value.target is linear and len(value.args) == 3:
        args, bias = value.args[:2], value.args[2]
    else:
        return None
    if not isinstance(bias, Value) or bias.data:
        return None
    layer = dataclasses.replace(
        value, op="call", target=linear, args=args, kwargs={}
    )
    return layer, bias


def joined_terms(
    values: MadeValues, value: Value, form_of: Callable[[Any], Form]
) -> Form:
    """Return the terms of joined columns, each beside columns of zeros."""
    dim = value.kwargs.get("dim", (*value.args, 0, 0)[1])
    if len(value.dims) != 2 or dim not in (1, -1):
        return None
    parts = value.args[0]
    widths = [part.dims[-1] for part in parts]
    found: list[Term] = []
    for place, part in enumerate(parts):
        form = form_of(part)
        if not form:
            return None
        around = (sum(widths[:place]), sum(widths[place + 1 :]))
        for term in form:
            if term.rows.dims[-1:] != (widths[place],):
                return None

            def padded(rows: Value, around: tuple = around) -> Value:
                dims = (*rows.dims[:-1], sum(widths))
                return values.call(nn.functional.pad, (rows, around), dims)

            found.append(on_rows(term, padded))
    return found


def on_rows(term: Term, function: Callable[[Value], Value]) -> Term:
    """Apply a linear function to the rows of a term."""
    inner = term.summed
    if inner is None:
        return term._replace(rows=function(term.rows))

    def summed(weight: Value | None) -> Value:
        return function(inner(weight))

    return summed_term(term.factor, term.weight, summed)
