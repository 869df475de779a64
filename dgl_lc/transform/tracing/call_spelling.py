"""One spelling for each call, however the model writes it.

``h.add_(b)``, ``torch.add(h, b)`` and ``h + b`` are the same operation, and
``zeros_like(h)`` takes only the shape of h. What a function is spelled as
depends on its name; to add a rule, write a function of the recorder and the
call, and name the functions that it is for::

    @spells("zeros_like", "ones_like")
    def like(recorder, call): ...

It returns the new spelling, or None if it does not apply to this call.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ...row_programs.written_rows import write_items
from .. import causes
from .recorder import Recorder, shape_of
from .torch_call import TorchCall

#: The function, its arguments and its keyword arguments.
Spelling = tuple[Callable, tuple, dict]


@dataclass(frozen=True)
class LiftedCall:
    """A call whose arguments are values, and the call that it was.

    Attributes
    ----------
    function, name, args, kwargs
        The function with its arguments; tensors among them are values.
    made : TorchCall
        The call as the model made it, with tensors.
    """

    function: Callable
    name: str
    args: tuple
    kwargs: dict
    made: TorchCall


#: Returns the spelling of a call, or None.
Speller = Callable[[Recorder, LiftedCall], Spelling | None]

_SPELLERS: dict[str, Speller] = {}


def spells(*names: str) -> Callable[[Speller], Speller]:
    """Make a rule of spelling for the functions of these names."""

    def add(speller: Speller) -> Speller:
        _SPELLERS.update(dict.fromkeys(names, speller))
        return speller

    return add


def one_spelling(
    recorder: Recorder, call: TorchCall, inplace: bool,
    lifted: tuple[tuple, dict],
) -> Spelling:  # fmt: skip
    """Return a call in one spelling.

    Operators replace functions and methods, out-of-place functions those that
    work in place, and shapes and types the tensors that they are taken from.
    """
    found = LiftedCall(call.function, call.name, *lifted, made=call)
    found = _out_of_place(recorder, found, inplace)
    spelling = _as_operator(found)
    if spelling is None and found.name in _SPELLERS:
        spelling = _SPELLERS[found.name](recorder, found)
    return spelling or (found.function, found.args, found.kwargs)


# Functions that work in place

#: Functions of torch.nn.functional whose last argument is ``inplace``.
_INPLACE_LAST = frozenset({
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish",
    "hardtanh", "hardswish", "hardsigmoid", "threshold", "rrelu", "dropout",
    "alpha_dropout", "feature_alpha_dropout",
})  # fmt: skip


def _out_of_place(
    recorder: Recorder, call: LiftedCall, inplace: bool
) -> LiftedCall:
    """Return the call of a function that does not work in place."""
    kwargs = {k: v for k, v in call.kwargs.items() if k != "inplace"}
    args, name = call.args, call.name
    functional = getattr(nn.functional, name, None) is call.function
    if functional and name in _INPLACE_LAST and args and args[-1] is True:
        return replace(call, args=(*args[:-1], False), kwargs=kwargs)
    if not inplace or name in _WRITES or not _is_inplace(name):
        return replace(call, kwargs=kwargs)
    name = name.strip("_")
    if call.function.__name__.startswith("__i"):
        name = name[1:]
    function = getattr(torch.Tensor, name, getattr(torch, name, None))
    if function is None:
        recorder.refuse(
            causes.WRITES_IN_PLACE,
            f"{name}_",
            "writes into a tensor",
            "Compute a new tensor instead",
        )
    return replace(call, function=function, name=name, kwargs=kwargs)


#: Functions that write items into a tensor.
_WRITES = ("__setitem__", "copy_", "fill_", "zero_")


@spells(*_WRITES)
def _written(recorder: Recorder, call: LiftedCall) -> Spelling:
    """Return ``h[index] = items`` as a function that returns a new tensor."""
    tensor, *rest = call.args
    if call.name == "__setitem__":
        return write_items, (tensor, *rest), {}
    if call.name == "zero_":
        return write_items, (tensor, ..., 0), {}
    items = (
        rest[0] if rest else call.kwargs.get("src", call.kwargs.get("value"))
    )
    return write_items, (tensor, ..., items), {}


def _is_inplace(name: str) -> bool:
    """Return whether a function of this name works in place."""
    if name.startswith("__i") and name.endswith("__"):
        return name not in ("__invert__", "__index__", "__int__", "__iter__")
    return name.endswith("_") and not name.endswith("__")


# Operators

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


def _as_operator(call: LiftedCall) -> Spelling | None:
    """Return an operator for functions and methods of one or two operands."""
    found = _OPERATORS.get(call.name.strip("_"))
    if found is None or call.kwargs or not 1 <= len(call.args) <= 2:
        return None
    function, swapped = found
    return function, call.args[::-1] if swapped else call.args, {}


# Functions that take the shape or the type of a tensor

#: Functions that take the shape and the type of their first argument.
_LIKE: dict[str, Callable] = {
    "zeros_like": torch.zeros, "ones_like": torch.ones,
    "empty_like": torch.zeros, "full_like": torch.full,
    "new_zeros": torch.zeros, "new_ones": torch.ones,
    "new_empty": torch.zeros, "new_full": torch.full,
}  # fmt: skip


@spells(*_LIKE)
def _factory(recorder: Recorder, call: LiftedCall) -> Spelling:
    """Return ``zeros_like(h)`` as zeros of the shape and the type of h."""
    name, kwargs, given = call.name, call.made.kwargs, call.made.args[0]
    rest = call.args[1:]
    if name.endswith("_like"):
        shape = _shape(recorder, given)
    elif rest and isinstance(rest[0], (tuple, list)):
        shape, rest = tuple(rest[0]), rest[1:]
    else:
        shape, rest = tuple(rest), ()
    if "size" in kwargs:
        shape = tuple(recorder.lift(kwargs["size"]))
    if "fill_value" in kwargs:
        rest = (kwargs["fill_value"],)
    dtype = kwargs.get("dtype") or given.dtype
    full = name.endswith("full") or name.startswith("full")
    return _LIKE[name], (shape, *(rest if full else ())), {"dtype": dtype}


#: Functions that take the shape of their second argument.
_SHAPED_AS: dict[str, Callable] = {
    "expand_as": torch.Tensor.expand,
    "view_as": torch.Tensor.view,
    "reshape_as": torch.Tensor.reshape,
}


@spells(*_SHAPED_AS)
def _shaped_as(recorder: Recorder, call: LiftedCall) -> Spelling:
    """Return ``h.view_as(x)`` as a view of the shape of x."""
    shape = _shape(recorder, call.made.args[1])
    return _SHAPED_AS[call.name], (call.args[0], *shape), {}


def _shape(recorder: Recorder, tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the sizes of a tensor, those of the graph as values."""
    return recorder.lift(tuple(map(recorder.number, shape_of(tensor))))


@spells("to", "type_as")
def _typed_as(recorder: Recorder, call: LiftedCall) -> Spelling | None:
    """Return ``h.to(x)`` as a change to the type of x."""
    given = call.made.args
    if len(given) < 2 or not isinstance(given[1], torch.Tensor):
        return None
    return torch.Tensor.to, (call.args[0], given[1].dtype), {}


@spells("squeeze")
def _squeeze(recorder: Recorder, call: LiftedCall) -> Spelling | None:
    """Name the dimensions to squeeze: a batch may have a single row."""
    if len(call.args) != 1 or call.kwargs:
        return None
    sizes = enumerate(shape_of(call.made.args[0]))
    ones = tuple(dim for dim, size in sizes if size == 1)
    return torch.Tensor.squeeze, (call.args[0], ones), {}


@spells("detach")
def _detach(recorder: Recorder, call: LiftedCall) -> Spelling:
    """Return ``h.data`` and ``h.detach()`` as one function."""
    return torch.Tensor.detach, call.args[:1], {}
