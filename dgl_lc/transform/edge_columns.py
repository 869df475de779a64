"""Matrices that a linear layer makes from features of each edge.

W(e), linear in the features of an edge, is a sum over their columns:
e_1 W_1 + … + e_C W_C + b. A product W(e) h_u, as in NNConv, is then a filter
for each column, with the column as weights, applied to W_c h.
"""

import operator
from typing import Any

import torch
from torch import nn

from .edge_tables import MOST_FILTERS
from .linearity import close
from .made_values import MadeValues
from .recognise import OperationKinds
from .scattered_edges import of_edges
from .terms import Form, Term
from .tracing.values import Value, arguments_of, replace


def terms_of_columns(
    values: MadeValues, kinds: OperationKinds, value: Any
) -> Form:
    """Return the terms of a value of edges, one for each column of features.

    The value has to be an affine function of the features, as is known if it
    has terms.
    """
    chain: list[tuple[Value, Value]] = []
    while not value.static:
        parts = {v for v in arguments_of(value) if of_edges(v)}
        if len(parts) != 1 or value.op not in ("call", "module"):
            return None
        if any(v.data for v in arguments_of(value) if v not in parts):
            return None
        (part,) = parts
        chain.append((value, part))
        value = part
    if not chain or len(value.dims) != 2 or not of_edges(value):
        return None
    count, dtype = value.dims[1], value.example.dtype
    if not isinstance(count, int) or count > MOST_FILTERS:
        return None
    if not dtype.is_floating_point:
        return None
    # The last row, of zeros, has the bias.
    units = torch.eye(count + 1, count, dtype=dtype)
    rows = values.constant(units, value)
    try:
        for step, part in reversed(chain):
            rows = _on_rows(values, step, part, rows)
    except Exception:
        return None
    last = chain[0][0]
    if rows.example.shape != (count + 1, *last.dims[1:]):
        return None
    plain = all(_has_no_bias(kinds, step) for step, _ in chain)
    return _terms(values, value, rows, last, plain)


def _has_no_bias(kinds: OperationKinds, step: Value) -> bool:
    """Return whether a function is known to be linear, without a bias."""
    if step.op == "module":
        module = kinds.module(step)
        return isinstance(module, nn.Linear) and module.bias is None
    return step.name in ("matmul", "view", "reshape", "unflatten", "unsqueeze")


def _on_rows(
    values: MadeValues, step: Value, part: Value, rows: Value
) -> Value:
    """Apply a function of edges' rows to other rows."""

    def move(leaf: Any) -> Any:
        return rows if leaf is part else leaf

    args, kwargs = replace((step.args, step.kwargs), move)
    dims = (len(rows.example), *step.dims[1:])
    return values.make(step.op, step.target, args, dims, step, kwargs)


def _terms(
    values: MadeValues, features: Value, rows: Value, made: Value, plain: bool
) -> Form:
    """Write the terms, if they add up to the value that was made.

    ``plain`` says that there is no bias.
    """
    count, shape = features.dims[1], made.dims[1:]
    flat = rows.example.flatten(1)
    total = features.example @ (flat[:-1] - flat[-1]) + flat[-1]
    if not close(total.reshape(made.example.shape), made.example):
        return None
    call = values.call
    bias = call(operator.getitem, (rows, count), shape)
    found = [] if plain else [Term(1.0, "1", bias)]
    for number in range(count):
        own = call(operator.getitem, (rows, number), shape)
        if not plain:
            own = call(operator.sub, (own, bias), shape)
        place = (slice(None), number)
        weight = call(operator.getitem, (features, place), ("E",))
        found.append(Term(1.0, "1", own, weight))
    return found
