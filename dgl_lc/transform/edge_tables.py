"""Learned tables whose rows are chosen by types of edges.

An embedding of types of edges is the term E[t_e] of a message. Summed over the
incoming edges of a node, it is C E, where the columns of C count the edges of
each type. A product with a value of nodes, such as E[t_e] * h_u, is a sum over
types: a filter of the edges of type k, applied to E[k] * h.
"""

import operator
from typing import Any

import torch
from torch import nn

from .categories import MOST_CATEGORIES, one_hot
from .made_values import MadeValues
from .terms import (
    Form,
    Term,
    flat_product,
    sum_of_edges,
    times,
    weighted,
)
from .tracing.values import Value, arguments_of, replace

#: Number of types, or of channels of weights, that become filters.
MOST_FILTERS = 256


def lookup_term(
    value: Value, values: MadeValues, module: nn.Module | None
) -> Form:
    """Return the term of a row of a table for each edge, if it is one."""
    found = _lookup(value, values, module)
    if found is None:
        return None
    table, types = found
    if not _are_types(types) or table.data or not table.dims:
        return None
    if not table.example.is_floating_point() or table.random:
        return None
    if len(table.example) > MOST_CATEGORIES:
        return None
    return [Term(1.0, "t", table, types=types)]


def _lookup(
    value: Value, values: MadeValues, module: nn.Module | None
) -> tuple[Value, Value] | None:
    """Return the table and the integers of a lookup."""
    args = value.args
    if module is not None:
        plain = isinstance(module, nn.Embedding) and (
            module.padding_idx is None
            and module.max_norm is None
            and not module.scale_grad_by_freq
        )
        if not plain or len(args) != 1:
            return None
        return values.parameter(f"{value.target}.weight", value), args[0]
    if value.op != "call" or value.is_item:
        return None
    if value.name == "embedding" and len(args) >= 2:
        # The norm's type (2.0) has no effect without a largest norm.
        options = (*args[2:], *value.kwargs.values())
        if any(option not in (None, False, 2.0) for option in options):
            return None
        found = args[1::-1]
    elif value.kwargs:
        return None
    elif value.target is operator.getitem:
        found = args
    elif value.name == "index_select" and len(args) == 3 and args[1] == 0:
        found = args[::2]
    else:
        return None
    table, types = found
    if not isinstance(table, Value) or not isinstance(types, Value):
        return None
    return table, types


def _are_types(types: Value) -> bool:
    """Return whether it is a static integer for each edge."""
    integers = torch.int64, torch.int32
    return types.static and types.dims == ("E",) and (
        types.example.dtype in integers
    )  # fmt: skip


def sum_of_rows(values: MadeValues, graph: Any, term: Term) -> Value:
    """Write the sum of a table's rows over the edges into a node."""
    table, types = term.rows, term.types
    count, dtype = len(table.example), table.example.dtype
    columns = values.call(one_hot, (types, count, dtype), ("E", count))
    counts = sum_of_edges(values, graph, columns, term.weight)
    shape = tuple(table.example.shape[1:])
    width = torch.Size(shape).numel()
    size = (count, width)
    flat = values.call(torch.Tensor.reshape, (table, size), size)
    total = values.call(operator.matmul, (counts, flat), ("N", width))
    if len(shape) == 1:
        return total
    pair = (total, (-1, *shape))
    return values.call(torch.Tensor.reshape, pair, ("N", *shape))


def on_table(
    values: MadeValues, value: Value, part: Value, table: Value
) -> Value | None:
    """Write a function of each edge's row as one of the rows of a table."""
    if table.dims[1:] != part.dims[1:]:
        return None
    others = [v for v in arguments_of(value) if v is not part]
    edges = [v for v in others if _counts(v, part)]
    if any(v.data for v in others if v not in edges):
        return None

    def put(rows: Any) -> Value:
        def move(leaf: Any) -> Any:
            if leaf in edges:
                return len(rows.example)
            return rows if leaf is part else leaf

        args, kwargs = replace((value.args, value.kwargs), move)
        dims = (len(rows.example), *value.dims[1:])
        return values.make(value.op, value.target, args, dims, value, kwargs)

    try:
        whole = put(table)
        # The function has to be one of each row.
        first = values.call(
            operator.getitem, (table, slice(0, 1)), (1, *table.dims[1:])
        )
        alone = put(first)
    except Exception:
        return None
    if whole.example.shape[:1] != table.example.shape[:1]:
        return None
    same = torch.allclose(whole.example[:1], alone.example, atol=1e-5)
    return whole if same else None


def _counts(value: Value, rows: Value) -> bool:
    """Return whether it is the number of rows: a size of a new shape."""
    return value.op == "number" and value.example == len(rows.example)


def product_terms(
    values: MadeValues, function: Any, a: Form, b: Form, dims: tuple
) -> Form:
    """Return the terms of a product of values of nodes and learned rows.

    ``b`` has rows of tables, or values that are the same on every edge. The
    function is a product of rows, or of matrices.
    """
    if not a or not b or any(term.end not in "uv" for term in a):
        return None
    if any(term.end not in "1t" for term in b):
        return None
    if any(t.end == "t" and len(t.rows.example) > MOST_FILTERS for t in b):
        return None
    found: list[Term] = []
    for one in a:
        for other in b:
            for rows, mask in _choices(values, other):
                pair = (one.rows, rows)
                made = values.call(function, pair, ("N", *dims[1:]))
                if made.example.shape[1:] != dims[1:]:
                    return None
                weights = [
                    w for w in (one.weight, other.weight, mask) if w is not None
                ]
                weight = weights[0] if weights else None
                for more in weights[1:]:
                    both = (weight, more)
                    weight = values.call(flat_product, both, ("E",))
                factor = one.factor * other.factor
                if weight is None or not values.is_zero(weight):
                    found.append(Term(factor, one.end, made, weight))
    return found or None


def _choices(
    values: MadeValues, term: Term
) -> list[tuple[Value, Value | None]]:
    """Return the rows of a term, each with the mask of its edges."""
    if term.end == "1":
        return [(term.rows, None)]
    table, types = term.rows, term.types
    assert types is not None
    dtype = table.example.dtype
    found: list[tuple[Value, Value | None]] = []
    for number in range(len(table.example)):
        own = values.call(operator.eq, (types, number), ("E",))
        mask = values.call(torch.Tensor.to, (own, dtype), ("E",))
        shape = tuple(table.example.shape[1:])
        row = values.call(operator.getitem, (table, number), shape)
        found.append((row, mask))
    return found


def typed_terms(
    values: MadeValues, form: Form, rows: Value, weights: Value, types: Any,
    blocks: tuple | None,
) -> Form:  # fmt: skip
    """Return the terms of a product with the matrix of an edge's type."""
    if not form or any(term.end in "e1s" for term in form):
        return None
    if not isinstance(types, Value) or types.dims != ("E",):
        return None
    found: list[Term] = []
    for number in range(len(weights.example)):
        own = values.call(operator.eq, (types, number), ("E",))
        mask = values.call(torch.Tensor.to, (own, rows.example.dtype), ("E",))
        shape = tuple(weights.example.shape[1:])
        matrix = values.call(operator.getitem, (weights, number), shape)
        for term in weighted(values, form, mask) or ():
            made = times(values, term.rows, matrix, blocks)
            found.append(term._replace(rows=made))
    kept = [t for t in found if t.weight and t.weight.example.any()]
    return kept or found


def channel_terms(
    values: MadeValues, form: Form, weights: Value, dims: tuple
) -> Form:
    """Return the terms of a product with several fixed weights per edge.

    Each channel is a filter, applied to the columns that it multiplies.
    """
    shape = weights.dims[1:]
    if not form or any(term.end not in "uv" for term in form):
        return None
    if not weights.static or weights.dims[:1] != ("E",):
        return None
    if not all(isinstance(size, int) for size in (*shape, *dims[1:])):
        return None
    count = torch.Size(shape).numel()
    if len(weights.dims) != len(dims) or not 1 < count <= MOST_FILTERS:
        return None
    flat = values.call(
        torch.Tensor.reshape, (weights, (-1, count)), ("E", count)
    )
    found: list[Term] = []
    for number in range(count):
        mask = torch.zeros(count, dtype=weights.example.dtype)
        mask[number] = 1
        columns = values.constant(mask.reshape(shape), weights)
        place = (slice(None), number)
        own = values.call(operator.getitem, (flat, place), ("E",))
        for term in form:
            pair = (term.rows, columns)
            made = values.call(operator.mul, pair, ("N", *dims[1:]))
            if made.example.shape[1:] != dims[1:]:
                return None
            weight = own
            if term.weight is not None:
                weight = values.call(flat_product, (term.weight, own), ("E",))
            found.append(term._replace(rows=made, weight=weight))
    return found
