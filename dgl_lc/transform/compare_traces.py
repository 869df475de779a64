"""Comparing traces: what differs from graph to graph, and in training.

A model is traced on two probes of different sizes and degrees, in training
and in evaluation. Whatever differs between them is a size of the graph, the
training flag, or a reason to refuse.
"""

from typing import Any

import numpy as np
import torch

from . import causes
from .causes import Cause
from .refusals import FIXED_NUMBERS, LCError, Line, refuse, refuse_value
from .tracing.values import (
    TRAINING,
    ByTraining,
    Guard,
    PerNode,
    Trace,
    Value,
    arguments_of,
    leaves,
    replace,
)


def unify(trace: Trace, other: Trace, training: Trace) -> Trace:
    """Make one trace of three: two probes, and the first one in training.

    Values of ``trace`` get their :attr:`~Value.dims`, arguments that are
    sizes or the training flag become symbols, and values that can't be
    trusted get their :attr:`~Value.trouble`.
    """
    _check_steps(
        trace, other, causes.OTHER_ON_OTHER_GRAPHS,
        "what the model computes depends on the size or the degrees of the "
        "graph",
        "Write a forward that does the same operations on every graph",
    )  # fmt: skip
    _check_steps(
        trace, training, causes.OTHER_IN_TRAINING,
        "the model computes something else in training than in evaluation",
        "Let a module or F.dropout(…, training=self.training) make the "
        "difference",
    )  # fmt: skip
    sizes = compare_values(trace, other, training)
    trace.output = _unify_leaves(
        "", None, trace.output, other.output, training.output, sizes
    )
    trace.guards = unify_guards(trace, other, training)
    return trace


def compare_values(trace: Trace, other: Trace, training: Trace) -> dict:
    """Find the dims and the troubles of values; return sizes by their pairs.

    The traces have the same operations, as far as they go.
    """
    sizes = {
        (v.example, o.example): v
        for v, o in zip(trace.values, other.values, strict=False)
        if v.op == "number"
    }
    for mine, its, trained in zip(
        trace.values, other.values, training.values, strict=False
    ):
        mine.dims = _dims(mine, its, sizes)
        mine.random = mine.random or trained.random
        mine.always_draws = mine.draws
        mine.draws = mine.draws or trained.draws
        _compare(mine, its, trained, sizes)
    return sizes


def _check_steps(
    trace: Trace, other: Trace, cause: Cause, reason: str, advice: str
) -> None:
    """Refuse two traces that do not have the same operations."""
    place = first_difference(trace, other)
    if place is None:
        return
    shorter, longer = sorted((trace.values, other.values), key=len)
    if place == len(shorter):
        refuse_value(cause, longer[place], reason, advice)
    mine, its = trace.values[place], other.values[place]
    both = f"{mine.name} / {its.name}"
    refuse(cause, mine.where, both, reason, advice, mine.line)


def first_difference(trace: Trace, other: Trace) -> int | None:
    """Return the place of the first operation that differs, if one does."""
    pairs = zip(trace.values, other.values, strict=False)
    for place, (mine, its) in enumerate(pairs):
        if mine.op != its.op or not _same_target(mine, its):
            return place
    lengths = sorted((len(trace.values), len(other.values)))
    return lengths[0] if lengths[0] < lengths[1] else None


def _same_target(mine: Value, its: Value) -> bool:
    if mine.op == "const":
        return True
    # Keys of graphs may have values in them, such as masks of edges.
    one, two = (replace(v.target, _id_of_value) for v in (mine, its))
    same = one == two
    return bool(same) if isinstance(same, bool) else mine.target is its.target


def _id_of_value(leaf: Any) -> Any:
    return ("value", leaf.id) if isinstance(leaf, Value) else leaf


def _dims(mine: Value, its: Value, sizes: dict) -> tuple:
    """Return the sizes of a tensor: integers, or sizes of the graph."""
    a, b = mine.example, its.example
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return ()
    if a.dim() != b.dim():
        return (None,)
    n = next(pair for pair, value in sizes.items() if value.target == "N")
    found: list = []
    for pair in zip(a.shape, b.shape, strict=True):
        if pair in sizes:
            name = sizes[pair].target
            found.append("N" if name == "N" else "E")
        else:
            found.append(pair[0] if pair[0] == pair[1] else _several(pair, n))
    return tuple(found)


def _several(sizes: tuple[int, int], nodes: tuple[int, int]) -> Any:
    """Return a size with several rows for each node, or None."""
    rows = sizes[0] // nodes[0]
    same = all(rows * n == size for n, size in zip(nodes, sizes, strict=True))
    return PerNode(rows) if same else None


def _compare(mine: Value, its: Value, trained: Value, sizes: dict) -> None:
    """Unify the arguments of a value, or note why it can't be used."""
    if mine.op == "const" and not _same_tensor(mine.example, trained.example):
        mine.trouble = "is a tensor that is another one in training"
        return
    if mine.op == "const" and not _same_tensor(mine.example, its.example):
        mine.trouble = (
            "is a tensor that differs from graph to graph, and was not "
            "computed by functions that can be followed"
        )
        return
    try:
        mine.args, mine.kwargs = _unify_leaves(
            mine.where, mine.line,
            (mine.args, mine.kwargs), (its.args, its.kwargs),
            (trained.args, trained.kwargs), sizes,
        )  # fmt: skip
    except LCError as error:
        mine.trouble = error.reason


def _unify_leaves(
    where: str,
    line: Line | None,
    mine: Any,
    its: Any,
    trained: Any,
    sizes: dict,
) -> Any:
    """Replace sizes of the graph and the training flag by symbols."""
    all_leaves = [leaves(item) for item in (mine, its, trained)]
    if len({len(found) for found in all_leaves}) > 1:
        refuse(
            causes.NUMBER_OF_THE_GRAPH, where, "arguments",
            "differ from graph to graph", FIXED_NUMBERS, line,
        )  # fmt: skip
    others = iter(zip(*all_leaves[1:], strict=True))

    def unify_leaf(leaf: Any) -> Any:
        its, trained = next(others)
        if isinstance(leaf, Value):
            ids = {getattr(v, "id", None) for v in (leaf, its, trained)}
            if len(ids) == 1:
                return leaf
        elif leaf is False and its is False and trained is True:
            return TRAINING
        elif type(leaf) is int and (leaf, its) in sizes:
            return sizes[leaf, its]
        elif _same_leaf(leaf, its):
            if _same_leaf(leaf, trained):
                return leaf
            if _is_number(leaf) and _is_number(trained):
                return ByTraining(trained, leaf)
        return refuse(
            causes.NUMBER_OF_THE_GRAPH, where, "a constant",
            f"takes a number from the graph, from a shape or from the "
            f"features: it is {leaf} on one graph and {its} on another",
            FIXED_NUMBERS, line,
        )  # fmt: skip

    return replace(mine, unify_leaf)


def _is_number(leaf: Any) -> bool:
    return type(leaf) in (int, float)


def _same_leaf(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and _same_tensor(a, b)
    if isinstance(a, float) and isinstance(b, float) and a != a:
        return b != b
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    same = a == b
    return type(a) is type(b) and isinstance(same, bool) and same


def _same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def unify_guards(trace: Trace, other: Trace, training: Trace) -> list[Guard]:
    """Return the branches that were the same on all probes."""
    results = {
        guard.value.id: guard.result
        for guard in (*other.guards, *training.guards)
    }
    kept = []
    for guard in trace.guards:
        if not guard.value.data:
            _check_constant(guard.value)
            continue
        differs = results.get(guard.value.id) != guard.result
        if differs and guard.escaped:
            refuse_value(
                causes.NUMBER_OF_THE_GRAPH, guard.value,
                "is a Python number that differs from graph to graph",
                FIXED_NUMBERS,
            )  # fmt: skip
        # A branch that differs did no harm: all operations were compared.
        if not differs:
            kept.append(guard)
    return kept


def _check_constant(value: Value) -> None:
    """Refuse a branch on a constant that differs from graph to graph."""
    pending, seen = [value], {value.id}
    while pending:
        made = pending.pop()
        if made.op == "const" and made.trouble:
            refuse_value(
                causes.OTHER_ON_OTHER_GRAPHS, value,
                f"decides what the model computes, and {made.trouble}",
                "Decide this when the model is made, and hold the answer as an "
                "attribute, or compute it with torch from the graph's edges "
                "and degrees",
            )  # fmt: skip
        new = [v for v in arguments_of(made) if v.id not in seen]
        seen.update(v.id for v in new)
        pending.extend(new)
