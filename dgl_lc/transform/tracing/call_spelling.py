"""One spelling for each call, however the model writes it.

``h.add_(b)``, ``torch.add(h, b)`` and ``h + b`` are the same operation, and
``zeros_like(h)`` takes only the shape of h.
"""

import operator
from collections.abc import Callable

import torch
from torch import nn

from .. import causes
from .recorder import Recorder, shape_of

#: The function, its arguments and its keyword arguments.
Spelling = tuple[Callable, tuple, dict]

#: Operators by all their names; True: the operands are swapped.
_OPERATORS: dict[str, tuple[Callable, bool]] = {
    "add": (operator.add, False), "radd": (operator.add, True),
    "sub": (operator.sub, False), "rsub": (operator.sub, True),
    "mul": (operator.mul, False), "rmul": (operator.mul, True),
    "div": (operator.truediv, False), "rdiv": (operator.truediv, True),
    "truediv": (operator.truediv, False),
    "rtruediv": (operator.truediv, True),
    "subtract": (operator.sub, False), "multiply": (operator.mul, False),
    "divide": (operator.truediv, False),
    "true_divide": (operator.truediv, False),
    "pow": (operator.pow, False), "rpow": (operator.pow, True),
    "matmul": (operator.matmul, False), "rmatmul": (operator.matmul, True),
    "mm": (operator.matmul, False), "neg": (operator.neg, False),
    "negative": (operator.neg, False), "getitem": (operator.getitem, False),
    "eq": (operator.eq, False), "ne": (operator.ne, False),
    "lt": (operator.lt, False), "le": (operator.le, False),
    "gt": (operator.gt, False), "ge": (operator.ge, False),
}  # fmt: skip

#: Functions that take the shape and the type of their first argument.
_LIKE: dict[str, Callable] = {
    "zeros_like": torch.zeros, "ones_like": torch.ones,
    "empty_like": torch.zeros, "full_like": torch.full,
    "new_zeros": torch.zeros, "new_ones": torch.ones,
    "new_empty": torch.zeros, "new_full": torch.full,
}  # fmt: skip

#: Functions that take the shape of their second argument.
_SHAPED_AS: dict[str, Callable] = {
    "expand_as": torch.Tensor.expand,
    "view_as": torch.Tensor.view,
    "reshape_as": torch.Tensor.reshape,
}

#: Functions of torch.nn.functional whose last argument is ``inplace``.
_INPLACE_LAST = frozenset({
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish",
    "hardtanh", "hardswish", "hardsigmoid", "threshold", "rrelu", "dropout",
    "alpha_dropout", "feature_alpha_dropout",
})  # fmt: skip


def one_spelling(
    recorder: Recorder, func: Callable, name: str, inplace: bool,
    args: tuple, kwargs: dict, lifted: tuple[tuple, dict],
) -> Spelling:  # fmt: skip
    """Return a call in one spelling.

    Operators replace functions and methods, out-of-place functions those that
    work in place, and shapes and types the tensors that they are taken from.
    """
    largs, lkwargs = lifted
    lkwargs = {k: v for k, v in lkwargs.items() if k != "inplace"}
    functional = getattr(nn.functional, name, None) is func
    last = functional and name in _INPLACE_LAST
    if last and largs and largs[-1] is True:
        largs = (*largs[:-1], False)
    elif inplace and _is_inplace(name):
        name = name.strip("_")
        if func.__name__.startswith("__i"):
            name = name[1:]
        found = getattr(torch.Tensor, name, getattr(torch, name, None))
        if found is None:
            recorder.refuse(
                causes.WRITES_IN_PLACE,
                f"{name}_",
                "writes into a tensor",
                "Compute a new tensor instead",
            )
        func = found
    base = name.strip("_")
    tensors = bool(largs) and not lkwargs
    if base in _OPERATORS and tensors and len(largs) <= 2:
        function, swapped = _OPERATORS[base]
        return function, largs[::-1] if swapped else largs, {}
    if name in _LIKE:
        return _factory(recorder, name, args, kwargs, largs)
    if name in _SHAPED_AS:
        shape = recorder.lift(tuple(map(recorder.number, shape_of(args[1]))))
        return _SHAPED_AS[name], (largs[0], *shape), {}
    lends = len(args) > 1 and isinstance(args[1], torch.Tensor)
    if name in ("to", "type_as") and lends:
        return torch.Tensor.to, (largs[0], args[1].dtype), {}
    if name == "squeeze" and len(args) == 1 and not kwargs:
        ones = [d for d, size in enumerate(shape_of(args[0])) if size == 1]
        return torch.Tensor.squeeze, (largs[0], tuple(ones)), {}
    if name == "detach":
        return torch.Tensor.detach, largs[:1], {}
    return func, largs, lkwargs


def _factory(
    recorder: Recorder, name: str, args: tuple, kwargs: dict, largs: tuple
) -> Spelling:
    """Return ``zeros_like(h)`` as zeros of the shape and the type of h."""
    rest = largs[1:]
    if name.endswith("_like"):
        shape = recorder.lift(tuple(map(recorder.number, shape_of(args[0]))))
    elif rest and isinstance(rest[0], (tuple, list)):
        shape, rest = tuple(rest[0]), rest[1:]
    else:
        shape, rest = tuple(rest), ()
    if "size" in kwargs:
        shape = tuple(recorder.lift(kwargs["size"]))
    if "fill_value" in kwargs:
        rest = (kwargs["fill_value"],)
    dtype = kwargs.get("dtype") or args[0].dtype
    full = name.endswith("full") or name.startswith("full")
    return _LIKE[name], (shape, *(rest if full else ())), {"dtype": dtype}


def _is_inplace(name: str) -> bool:
    """Return whether a function of this name works in place."""
    if name.startswith("__i") and name.endswith("__"):
        return name not in ("__invert__", "__index__", "__int__", "__iter__")
    return name.endswith("_") and not name.endswith("__")
