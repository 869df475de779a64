"""Message passing with the index functions of torch.

``h[u]`` with the sources of ``u, v = g.edges()`` copies rows to edges, and
``zeros.index_add(0, v, messages)`` or ``scatter_add`` sums over edges. Other
indices that are computed from the graph (``adj.coalesce().indices()``,
``torch.cat([u, loops])``) are the ends of the edges of another graph.
"""

import operator
from collections.abc import Mapping
from typing import Any

import dgl
import torch

from .tracing.values import Value, arguments_of

#: The graph and the end of its edges, "u" or "v", by indices of nodes.
Ends = Mapping[Value, tuple[Any, str]]

#: Functions that change the shape or the type of indices only.
_RESHAPES = frozenset({
    "unsqueeze", "view", "reshape", "expand", "repeat", "long", "to",
    "contiguous", "flatten",
})  # fmt: skip


def copied_rows(
    value: Value, ends: Ends | None = None
) -> tuple[Any, str, Value] | None:
    """Return (graph, end, rows) if a value has rows of one end of edges.

    ``ends`` are indices that are ends of edges, besides those of ``g.edges()``.
    """
    args = value.args
    if value.op == "edges" and value.target[1] in ("copy_lhs", "copy_rhs"):
        graph, op, left, right = value.target
        place = 0 if op == "copy_lhs" else 1
        return graph, (left, right)[place], args[place]
    found = _gathered(value)
    if found is None:
        return None
    rows, index = found
    end = (ends or {}).get(index) or _end(index)
    return None if end is None else (*end, rows)


def _gathered(value: Value) -> tuple[Value, Value] | None:
    """Return (rows, index) if a value has rows of nodes, by an index."""
    if value.op != "call" or value.kwargs:
        return None
    if value.target is operator.getitem and not value.is_item:
        rows, index = value.args
    elif value.name == "index_select" and value.args[1:2] == (0,):
        rows, _, index = value.args
    else:
        return None
    if not isinstance(index, Value) or not isinstance(rows, Value):
        return None
    return (rows, index) if rows.row_dim == 0 else None


def scattered(value: Value) -> tuple[Value, Value] | None:
    """Return (index, messages) if a value sums messages by an index."""
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
    if not isinstance(spread, Value) or not of_edges(messages):
        return None
    if value.name != "index_add" and index.dims != messages.dims:
        return None
    return spread, messages


def edges_of(
    graph: str, target: Value, messages: Value
) -> tuple[Any, Ends] | None:
    """Return the graph that messages are sent on, and the ends of its edges.

    ``target`` is the index by which messages are summed, and ``graph`` the
    name of a graph of the user's.
    """
    end = _end(target)
    sources = _sources(messages) - {target}
    graph_of_ends, kind = end or (None, "")
    if kind == "v" and all(_end(s) == (graph_of_ends, "u") for s in sources):
        return graph_of_ends, {}
    if len(sources) != 1 or not _is_index(target):
        return None
    (source,) = sources
    key = ("indexed", graph, (source, target), ())
    return key, {source: (key, "u"), target: (key, "v")}


def graph_of_indices(
    source: torch.Tensor, target: torch.Tensor, like: dgl.DGLGraph
) -> dgl.DGLGraph:
    """Make the graph that has an edge for each pair of two indices."""
    ends = (source.to(like.idtype), target.to(like.idtype))
    return dgl.graph(ends, num_nodes=like.num_nodes())


def of_edges(value: Value) -> bool:
    """Return whether it has a row for each edge.

    How many edges a graph has that is made in forward is not known.
    """
    return value.dims[:1] in (("E",), (None,))


def _sources(messages: Value) -> set[Value]:
    """Return the indices by which the rows of messages were taken."""
    found: set[Value] = set()
    seen = {messages}
    pending = [messages]
    while pending:
        value = pending.pop()
        gathered = _gathered(value)
        if gathered is not None and _is_index(gathered[1]):
            found.add(gathered[1])
            continue
        for arg in arguments_of(value):
            if of_edges(arg) and arg not in seen:
                seen.add(arg)
                pending.append(arg)
    return found


def _is_index(index: Value) -> bool:
    """Return whether it has an id of a node for each edge."""
    example = index.example
    if not index.static or len(index.dims) != 1 or not of_edges(index):
        return False
    return example.dtype in (torch.int64, torch.int32)


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
