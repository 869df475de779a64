"""Dropout that a model calls in training alone.

``if self.training: h = F.dropout(h)`` has one operation more in training. In
evaluation, dropout does nothing, so it is put into the other traces too.
"""

from typing import Any

import torch
from torch import nn

from .tracing.values import Trace, Value, arguments_of, leaves, replace

_DROPOUTS = (nn.functional.dropout, torch.dropout)


def add_training_dropout(
    trace: Trace, other: Trace, training: Trace, model: nn.Module
) -> None:
    """Add dropout that is in the training trace alone to the others."""
    extra = _find_extra(trace, training, model)
    if not extra or len(trace.values) != len(other.values):
        return
    for evaluated in (trace, other):
        _insert(evaluated, training, extra)


def _is_dropout(value: Value, model: nn.Module) -> bool:
    if value.op == "module":
        module = model.get_submodule(value.target)
        return isinstance(module, nn.Dropout)
    return value.op == "call" and value.target in _DROPOUTS


def _find_extra(
    trace: Trace, training: Trace, model: nn.Module
) -> set[Value] | None:
    """Return dropouts that are in training alone; None: traces differ."""
    extra, place = set(), 0
    for value in training.values:
        mine = trace.values[place] if place < len(trace.values) else None
        same = mine is not None and (mine.op, mine.target) == (
            value.op, value.target,
        )  # fmt: skip
        if same or (mine is not None and mine.op == value.op == "const"):
            place += 1
        elif _is_dropout(value, model):
            extra.add(value)
        else:
            return None
    return extra if place == len(trace.values) else None


def _insert(trace: Trace, training: Trace, extra: set[Value]) -> None:
    """Insert dropouts into a trace, and let their users use them."""
    rest = iter(trace.values)
    mine: dict[int, Value] = {}
    values = []
    for trained in training.values:
        if trained in extra:
            value = _without_effect(trained, mine)
        else:
            value = next(rest)
            value.args, value.kwargs = _through(
                (value.args, value.kwargs), (trained.args, trained.kwargs),
                extra, mine,
            )  # fmt: skip
        mine[trained.id] = value
        values.append(value)
    trace.output = _through(trace.output, training.output, extra, mine)
    for number, value in enumerate(values):
        value.id = number
    trace.values = values


def _dropped(dropout: Value) -> Value:
    """Return the value that a dropout acts on."""
    return arguments_of(dropout)[0]


def _without_effect(trained: Value, mine: dict[int, Value]) -> Value:
    """Make a dropout of evaluation like one of training."""
    args, kwargs = replace(
        (trained.args, trained.kwargs),
        lambda leaf: mine[leaf.id] if isinstance(leaf, Value) else leaf,
    )
    dropped = mine[_dropped(trained).id]
    if trained.op == "call":
        p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        args, kwargs = (dropped, p), {"training": False}
        trained.args, trained.kwargs = (
            (_dropped(trained), p),
            {"training": True},
        )
        trained.target = nn.functional.dropout
    return Value(
        -1, trained.op, trained.target, args, kwargs, trained.where,
        dropped.example, dropped.learned, dropped.random, dropped.data,
        line=trained.line,
    )  # fmt: skip


def _through(
    item: Any, trained: Any, extra: set[Value], mine: dict[int, Value]
) -> Any:
    """Replace what training drops first by the dropped value."""
    its = leaves(trained)
    if len(leaves(item)) != len(its):
        return item
    pairs = iter(its)

    def change(leaf: Any) -> Any:
        found = next(pairs)
        dropped = found
        while isinstance(dropped, Value) and dropped in extra:
            dropped = _dropped(dropped)
        # Only dropout may make the difference, and not another value.
        same = dropped is not found and mine[dropped.id] is leaf
        return mine[found.id] if same else leaf

    return replace(item, change)
