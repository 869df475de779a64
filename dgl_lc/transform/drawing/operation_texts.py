"""Texts of operations: what a box says about a value of the trace."""

import operator
from typing import Any

from torch import nn

from ..tracing.values import Value, name_of
from .boxes import MINUS, TIMES

_SIGNS = {
    operator.add: "+",
    operator.sub: MINUS,
    operator.mul: TIMES,
    operator.truediv: "÷",
    operator.matmul: "@",
    operator.pow: "^",
}


def operation_text(value: Value, model: nn.Module) -> str:
    """Write what an operation does, in a few words.

    "@ weight", "+ bias", "relu", "Linear", "× 0.5".
    """
    if value.op == "module":
        return type(model.get_submodule(value.target)).__name__
    if value.op != "call":
        return value.name
    if value.target is operator.getitem and value.is_item:
        return f"item {value.args[1]}"
    sign = _SIGNS.get(value.target)
    if sign is None or len(value.args) != 2:
        return value.name.strip("_")
    first, second = value.args
    texts = [_operand(arg, value.where) for arg in (first, second)]
    if not texts[0] and not texts[1]:
        return sign
    if not texts[0]:
        return f"{sign} {texts[1]}"
    if sign in ("+", TIMES):  # the order does not matter
        return f"{sign} {texts[0]}"
    return f"{texts[0]} {sign}"


def weight_size(value: Value, model: nn.Module) -> str:
    """Write the size of the matrix that an operation multiplies by."""
    if value.op == "module":
        module = model.get_submodule(value.target)
        ends = [
            getattr(module, name, None)
            for name in ("in_features", "out_features")
        ]
        if all(isinstance(end, int) for end in ends):
            return f"{ends[0]} → {ends[1]}"
    elif value.target is operator.matmul and isinstance(value.args[1], Value):
        weight = value.args[1]
        if not weight.data and len(weight.dims) == 2:
            return f"{weight.dims[0]} → {weight.dims[1]}"
    return ""


def _operand(arg: Any, where: str) -> str:
    """Write an operand that is the same for all nodes; "" for rows."""
    if isinstance(arg, Value):
        if arg.data:
            return ""
        return _shared(arg, where)
    if isinstance(arg, float):
        return f"{arg:.4g}"
    return str(arg)


def _shared(value: Value, where: str) -> str:
    """Write a parameter, or what is computed from parameters."""
    if value.op == "param":
        name = str(value.target)
        prefix = f"{where}." if where else ""
        return name.removeprefix(prefix)
    if value.op == "const":
        example = value.example
        if getattr(example, "numel", lambda: 0)() == 1:
            return f"{float(example):.4g}"
        return "constant"
    inner = [a for a in value.args if isinstance(a, Value)]
    sign = _SIGNS.get(value.target)
    if sign is not None and len(value.args) == 2:
        first, second = (_operand(arg, where) for arg in value.args)
        return f"({first} {sign} {second})"
    if len(inner) == 1:
        text = _shared(inner[0], where)
        if value.target is operator.getitem and not isinstance(
            value.args[1], Value
        ):
            return f"{text}[{_index(value.args[1])}]"
        return f"{name_of(value.target)}({text})"
    return name_of(value.target)


def _index(item: Any) -> str:
    if isinstance(item, tuple):
        return ", ".join(map(_index, item))
    if isinstance(item, slice):
        return ":"
    return "…" if item is Ellipsis else str(item)


def shape_text(value: Value) -> str:
    """Write the shape of a row of a value: "16", or "2 × 8"."""
    return f" {TIMES} ".join(str(d) for d in value.dims if d != "N")
