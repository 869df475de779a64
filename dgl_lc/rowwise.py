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
    hops: tuple[int, ...]  # the hops that all of them have
    args: tuple
    kwargs: dict[str, Any]


#: Tells whether a plain tensor among the arguments holds rows of hop 0.
HoldsRows = Callable[[torch.Tensor], bool]

#: Refuses a call that mixes rows; otherwise says which tensors hold rows.
Rule = Callable[[Call], HoldsRows]


#: How the methods of operators are written.
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/",
    "pow": "**", "matmul": "@", "and": "&", "or": "|", "invert": "~",
    "neg": "-", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==",
    "ne": "!=",
}  # fmt: skip


def written(name: str) -> str:
    """Return a function's name as it is written: an operator by its sign.

    >>> written("relu"), written("__rmul__")
    ('relu', '*')
    """
    bare = name.strip("_") if name.startswith("__") else name
    return _OPERATORS.get(bare) or _OPERATORS.get(bare[1:]) or name


#: What to do with a model that hop features can't be given to.
_OTHER_MODELS = (
    "for other models, call dgl_lc.lc_transform on the model as written for "
    "dgl.nn, with its plain features"
)


def refuse(name: str, why: str) -> DGLError:
    """Return the error for a function that can't act on hop features."""
    return DGLError(
        f"{written(name)} on hop features {why}. Only row-wise functions act "
        f"on them; {_OTHER_MODELS}."
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


def _scaling(
    name: str, is_factor: Callable[[Call, torch.Tensor], bool]
) -> Rule:
    """Make the rule of a function that may scale or mask rows.

    A plain tensor that ``is_factor`` is refused if it has a row for each
    node. It would have to meet every hop, and not hop 0 alone.
    """
    broadcast = _elementwise(name)

    def rule(call: Call) -> HoldsRows:
        holds_rows = broadcast(call)

        def check(tensor: torch.Tensor) -> bool:
            factor = is_factor(call, tensor)
            if factor and tensor.dim() == call.rank and len(tensor) == 1:
                # One row is a factor of all rows, also where there is one.
                return False
            rows = holds_rows(tensor)
            if rows and factor and call.hops != (0,):
                raise _refuse_factor(name, call)
            return rows

        return check

    return rule


def _refuse_factor(name: str, call: Call) -> DGLError:
    hop_0 = "; for hop 0 alone, write h[0] in place of h" * (0 in call.hops)
    return DGLError(
        f"{written(name)} with a tensor of {call.num_rows} rows, a factor or a "
        f"mask per node, can't act on hops {list(call.hops)}: S (D h) is not "
        f"D (S h), so a factor per node does not swap with the filter. Norms "
        f"by degrees belong to block_aggregate(norm=…)"
        f"{hop_0}; {_OTHER_MODELS}."
    )


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

    first = _first(name, check)

    def rule(call: Call) -> HoldsRows:
        if not is_hops(_argument(call, "input", 0, None)):
            raise refuse(
                name,
                "from the left mixes rows. To aggregate once is h.shift(): "
                "the filter was applied by block_aggregate",
            )
        return first(call)

    return rule


def _addmm(call: Call) -> HoldsRows:
    """Apply the rule of a product of the rows with a matrix, plus a term."""
    rows = _argument(call, "mat1", 1, None)
    matrix = _argument(call, "mat2", 2, None)
    term = _argument(call, "input", 0, None)
    if not is_hops(rows) or is_hops(matrix) or term is matrix:
        raise refuse("addmm", "as anything but its mat1 mixes rows")
    holds_rows = _elementwise("addmm")(call)
    return lambda tensor: tensor is not matrix and holds_rows(tensor)


def _normalized_shape(name: str) -> Rule:
    """Make the rule of a function that normalises over some dimensions."""

    def check(call: Call) -> None:
        shape = _argument(call, "normalized_shape", 1, ())
        if len(tuple(shape)) >= call.rank:
            raise refuse(name, "over all dimensions mixes rows")

    return _first(name, check)


def _along(
    name: str,
    position: int,
    default: int | None = None,
    new: int = 0,
    argument: str = "dim",
) -> Rule:
    """Make the rule of a function along a dimension other than the rows'.

    ``position`` is that of the argument that says which dimension, and
    ``new`` is 1 for a function that adds a dimension.
    """

    def rule(call: Call) -> HoldsRows:
        # Torch takes NumPy's name of the argument as well.
        dim = _argument(
            call, argument, position, call.kwargs.get("axis", default)
        )
        if name in ("max", "min"):
            other = _argument(call, "other", 1, None)
            if is_hops(other) or isinstance(other, torch.Tensor):
                return _elementwise(name)(call)
        dims = dim if isinstance(dim, (list, tuple)) else [dim]
        whole = not dims or any(
            isinstance(d, bool) or not isinstance(d, int) for d in dims
        )
        if whole:
            advice = "mixes rows, which are nodes; within each row, say dim=-1"
            if name in _CUTTING:
                advice = _instead(name)
            raise refuse(name, f"without dim= {advice}")
        if any(d % (call.rank + new) == 0 for d in dims):
            raise refuse(name, f"along {argument}={dim} {_instead(name)}")

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


def _flip(call: Call) -> HoldsRows:
    """Apply the rule of flip, which takes its dimensions one by one as well."""
    dims = tuple(flatten(call.kwargs.get("dims", call.args[1:])))
    return _along("flip", 1)(call._replace(args=(None, dims), kwargs={}))


def _instead(name: str) -> str:
    """Say what a function does to rows along dim=0, and what helps."""
    if name == "unsqueeze":
        return (
            "puts a dimension before that of the rows. If nn.InstanceNorm1d "
            "did this, use nn.LayerNorm in its place"
        )
    if name in _JOINING:
        return "joins rows, which are nodes; columns are joined along dim=1"
    if name in _CUTTING:
        return "cuts or moves rows, which are nodes; columns are dim=1"
    return (
        "mixes rows, which are nodes; nn.BatchNorm1d and nn.LayerNorm can "
        "take the place of a norm over nodes"
    )


def _ignored(name: str) -> Rule:
    """Make the rule of a function that reads the type of other tensors only."""
    return lambda call: lambda tensor: False


_ELEMENTWISE = (
    "relu", "relu6", "elu", "selu", "celu", "gelu", "leaky_relu", "silu",
    "mish", "hardtanh", "hardswish", "hardsigmoid", "tanh", "sigmoid",
    "softplus", "softsign", "logsigmoid", "tanhshrink", "softshrink",
    "hardshrink", "threshold", "exp", "expm1", "log", "log1p", "log2", "sqrt",
    "rsqrt", "abs", "absolute", "neg", "negative", "positive", "square",
    "reciprocal", "sin", "cos", "erf", "sign", "nan_to_num", "round", "floor",
    "ceil", "trunc", "frac", "tan", "atan", "sinh", "cosh", "asinh", "exp2",
    "log10", "erfc", "zeros_like", "ones_like", "full_like", "dropout",
    "alpha_dropout", "add", "sub", "subtract", "rsub", "maximum", "minimum",
    "gt", "lt", "ge", "le", "eq", "ne", "logical_not", "isnan", "isfinite",
    "isinf", "bitwise_not", "__add__", "__radd__",
    "__sub__", "__rsub__", "__neg__", "__abs__", "__gt__", "__lt__", "__ge__",
    "__le__", "__eq__", "__ne__", "__invert__",
)  # fmt: skip
# With a plain tensor, these would scale, bound or mask the rows of all hops.
# A sum with one, in contrast, can be a sum with the output of a last layer.
_SCALING = (
    "mul", "multiply", "div", "divide", "true_divide", "pow", "clamp",
    "clamp_min", "clamp_max", "clip", "logical_and", "logical_or",
    "bitwise_and", "bitwise_or", "__mul__", "__rmul__", "__truediv__",
    "__rtruediv__", "__div__", "__rdiv__", "__pow__", "__rpow__", "__and__",
    "__rand__", "__or__", "__ror__",
)  # fmt: skip
_MASKING = ("where", "masked_fill")
_CASTS = (
    "float", "double", "half", "bfloat16", "bool", "to", "type", "type_as",
    "clone", "contiguous", "detach", "cpu", "cuda", "is_floating_point",
    "is_complex",
)  # fmt: skip
_JOINING = ("cat", "concat", "hstack", "stack")
_CUTTING = (
    "split", "tensor_split", "chunk", "unbind", "narrow", "squeeze", "flip",
    "flatten", "unflatten",
)  # fmt: skip
_OF_ONE_TENSOR = ("numpy", "tolist", "item", "__array__")

RULES: dict[str, Rule] = {name: _elementwise(name) for name in _ELEMENTWISE}
RULES |= {name: _scaling(name, lambda call, t: True) for name in _SCALING}
RULES |= {
    name: _scaling(name, lambda call, t: t.dtype == torch.bool)
    for name in _MASKING
}
RULES["lerp"] = _scaling(
    "lerp", lambda call, t: t is _argument(call, "weight", 2, None)
)
RULES |= {name: _ignored(name) for name in _CASTS}
RULES |= {
    name: _first(name)
    for name in ("linear", "batch_norm", "group_norm", "prelu", "rrelu")
}
RULES |= {name: _normalized_shape(name) for name in ("layer_norm", "rms_norm")}
RULES |= {name: _matmul(name) for name in ("matmul", "mm", "__matmul__")}
RULES |= {
    name: _along(name, position)
    for name, position in {
        "softmax": 1, "log_softmax": 1, "softmin": 1, "sum": 1, "mean": 1,
        "max": 1, "min": 1, "amax": 1, "amin": 1, "argmax": 1, "argmin": 1,
        "logsumexp": 1, "std": 1, "var": 1, "norm": 2, "squeeze": 1,
        "chunk": 2, "prod": 1, "cumsum": 1, "any": 1, "all": 1,
        "median": 1, "linalg_norm": 2, "linalg_vector_norm": 2, "narrow": 1,
        "unflatten": 1,
    }.items()
}  # fmt: skip
RULES |= {
    "normalize": _along("normalize", 2, 1),
    "glu": _along("glu", 1, -1),
    "cat": _along("cat", 1, 0),
    "concat": _along("concat", 1, 0),
    "hstack": _along("hstack", 1, 1),
    "split": _along("split", 2, 0),
    "tensor_split": _along("tensor_split", 2, 0),
    "unbind": _along("unbind", 1, 0),
    "topk": _along("topk", 2, -1),
    "sort": _along("sort", 1, -1),
    "argsort": _along("argsort", 1, -1),
    "flatten": _along("flatten", 1, 0, argument="start_dim"),
    "addmm": _addmm,
    "flip": _flip,
    "stack": _along("stack", 1, 0, new=1),
    "unsqueeze": _along("unsqueeze", 1, new=1),
}


def name_of(func: Callable) -> str:
    """Return the name of a torch function."""
    name = getattr(func, "__name__", str(func))
    # F.threshold is defined under another name.
    return "threshold" if name == "_threshold" else name


def rule_for(name: str) -> Rule:
    """Return the rule of a torch function, or raise an error."""
    if name.endswith("_") and not name.endswith("__"):
        raise refuse_in_place(name)
    if name in _OF_ONE_TENSOR:
        raise refuse_value_of_one_tensor(name)
    if name not in RULES:
        raise refuse(name, "is not known to be row-wise")
    return RULES[name]


def refuse_value_of_one_tensor(name: str) -> DGLError:
    """Return the error for what needs one tensor, as NumPy arrays do."""
    return DGLError(
        f"{name} converts one tensor, but hop features have one for each hop: "
        f"take hop k, h[k].{'numpy' if name == '__array__' else name}()."
    )


def holds_bools(ids: Any) -> bool:
    """Tell whether an index is a mask, and does not hold ids."""
    if isinstance(ids, list):
        return all(isinstance(value, bool) for value in ids)
    return getattr(ids, "dtype", None) in (torch.bool, bool)


def refuse_in_place(name: str) -> DGLError:
    """Return the error for a function that would change its argument."""
    bare = name.rstrip("_")
    sign = _OPERATORS.get(bare)
    instead = "change the features before block_aggregate"
    if bare in RULES:
        instead = f"write h = h.{bare}(…)"
    if sign is not None:
        instead += f", and x = x {sign} h in place of x {sign}= h"
    return DGLError(
        f"{name} can't change a value in place, where hop features are among "
        f"the arguments: {instead}."
    )


def is_loss(name: str) -> bool:
    """Tell whether a function is a loss, which is of a model's output."""
    return name.endswith("loss") or name in (
        "cross_entropy", "binary_cross_entropy", "kl_div",
        "binary_cross_entropy_with_logits",
    )  # fmt: skip


def reads_type_only(name: str, args: tuple) -> bool:
    """Tell whether a plain tensor is converted to the type of hop features."""
    return name in ("to", "type_as") and not is_hops(args[0])


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
