"""Telling static values that can be computed in chunks of rows or edges."""

from math import prod
from typing import Any

import torch
from torch import nn

from ..linearity import close
from ..tracing.values import (
    Value,
    arguments_of,
    callable_of,
    in_evaluation,
    replace,
    tensors_in,
)

NODES, EDGES, FIXED, OTHER = "N", "E", "fixed", "other"


def domain(value: Value) -> str:
    """Return what a value has a row for: NODES, EDGES, FIXED for neither.

    OTHER stands for rows that are not in the first dimension, or for sizes
    that are not known.
    """
    if isinstance(value.example, torch.Tensor):
        first, *rest = value.dims or (1,)
        varies = [size for size in rest if type(size) is not int]
        if type(first) is int:
            return OTHER if varies else FIXED
        return first if first in ("N", "E") and not varies else OTHER
    if isinstance(value.example, (tuple, list)):
        # Rows of a tuple are those of the arguments it was computed from.
        found = {domain(arg) for arg in arguments_of(value)} - {FIXED}
        return found.pop() if len(found) == 1 else OTHER if found else FIXED
    return FIXED


def width(value: Value) -> int:
    """Return how many numbers each row has."""
    if not isinstance(value.example, torch.Tensor):
        return sum(
            tensor.numel() // max(len(tensor), 1)
            for tensor in tensors_in(value.example)
            if tensor.dim()
        )
    # A size that is a multiple of the nodes has several numbers for each.
    sizes = [getattr(size, "rows", size) for size in value.dims]
    return prod(size for size in sizes if type(size) is int)


def row_bytes(value: Value) -> int:
    """Return the bytes of a row."""
    sizes = [t.element_size() for t in tensors_in(value.example)]
    return width(value) * max(sizes, default=8)


def works_in_chunks(value: Value, kind: str, model: nn.Module) -> str | None:
    """Tell whether an operation can be computed for some of the rows.

    It is run on some of the rows of the probe. Return "sizes" if sizes of the
    graph among its arguments have to be those of the chunk, "plain" if they
    stay as they are, and None if it depends on other rows.
    """
    found = [t for t in tensors_in(value.example) if t.dim()]
    if not found:
        return None
    count = len(found[0])
    if any(len(tensor) != count for tensor in found):
        return None
    generator = torch.Generator().manual_seed(value.id)
    some = torch.randint(0, count, (7,), generator=generator)
    every = torch.arange(count)
    for mode in ("plain", "sizes"):
        try:
            if all(
                _agrees(value, kind, model, rows, mode, found)
                for rows in (some, some[:1], every.flip(0))
            ):
                return mode
        except Exception:
            # It does not run on some of the rows.
            continue
    return None


def _agrees(
    value: Value,
    kind: str,
    model: nn.Module,
    rows: torch.Tensor,
    mode: str,
    expected: list[torch.Tensor],
) -> bool:
    """Tell whether the results for some rows are those among all rows."""

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, Value):
            return in_evaluation(leaf)
        if leaf.op == "number":
            own = (leaf.target == "N") == (kind == NODES)
            return len(rows) if own and mode == "sizes" else leaf.example
        if domain(leaf) == kind:
            return replace(
                leaf.example,
                lambda t: t[rows] if isinstance(t, torch.Tensor) else t,
            )
        if domain(leaf) != FIXED:
            raise ValueError("an argument has other rows")
        return leaf.example

    args, kwargs = replace((value.args, value.kwargs), take)
    with torch.no_grad():
        found = tensors_in(callable_of(value, model)(*args, **kwargs))
    return len(found) == len(expected) and all(
        close(part, whole[rows])
        for part, whole in zip(found, expected, strict=True)
    )
