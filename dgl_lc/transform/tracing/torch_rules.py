"""Rules for torch functions that are not just run and recorded.

A rule says which functions it is for, by name, and what to do with a call of
one. To add a rule, write a function of the tracer and the call::

    @rule("item", "__bool__")
    def to_number(tracer, call):
        '''Turn a tensor into a number that is followed if it has to be.'''

It returns what the model gets as the result, refuses the call, or returns
:data:`RECORD`: then the next rule for that name is asked, and in the end
:meth:`TorchTracer.record` runs the function and records it as a value. Rules
are asked in the order of this file, those for every function last.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from .. import causes
from .followed_numbers import is_followed
from .recorder import shape_of
from .torch_call import TorchCall
from .user_lines import is_users
from .values import Guard, values_in

if TYPE_CHECKING:
    from .torch_tracer import TorchTracer

#: What a rule does with a call: it returns a result, or RECORD.
Act = Callable[["TorchTracer", TorchCall], Any]

#: Returned by a rule that leaves a call to the next one, or to be recorded.
RECORD = object()

_RULES: dict[str, list[Act]] = {}
_FOR_EVERY_FUNCTION: list[Act] = []


def rule(*names: str) -> Callable[[Act], Act]:
    """Make a rule for the functions of these names; of none: for all."""

    def add(act: Act) -> Act:
        for name in names:
            _RULES.setdefault(name, []).append(act)
        if not names:
            _FOR_EVERY_FUNCTION.append(act)
        return act

    return add


def apply_rules(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Return what the first rule that decides does with a call, or RECORD."""
    for act in (*_RULES.get(call.name, ()), *_FOR_EVERY_FUNCTION):
        result = act(tracer, call)
        if result is not RECORD:
            return result
    return RECORD


# What is neither a tensor nor a size of the graph


#: Properties that are tensors; all others are metadata.
_TENSOR_PROPERTIES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


@rule("__get__")
def _read_property(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Follow the sizes of a shape; record only properties with numbers."""
    if call.prop == "shape":
        return torch.Size(tracer.shape(call.args[0]))
    if call.prop not in _TENSOR_PROPERTIES:
        return call.run()
    if call.prop == "data":
        detach = torch.Tensor.detach
        return tracer.call(TorchCall(detach, "detach", call.args, {}))
    return RECORD


@rule(
    "dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous",
    "get_device", "element_size", "data_ptr", "stride", "storage_offset",
    "untyped_storage", "requires_grad_", "retain_grad",
    "__hash__", "__repr__", "__format__", "__str__", "_is_view", "is_pinned",
    "is_signed", "is_inference", "is_shared", "has_names", "is_same_size",
    "result_type", "is_tensor", "is_storage", "can_cast", "promote_types",
    "is_grad_enabled", "get_default_dtype", "manual_seed",
    "broadcast_shapes", "set_grad_enabled", "__set__", "__dlpack__",
    "__dlpack_device__", "share_memory_", "finfo", "iinfo", "is_coalesced",
)  # fmt: skip
def _metadata(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Run what returns neither a tensor nor a size of the graph."""
    return call.function(*call.args, **call.kwargs)


@rule("new_tensor")
def _new_tensor(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Make a constant: only the type is taken from the tensor."""
    if values_in(tracer.lift(call.args[1:])):
        return RECORD
    return call.run()


@rule("tensor", "as_tensor", "asarray")
def _tensor_of_an_array(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Make a constant of an array of NumPy."""
    if isinstance(call.first, (np.ndarray, np.generic)):
        return call.run()
    return RECORD


# Numbers


@rule("size")
def _size(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Return sizes that are followed."""
    sizes = tracer.shape(call.argument(0, "self"))
    dim = call.argument(1, "dim")
    return torch.Size(sizes) if dim is None else sizes[dim]


@rule("__len__")
def _len(tracer: "TorchTracer", call: TorchCall) -> int:
    """Return the length of a tensor, or refuse a size of the graph."""
    size = call.run()
    # len() returns a plain integer: branches on it can't be noticed.
    if size in tracer.sizes and not called_by_dgl():
        tracer.refuse(
            causes.NUMBER_OF_THE_GRAPH,
            "len() of a tensor with a row for each node or edge",
            "is a plain integer, which can't be followed",
            "Use tensor.shape[0] or g.num_nodes()",
        )
    return size


def called_by_dgl() -> bool:
    """Return whether DGL, and not the model, made the call."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("torch.", "dgl_lc.transform")):
            return module.startswith("dgl.")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _called_by_user() -> bool:
    """Return whether the model's own code called a function of torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__torch_function__":
        frame = frame.f_back
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        seen_by = frame.f_code.co_name == "__torch_function__"
        if not seen_by and not module.startswith("torch."):
            break
        frame = frame.f_back
    return frame is not None and is_users(frame.f_code.co_filename)


@rule("numel", "nelement")
def _numel(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Return a number of elements that is followed."""
    total = tracer.number(1)
    for size in tracer.shape(call.argument(0, "input")):
        total = total * size
    return total


@rule(
    "item", "__bool__", "__int__", "__float__", "__index__", "is_nonzero",
    "equal", "allclose", "__contains__",
)  # fmt: skip
def _to_number(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Turn a tensor into a number that is followed if it has to be."""
    lifted = tracer.lift(call.args), tracer.lift(call.kwargs)
    used = values_in(lifted)
    if any(v.learned or v.random for v in used):
        tracer.refuse(
            causes.LEARNED_BRANCH,
            call.name,
            "turns a learned or random value into a Python number, and the "
            "LC version would keep the number of a probe",
            "Compute with tensors (torch.where, masks). If the number is only "
            "printed, logged or asserted, leave that out of forward",
        )
    result = call.run()
    if not any(v.data for v in used) and not (used and _called_by_user()):
        return result
    value = tracer.add("call", call.function, *lifted, example=result)
    if isinstance(result, bool) or not value.data:
        # A constant may be one of the graph that was made outside of torch.
        tracer.trace.guards.append(Guard(value, result))
        return result
    if call.name in ("__int__", "__float__", "__index__"):
        # Python turns the result into a plain number.
        tracer.trace.guards.append(Guard(value, result, escaped=True))
        return result
    return tracer.follow(result, value)


# What leaves torch


@rule("__iter__")
def _iterate(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Take a constant apart item by item; refuse to take nodes apart."""
    tensor = call.args[0]
    if tracer.lift(tensor).data:
        tracer.refuse(
            causes.SOME_ROWS,
            "iterating over a tensor",
            "takes it apart into the rows of single nodes",
            "Use functions of whole tensors",
        )
    pick = torch.Tensor.__getitem__
    return iter([
        tracer.call(TorchCall(pick, "__getitem__", (tensor, place), {}))
        for place in range(shape_of(tensor)[0])
    ])  # fmt: skip


@rule("numpy", "tolist", "__array__")
def _leave_torch(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Take constants out of torch, and refuse all other values."""
    value = tracer.lift(call.args[0])
    if value.data or value.learned:
        tracer.refuse(
            causes.OUTSIDE_TORCH,
            call.name,
            "takes values out of torch, where they can't be followed",
            "Compute with torch instead, and turn arrays of NumPy into "
            "tensors (torch.as_tensor) before you multiply by them",
        )
    return call.run()


# What is done in another way


@rule("dropout")
def _no_dropout(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Pass on what a dropout with p = 0, or an ignored one, is given."""
    if call.function is not nn.functional.dropout:
        return RECORD
    dropped = call.argument(0, "input")
    if tracer.drops_nothing(call.argument(1, "p", 0.5), dropped):
        return dropped
    return RECORD


@rule("linear")
def _split_bias(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Record a linear layer as a product and a sum, if asked to."""
    bias = call.argument(2, "bias")
    if not tracer.splits_bias or bias is None:
        return RECORD
    rest = {k: v for k, v in call.kwargs.items() if k != "bias"}
    linear = nn.functional.linear
    product = tracer.call(TorchCall(linear, "linear", call.args[:2], rest))
    return tracer.call(TorchCall(torch.add, "add", (product, bias), {}))


@rule("add", "__add__", "__radd__", "add_", "__iadd__")
def _add_nothing(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Let a sum with zeros stand for the other part of the sum.

    Sums often begin with ``torch.zeros_like(h)``, or with the 0 of Python's
    sum(), which would be one more input of zeros.
    """
    if call.kwargs or len(call.args) != 2 or tracer.views.sources(call.first):
        return RECORD
    writes = call.name in ("add_", "__iadd__")
    for zero, other in (call.args, call.args[::-1]):
        if _adds_nothing(tracer, zero, other) and zero is not other:
            if writes and other is call.first:
                continue
            value = tracer.without_gradient(tracer.value_of(other))
            result = call.run()
            tracer.bind(result, value)
            return result
    return RECORD


def _adds_nothing(tracer: "TorchTracer", zero: Any, other: Any) -> bool:
    """Return whether a tensor plus a zero is the same tensor."""
    if not isinstance(other, torch.Tensor):
        return False
    if type(zero) in (int, float):
        return zero == 0 and other.is_floating_point()
    if not isinstance(zero, torch.Tensor):
        return False
    alike = zero.dtype == other.dtype and shape_of(zero) == shape_of(other)
    return alike and tracer.value_of(zero).target is torch.zeros


@rule("detach_")
def _detach(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Let the tensor stand for its value without gradients from now on."""
    tensor = call.args[0]
    value = tracer.value_of(tensor)
    call.run()
    detach = torch.Tensor.detach
    made = tracer.add("call", detach, (value,), {}, tensor)
    tracer.bind(tensor, made)
    return tensor


# What is refused


@rule("register_hook", "register_post_accumulate_grad_hook")
def _hook(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse a hook, whose effect would be lost without notice."""
    tracer.refuse(
        causes.GRADIENTS,
        call.name,
        "changes gradients in a way that can't be followed",
        "Scale or clip gradients in the training loop",
    )


@rule("backward", "set_", "resize_", "as_strided_")
def _rewrite(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse what changes a tensor in a way that can't be followed."""
    tracer.refuse(
        causes.WRITES_IN_PLACE,
        call.name,
        "changes a tensor in a way that can't be followed",
        "Compute a new tensor instead (torch.where, torch.cat)",
    )


@rule("split", "split_with_sizes", "chunk", "tensor_split", "vsplit")
def _split(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse to split the nodes into pieces."""
    return _cut(tracer, call, call.argument(2, "dim", 0))


@rule("unbind", "narrow")
def _narrow(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse to take some of the nodes."""
    return _cut(tracer, call, call.argument(1, "dim", 0))


@rule("__getitem__")
def _slice(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse a slice of the nodes with fixed ends."""
    index = call.args[1] if isinstance(call.args[1], tuple) else call.args[1:2]
    part = index[0] if index else None
    ends = (part.start, part.stop) if isinstance(part, slice) else ()
    if any(end is not None and not is_followed(end) for end in ends):
        return _cut(tracer, call, 0)
    return RECORD


def _cut(tracer: "TorchTracer", call: TorchCall, dim: int) -> Any:
    """Refuse pieces of the nodes, whose number depends on the graph."""
    shape = shape_of(call.first) if isinstance(call.first, torch.Tensor) else ()
    if shape and shape[dim] in tracer.sizes:
        tracer.refuse(
            causes.SOME_ROWS,
            call.name,
            "takes some of the rows, at places that do not depend on the graph",
            "Use all rows: the LC version saves memory by mini-batches",
        )
    return RECORD


@rule()
def _out(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Refuse to write the result into a given tensor."""
    if call.kwargs.get("out") is not None:
        tracer.refuse(
            causes.WRITES_IN_PLACE,
            call.name,
            "writes into out=",
            "Omit out= and use the result",
        )
    return RECORD
