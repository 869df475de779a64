"""Message passing with the index functions of torch.

``h[u]`` with the sources of ``u, v = g.edges()`` copies rows to edges, and
``zeros.index_add(0, v, messages)`` or ``scatter_add`` sums over edges.
"""

import operator
from typing import Any

import torch

from .tracing.values import Value

#: Functions that change the shape or the type of indices only.
_RESHAPES = frozenset({
    "unsqueeze", "view", "reshape", "expand", "repeat", "long", "to",
    "contiguous", "flatten",
})  # fmt: skip


def copied_rows(value: Value) -> tuple[Any, str, Value] | None:
    """Return (graph, end, rows) if a value has rows of one end of edges."""
    args = value.args
    if value.op == "edges" and value.target[1] in ("copy_lhs", "copy_rhs"):
        graph, op, left, right = value.target
        place = 0 if op == "copy_lhs" else 1
        return graph, (left, right)[place], args[place]
    if value.op != "call" or value.kwargs:
        return None
    if value.target is operator.getitem and not value.is_item:
        rows, index = args
    elif value.name == "index_select" and args[1:2] == (0,):
        rows, _, index = args
    else:
        return None
    end = _end(index)
    if end is None or not isinstance(rows, Value) or rows.row_dim != 0:
        return None
    return (*end, rows)


def scattered(value: Value) -> tuple[Any, Value] | None:
    """Return (graph, messages) if a value sums messages over in-edges."""
    sums = value.name == "scatter_reduce" and value.args[4:] == ("sum",)
    if value.op != "call" or value.kwargs or len(value.args) != 4 + sums:
        return None
    if not sums and value.name not in ("index_add", "scatter_add"):
        return None
    start, dim, index, messages = value.args[:4]
    if dim != 0 or not isinstance(start, Value) or not start.static:
        return None
    if start.target is not torch.zeros or not isinstance(messages, Value):
        return None
    spread = index
    while isinstance(spread, Value) and _reshapes(spread):
        spread = spread.args[0]
    end = _end(spread)
    if end is None or end[1] != "v" or messages.dims[0] != "E":
        return None
    if value.name != "index_add" and index.dims != messages.dims:
        return None
    return end[0], messages


def _reshapes(index: Value) -> bool:
    """Return whether indices are others in another shape."""
    if index.target is operator.getitem and not index.is_item:
        places = index.args[1]
        places = places if isinstance(places, tuple) else (places,)
        return all(p is None or p == slice(None) for p in places)
    return index.name in _RESHAPES


def _end(index: Any) -> tuple[Any, str] | None:
    """Return (graph, "u" or "v") if indices are the ends of all edges."""
    if not isinstance(index, Value) or not index.is_item:
        return None
    edges, place = index.args
    if edges.op != "graph" or edges.target[1] != "edges":
        return None
    if edges.args or set(edges.kwargs) - {"form"} or place not in (0, 1):
        return None
    if edges.kwargs.get("form", "uv") not in ("uv", "all"):
        return None
    return edges.target[0], "uv"[place]
