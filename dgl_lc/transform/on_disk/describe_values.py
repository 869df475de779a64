"""Keys of static values: what they are computed from, and how."""

import hashlib
import json
from typing import Any

import numpy as np
import torch

from ..._common.digest import digest
from ...storage.disk_features import DiskFeatures
from ...storage.keys import array_key
from ..filter_words import Aggregate, Diagonal, Word
from ..tracing.values import Value, arguments_of, name_of, replace
from .graph_views import edge_chunks
from .rowwise_values import EDGES, NODES, domain
from .static_values import StaticValues

#: Rows at the beginning and at the end of which the numbers are compared.
_SAMPLE = 256
#: Numbers of nodes that are read at a time for a key.
_NODES = 1 << 16


def source_key(array: Any) -> str:
    """Return the key of features in memory or on disk."""
    if isinstance(array, (DiskFeatures, np.ndarray)):
        return array_key(array)
    return array_key(array.detach())


def spell(value: Value, values: StaticValues) -> Any:
    """Return what a static value is computed from, and how.

    The operations are written out, and the numbers of some rows are hashed,
    so that no result of another model or of other settings is used again.
    """
    if value.op == "input" and isinstance(value.target, str):
        return source_key(values.call.inputs[value.target])
    lines: list[Any] = []
    places: dict[int, int] = {}
    pending = [value]
    while pending:
        top = pending[-1]
        missing = [a for a in arguments_of(top) if a.id not in places]
        if top.id in places:
            pending.pop()
        elif missing:
            pending += missing
        else:
            places[top.id] = len(lines)
            lines.append(_line(top, places, values))
    lines.append(_numbers(value, values))
    text = json.dumps(lines, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _line(value: Value, places: dict[int, int], values: StaticValues) -> Any:
    """Write one operation, its arguments by their places."""

    def write(leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return f"%{places[leaf.id]}"
        if isinstance(leaf, torch.Tensor):
            return digest(leaf)
        return repr(leaf)

    args = replace((value.args, value.kwargs), write)
    return [value.op, _target(value, values), repr(args)]


def _target(value: Value, values: StaticValues) -> Any:
    target = value.target
    if value.op == "input":
        if isinstance(target, str):
            return source_key(values.call.inputs[target])
        return [values.describe_graph(target[1]), target[0], target[2]]
    if value.op in ("graph", "aggregate", "edges", "softmax"):
        return [values.describe_graph(target[0]), *map(repr, target[1:])]
    if value.op == "number":
        return "N" if target == "N" else values.num_edges(target[1])
    if value.op == "const":
        return digest(value.example)
    if value.op == "param":
        return [target, digest(values.fixed(value))]
    if value.op == "module":
        return repr(values.call.model.get_submodule(target))
    return f"{getattr(target, '__module__', '')}.{name_of(target)}"


def _numbers(value: Value, values: StaticValues) -> Any:
    """Hash some of the numbers of a value."""
    n = values.num_nodes
    kind = domain(value)
    try:
        if kind == NODES and not values.sums(value):
            ends = [slice(0, min(_SAMPLE, n)), slice(max(0, n - _SAMPLE), n)]
            return [digest(values.rows(value, at)) for at in ends]
        if kind == EDGES and values.on_disk:
            graph = next(iter(values.call.graphs.values()))
            chunk = next(edge_chunks(graph, 0, _SAMPLE), None)
            if chunk is not None:
                return digest(values.edges.on(value, chunk))
    finally:
        values.forget()
    return None


def diagonal_key(diagonal: Diagonal, values: StaticValues) -> list[Any]:
    """Return the key of all numbers of a diagonal."""
    found = hashlib.sha256()
    n = values.num_nodes
    for low in range(0, n, _NODES):
        at = slice(low, min(low + _NODES, n))
        found.update(digest(values.rows(diagonal.factor, at)).encode())
    values.forget()
    return [found.hexdigest(), diagonal.inverse]


def describe_word(word: Word, values: StaticValues, engine: Any) -> list[Any]:
    """Describe the letters of a word by keys of what they multiply by."""
    found: list[Any] = []
    for letter in word:
        if isinstance(letter, Diagonal):
            found.append(diagonal_key(letter, values))
        elif isinstance(letter, Aggregate):
            found.append([*engine.describe(letter)])
        else:
            found.append(
                [
                    [coefficient, describe_word(inner, values, engine)]
                    for coefficient, inner in letter.terms
                ]
            )
    return found
