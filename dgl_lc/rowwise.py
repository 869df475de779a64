"""The torch functions that act on each row by itself, and so on hop features.

Hop features are one stack of rows. A function that treats every row alone
can be called on the stack as it is; one that mixes rows would mix nodes and
hops. This file lists the functions that are allowed and refuses all others.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from dgl import DGLError


class Call(NamedTuple):
    """The arguments of a torch function, and the shape of the rows in them."""

    rank: int  # dimensions of the hop features among the arguments
    num_rows: int  # their rows in one hop
    args: tuple
    kwargs: dict[str, Any]


#: Tells whether a plain tensor among the arguments holds rows of hop 0.
HoldsRows = Callable[[torch.Tensor], bool]

#: Refuses a call that mixes rows; otherwise says which tensors hold rows.
Rule = Callable[[Call], HoldsRows]


def refuse(name: str, why: str) -> DGLError:
    """Return the error for a function that can't act on hop features."""
    return DGLError(
        f"{name} on hop features {why}. Only row-wise functions act on them; "
        f"for other models use dgl_lc.lc_transform."
    )


def is_hops(value: Any) -> bool:
    """Return whether a value is hop features, without a circular import."""
    return hasattr(type(value), "_hop_axis")


def flatten(value: Any) -> Iterable[Any]:
    """Give the leaves of nested lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item)
    elif isinstance(value, dict):
        yield from flatten(list(value.values()))
    else:
        yield value


def _argument(call: Call, name: str, position: int, default: Any) -> Any:
    """Return an argument that is given by its name or by its position."""
    if name in call.kwargs:
        return call.kwargs[name]
    if len(call.args) > position:
        return call.args[position]
    return default


def _elementwise(name: str) -> Rule:
    """Make the rule of a function that broadcasts its arguments."""

    def rule(call: Call) -> HoldsRows:
        def holds_rows(tensor: torch.Tensor) -> bool:
            if tensor.dim() < call.rank:
                return False
            if tensor.dim() > call.rank:
                raise refuse(
                    name, f"with a tensor of {tensor.dim()} dimensions"
                )
            size = tensor.shape[0]
            if size == call.num_rows:
                # With one row a parameter is a factor of every row; any
                # other tensor may have been a row, and hop 0 is right then.
                return size > 1 or not isinstance(tensor, torch.nn.Parameter)
            if size == 1:
                return False
            raise refuse(
                name,
                f"with a tensor of {size} rows, where these have "
                f"{call.num_rows}",
            )

        return holds_rows

    return rule


def _first(name: str, check: Callable[[Call], None] | None = None) -> Rule:
    """Make the rule of a function of rows and of weights.

    Only the first argument holds rows.
    """

    def rule(call: Call) -> HoldsRows:
        rows = _argument(call, "input", 0, None)
        others = [*call.args[1:], *call.kwargs.values()]
        mixed = any(v is not rows and is_hops(v) for v in flatten(others))
        if not is_hops(rows) or mixed:
            raise refuse(name, "as its weights is not row-wise")
        if check is not None:
            check(call)
        return lambda tensor: False

    return rule


def _matmul(name: str) -> Rule:
    """Make the rule of a product of the rows with a matrix."""

    def check(call: Call) -> None:
        other = _argument(call, "other", 1, _argument(call, "mat2", 1, None))
        if not isinstance(other, torch.Tensor) or other.dim() > 2:
            raise refuse(name, "with anything but a matrix is not row-wise")

    return _first(name, check)


def _normalized_shape(name: str) -> Rule:
    """Make the rule of a function that normalises over some dimensions."""

    def check(call: Call) -> None:
        shape = _argument(call, "normalized_shape", 1, ())
        if len(tuple(shape)) >= call.rank:
            raise refuse(name, "over all dimensions mixes rows")

    return _first(name, check)


def _along(
    name: str, position: int, default: int | None = None, new: int = 0
) -> Rule:
    """Make the rule of a function along a dimension other than the rows'.

    ``position`` is that of the argument ``dim``; ``new`` is 1 for a function
    that adds a dimension.
    """

    def rule(call: Call) -> HoldsRows:
        dim = _argument(call, "dim", position, default)
        if name in ("max", "min"):
            other = _argument(call, "other", 1, None)
            if is_hops(other) or isinstance(other, torch.Tensor):
                return _elementwise(name)(call)
        dims = dim if isinstance(dim, (list, tuple)) else [dim]
        whole = not dims or any(
            isinstance(d, bool) or not isinstance(d, int) for d in dims
        )
        if whole:
            raise refuse(name, "without dim= mixes rows; say dim=-1")
        if any(d % (call.rank + new) == 0 for d in dims):
            raise refuse(name, f"along dim={dim} mixes rows; say dim=-1")

        def holds_rows(tensor: torch.Tensor) -> bool:
            if tensor.dim() != call.rank or len(tensor) != call.num_rows:
                raise refuse(
                    name,
                    f"with a tensor of shape {tuple(tensor.shape)}, where "
                    f"these have {call.num_rows} rows",
                )
            return True

        return holds_rows

    return rule


def _ignored(name: str) -> Rule:
    """Make the rule of a function that reads the type of other tensors only."""
    return lambda call: lambda tensor: False


_ELEMENTWISE = (
    "relu", "relu6", "elu", "selu", "celu", "gelu", "leaky_relu", "silu",
    "mish", "hardtanh", "hardswish", "hardsigmoid", "tanh", "sigmoid",
    "softplus", "softsign", "logsigmoid", "tanhshrink", "softshrink",
    "hardshrink", "threshold", "exp", "expm1", "log", "log1p", "log2", "sqrt",
    "rsqrt", "abs", "absolute", "neg", "negative", "positive", "square",
    "reciprocal", "sin", "cos", "erf", "sign", "clamp", "clamp_min",
    "clamp_max", "clip", "pow", "nan_to_num", "round", "floor", "ceil",
    "dropout", "alpha_dropout", "add", "sub", "subtract", "mul", "multiply",
    "div", "divide", "true_divide", "rsub", "maximum", "minimum", "where",
    "masked_fill", "lerp", "gt", "lt", "ge", "le", "eq", "ne", "logical_not",
    "logical_and", "logical_or", "isnan", "isfinite", "isinf", "bitwise_not",
    "bitwise_and", "bitwise_or", "__add__", "__radd__", "__sub__", "__rsub__",
    "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__div__",
    "__rdiv__", "__pow__", "__rpow__", "__neg__", "__abs__", "__gt__",
    "__lt__", "__ge__", "__le__", "__eq__", "__ne__", "__invert__", "__and__",
    "__or__",
)  # fmt: skip
_CASTS = (
    "float", "double", "half", "bfloat16", "bool", "to", "type", "type_as",
    "clone", "detach", "cpu", "cuda",
)  # fmt: skip

RULES: dict[str, Rule] = {name: _elementwise(name) for name in _ELEMENTWISE}
RULES |= {name: _ignored(name) for name in _CASTS}
RULES |= {
    name: _first(name) for name in ("linear", "batch_norm", "prelu", "rrelu")
}
RULES |= {name: _normalized_shape(name) for name in ("layer_norm", "rms_norm")}
RULES |= {name: _matmul(name) for name in ("matmul", "mm", "__matmul__")}
RULES |= {
    name: _along(name, position)
    for name, position in {
        "softmax": 1, "log_softmax": 1, "softmin": 1, "sum": 1, "mean": 1,
        "max": 1, "min": 1, "amax": 1, "amin": 1, "argmax": 1, "argmin": 1,
        "logsumexp": 1, "std": 1, "var": 1, "norm": 2, "squeeze": 1,
        "chunk": 2, "prod": 1, "cumsum": 1, "flip": 1,
    }.items()
}  # fmt: skip
RULES |= {
    "normalize": _along("normalize", 2, 1),
    "glu": _along("glu", 1, -1),
    "cat": _along("cat", 1, 0),
    "concat": _along("concat", 1, 0),
    "split": _along("split", 2, 0),
    "stack": _along("stack", 1, 0, new=1),
    "unsqueeze": _along("unsqueeze", 1, new=1),
}


def rule_for(func: Callable) -> tuple[str, Rule]:
    """Return the name of a torch function and its rule, or raise an error."""
    name = getattr(func, "__name__", str(func))
    if name in ("cross_entropy", "nll_loss", "cross_entropy_loss"):
        raise refuse(
            name,
            "is not known: what the original model gives is hop 0 of its "
            "output, logits[0]. To have that alone, precompute only the "
            "hops the model needs",
        )
    if name == "contiguous":
        # DGL calls it on everything that it is about to aggregate.
        raise refuse(
            name,
            "is not possible: update_all and dgl.nn aggregate over a graph, "
            "but hop features are aggregated already. Use dgl_lc.nn."
            "LCGraphConv, or h.shift()",
        )
    if name not in RULES:
        raise refuse(name, "is not known to be row-wise")
    return name, RULES[name]


def check_columns(key: Sequence, rank: int) -> None:
    """Refuse an index ``h[key]`` that picks anything but columns."""
    first, rest = key[0], key[1:]
    picked = sum(1 for k in rest if k is not None)
    every_row = isinstance(first, slice) and first == slice(None)
    if not (every_row or first is Ellipsis) or picked > rank - 1:
        raise DGLError(
            "h[rows, …] on hop features picks rows: take a batch with "
            "hops.rows(ids); columns are h[:, columns]."
        )
