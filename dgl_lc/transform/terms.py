"""Terms of messages, and functions of them."""

import operator
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
    For a layer on values of edges, which is applied to their sums, ``rows`` is
    the result, a value of nodes, and ``end`` is "s".
    """

    factor: float
    end: str
    rows: Value
    weight: Value | None = None


#: The terms of a message; None if it is not a sum of such terms.
Form = list[Term] | None


def scaled(form: Form, factor: float) -> Form:
    """Multiply terms by a number."""
    if form is None:
        return None
    return [term._replace(factor=factor * term.factor) for term in form]


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
    return made if made.example.shape == dims else None
