"""Values of some edges, which are computed and written back by the same index.

``out[ids] = layer(h[ids])`` gives a row to each edge of ``ids``, as in CompGCN
by direction. A function of each row can be applied to all edges instead:
``torch.where(mask, layer(h), out)`` is the same, and has a row for each edge.
"""

import operator
from typing import Any

import torch
from torch import nn

from ..row_programs.written_rows import write_items
from .made_values import MadeValues
from .recognise import OperationKinds
from .tracing.values import Value, arguments_of, replace


def is_write(value: Value) -> bool:
    """Return whether it is a write into some rows of edges."""
    return value.target is write_items and _has_edges(value)


def _has_edges(value: Any) -> bool:
    return isinstance(value, Value) and value.dims[:1] == ("E",)


def written_edges(
    value: Value, values: MadeValues, kinds: OperationKinds, count: Value | None
) -> tuple[Value, Value, Value] | None:
    """Return the arguments of ``torch.where`` that a write is the same as.

    ``count`` is the number of edges.
    """
    base, index, rows = value.args
    if not isinstance(index, Value) or not index.static or count is None:
        return None
    whole = _on_all_edges(rows, index, values, kinds)
    if whole is None or whole.dims != value.dims:
        return None
    mask = index
    if index.example.dtype != torch.bool:
        mask = values.call(mask_of, (index, count), ("E",))
    if mask.dims != ("E",):
        return None
    shape = (-1, *[1] * (len(value.dims) - 1))
    column = (mask, shape)
    dims = ("E", *shape[1:])
    mask = values.call(torch.Tensor.reshape, column, dims)
    return mask, whole, base


def mask_of(index: torch.Tensor, count: int) -> torch.Tensor:
    """Return a mask of the places that an index has."""
    mask = torch.zeros(count, dtype=torch.bool)
    mask[index] = True
    return mask


def _on_all_edges(
    rows: Any, index: Value, values: MadeValues, kinds: OperationKinds
) -> Value | None:
    """Write a function of some edges' rows as the same one of all edges'."""
    chain: list[tuple[Value, Value]] = []
    while isinstance(rows, Value) and not _is_pick(rows, index):
        parts = {v for v in arguments_of(rows) if v.data}
        if len(parts) != 1 or rows.op not in ("call", "module"):
            return None
        if rows.random or rows.trouble or _has_statistics(rows, kinds):
            return None
        (part,) = parts
        chain.append((rows, part))
        rows = part
    if not isinstance(rows, Value):
        return None
    whole = rows.args[0]
    for step, part in reversed(chain):
        whole = _put(step, part, whole, values)
        if whole is None:
            return None
    return whole


def _is_pick(value: Value, index: Value) -> bool:
    """Return whether it picks rows of edges by the index."""
    if value.op != "call" or value.target is not operator.getitem:
        return False
    source, by = value.args
    return by is index and _has_edges(source)


def _has_statistics(value: Value, kinds: OperationKinds) -> bool:
    """Return whether it has statistics over the rows in training."""
    if value.op != "module":
        return "norm" in value.name
    norm = nn.modules.batchnorm._NormBase
    return isinstance(kinds.module(value), norm)


def _put(
    step: Value, part: Value, whole: Value, values: MadeValues
) -> Value | None:
    """Apply a step to all edges; None if it does not work for them."""

    def move(leaf: Any) -> Any:
        return whole if leaf is part else leaf

    args, kwargs = replace((step.args, step.kwargs), move)
    dims = ("E", *step.dims[1:])
    try:
        made = values.make(step.op, step.target, args, dims, step, kwargs)
    except Exception:
        return None
    rows = whole.example.shape[0]
    return made if made.example.shape == (rows, *dims[1:]) else None
