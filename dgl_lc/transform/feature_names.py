"""Names of features, and of what a model computes from them.

``in-degree`` is easier to read than ``reshape(to(graph()))``: functions that
change only the shape or the type of numbers have no place in a name.
"""

from collections.abc import Iterator
from typing import Any

import torch

from .tracing.values import Value, arguments_of

#: Functions that change the shape or the type of numbers, not the numbers.
SAME_NUMBERS = frozenset({
    "to", "type", "float", "double", "half", "bfloat16", "view", "reshape",
    "unsqueeze", "squeeze", "flatten", "expand", "contiguous", "detach",
})  # fmt: skip

#: What methods of a graph return.
_OF_GRAPH = {
    "in_degrees": "in-degree", "out_degrees": "out-degree",
    "adj": "adjacency matrix", "adj_external": "adjacency matrix",
    "adjacency_matrix": "adjacency matrix", "all_edges": "edges",
}  # fmt: skip

#: Message passing, as a function of features.
_NAMES = {"aggregate": "neighbours", "edges": "edges", "softmax": "softmax"}

#: Operators with several features, and with a number.
_SEVERAL = {
    "add": "sum", "sub": "difference", "mul": "product", "truediv": "quotient",
    "matmul": "product", "flat_product": "product",
}  # fmt: skip
_WITH_A_NUMBER = {
    "add": "shifted", "sub": "shifted", "mul": "scaled", "truediv": "scaled",
    "pow": "power",
}  # fmt: skip

#: Functions inside each other that a name shows, and features of one.
_DEEPEST, _MOST = 3, 4
#: Characters of a name with names inside.
_LONGEST = 40


def source_name(value: Value, depth: int = 0) -> str:
    """Return the name of features, or of what is computed from them."""
    if value.op == "input":
        target = value.target
        return target if isinstance(target, str) else target[2]
    if value.op == "graph":
        return _OF_GRAPH.get(value.target[1], value.target[1])
    if value.target is torch.ones:
        return "1"
    inner = [v for v in arguments_of(value) if v.data and v.op != "number"]
    if len(set(inner)) == 1:
        return _of_one(value, inner[0], depth)
    name = _function(value)
    name = _SEVERAL.get(name, name)
    if not depth and len(inner) <= _MOST:
        texts = [source_name(v, _DEEPEST - 1) for v in dict.fromkeys(inner)]
        text = f"{name}({', '.join(texts)})"
        if len(text) <= _LONGEST:
            return text
    return f"{name}({made_of(value) if inner else ''})"


def _function(value: Value) -> str:
    """Return what a value does with those that it is computed from."""
    if value.op == "aggregate" and value.args[0] is None:
        return "in-edges"
    return _NAMES.get(value.op) or value.name.strip("_")


def _of_one(value: Value, inner: Value, depth: int) -> str:
    """Name a function of one value."""
    name = _function(value)
    if name in SAME_NUMBERS or value.is_item:
        return source_name(inner, depth)
    if depth == _DEEPEST:
        return f"…{made_of(inner)}"
    text = source_name(inner, depth + 1)
    if name == "getitem":
        index = _index(value.args[1])
        return text if index is None else f"{text}[{index}]"
    return f"{_WITH_A_NUMBER.get(name, name)}({text})"


def _index(index: Any) -> str | None:
    """Write an index of columns, or return None if it only adds dimensions."""
    parts = index if isinstance(index, tuple) else (index,)
    if all(part is None or part == slice(None) for part in parts):
        return None
    return ", ".join(map(_index_part, parts))


def _index_part(part: Any) -> str:
    if isinstance(part, slice) and part.step is None:
        ends = [part.start, part.stop]
        if all(end is None or type(end) is int for end in ends):
            return ":".join("" if end is None else str(end) for end in ends)
    return str(part) if type(part) is int else "…"


def made_of(value: Value) -> str:
    """Name the features and the values of the graph that a value needs."""
    found = list(dict.fromkeys(_sources(value))) or ["the graph"]
    more = ["…"] if len(found) > _MOST else []
    return ", ".join(found[:_MOST] + more)


def _sources(value: Value) -> Iterator[str]:
    seen = {value}
    pending = [value]
    while pending:
        found = pending.pop()
        if found.op in ("input", "graph"):
            yield source_name(found)
        for arg in reversed(arguments_of(found)):
            if arg not in seen:
                seen.add(arg)
                pending.append(arg)
