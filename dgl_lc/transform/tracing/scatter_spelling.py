"""One spelling for sums of messages by an index, however they are written.

``h.index_add(0, v, m)`` is ``h + zeros.index_add(0, v, m)``. So are
``scatter_add``, ``index_put(accumulate=True)`` and the sums and means of
``scatter_reduce`` and ``index_reduce``: sums that start with zeros, scaled by
static numbers of nodes. Those are known as filters later on.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...row_programs.in_autocast import active_autocast
from .call_spelling import LiftedCall, Spelling, spells
from .followed_numbers import plain
from .recorder import Recorder, hidden
from .torch_call import TorchCall
from .torch_rules import RECORD, rule
from .values import Value, tensors_in

if TYPE_CHECKING:
    from .torch_tracer import TorchTracer

#: Names of the arguments after the tensor that is added to.
_ARGUMENTS = {
    "index_add": ("dim", "index", "source"),
    "scatter_add": ("dim", "index", "src"),
    "index_reduce": ("dim", "index", "source", "reduce"),
    "scatter_reduce": ("dim", "index", "src", "reduce"),
    "index_put": ("indices", "values", "accumulate"),
}
_REDUCES = frozenset({"sum", "mean"})


@rule(*(f"{name}_" for name in _ARGUMENTS))
def _keep_what_was(tracer: "TorchTracer", call: TorchCall) -> Any:
    """Keep the numbers that a sum in place starts with."""
    value = tracer.value_of(call.args[0]) if call.args else None
    if value is not None and value.example is call.args[0]:
        with hidden():
            value.example = call.args[0].clone()
    return RECORD


@dataclass(frozen=True)
class _Scatter:
    """A call in parts; those that are tensors are values in ``lifted``."""

    name: str
    given: dict[str, Any]
    lifted: dict[str, Any]

    @property
    def start(self) -> tuple[torch.Tensor, Value]:
        return self.given["self"], self.lifted["self"]

    @property
    def index(self) -> tuple[Any, Any]:
        if self.name == "index_put":
            return self.given["indices"][0], self.lifted["indices"][0]
        return self.given["index"], self.lifted["index"]

    @property
    def messages(self) -> tuple[Any, Any]:
        (name,) = {"source", "src", "values"} & set(self.given)
        return self.given[name], self.lifted[name]

    @property
    def reduce(self) -> str:
        return str(self.given.get("reduce", "sum"))

    @property
    def includes_self(self) -> bool:
        return bool(self.given.get("include_self", True))


@spells(*_ARGUMENTS)
def _scatter(recorder: Recorder, call: LiftedCall) -> Spelling | None:
    """Return a sum or mean by an index as a sum that starts with zeros."""
    if active_autocast(tensors_in((call.made.args, call.made.kwargs))):
        return None
    found = _parts(call)
    if found is None or not _is_of_nodes(recorder, found):
        return None
    value = _written(recorder, found)
    # The last operation is recorded with the result of the call.
    return value.target, value.args, value.kwargs


def _parts(call: LiftedCall) -> _Scatter | None:
    """Return the arguments of a call by their names."""
    names = ("self", *_ARGUMENTS[call.name])
    if len(call.args) > len(names):
        return None
    given = dict(zip(names, call.made.args, strict=False))
    lifted = dict(zip(names, call.args, strict=False))
    given.update(call.made.kwargs)
    lifted.update(call.kwargs)
    for parts in (given, lifted):
        if "input" in parts:
            parts["self"] = parts.pop("input")
    wanted = [name for name in names if name != "accumulate"]
    if any(name not in given for name in wanted):
        return None
    return _Scatter(call.name, given, lifted)


def _is_of_nodes(recorder: Recorder, call: _Scatter) -> bool:
    """Return whether it sums rows of messages by static ids of nodes."""
    start, _ = call.start
    if call.name == "index_put":
        given = call.given
        if not given.get("accumulate", False) or len(given["indices"]) != 1:
            return False
    elif call.given["dim"] not in (0, -start.dim()):
        return False
    (index, ids), (messages, sent) = call.index, call.messages
    if not isinstance(ids, Value) or not isinstance(sent, Value):
        return False
    integers = index.dtype in (torch.int64, torch.int32)
    nodes = start.dim() > 0 and len(start) == recorder.num_nodes
    if not ids.static or not integers or not nodes or not messages.dim():
        return False
    if messages.shape[1:] != start.shape[1:]:
        return False
    if call.name.startswith("scatter"):
        # All columns of a message have to go to the same node.
        same = index.shape == messages.shape
        wide = index.reshape(len(index), -1) if same else index
        if not same or not bool((wide == wide[:, :1]).all()):
            return False
    elif index.dim() != 1 or len(index) != len(messages):
        return False
    return call.reduce in _REDUCES


def _written(recorder: Recorder, call: _Scatter) -> Value:
    """Return the value of a call."""
    tensor, start = call.start
    zeros = start.target is torch.zeros
    make = _Maker(recorder, tensor)
    total = make.sums(call, start if zeros else None)
    alpha = call.lifted.get("alpha", 1)
    if isinstance(alpha, Value) or alpha != 1:
        total = make(operator.mul, total, alpha)
    plain_sum = call.reduce == "sum" and (call.includes_self or zeros)
    if plain_sum:
        return total if zeros else make(operator.add, start, total)
    counts = make.counts(call)
    if call.reduce == "mean" and call.includes_self:
        total = total if zeros else make(operator.add, start, total)
        return make(operator.truediv, total, make(operator.add, counts, 1))
    if call.reduce == "mean":
        at_least = make(torch.Tensor.clamp, counts, 1)
        total = make(operator.truediv, total, at_least)
    if zeros:
        return total
    # Nodes without messages keep what they have.
    alone = make(operator.eq, counts, 0)
    alone = make(torch.Tensor.to, alone, tensor.dtype)
    return make(operator.add, make(operator.mul, start, alone), total)


class _Maker:
    """Adds values of nodes to a trace, with their results on the probe."""

    def __init__(self, recorder: Recorder, like: torch.Tensor) -> None:
        self._recorder, self._like = recorder, like

    def __call__(self, function: Callable, *args: Any) -> Value:
        """Add a call of a function."""
        plain_args = [
            arg.example if isinstance(arg, Value) else plain(arg)
            for arg in args
        ]
        with hidden():
            made = function(*plain_args)
        return self._recorder.add("call", function, args, {}, made)

    def sums(self, call: _Scatter, zeros: Value | None) -> Value:
        """Add the sums of messages, which start with zeros."""
        zeros = zeros or self._zeros(tuple(self._like.shape))
        by_rows = not call.name.startswith("scatter")
        name = "index_add" if by_rows else "scatter_add"
        (index, ids), (messages, sent) = call.index, call.messages
        with hidden():
            start = torch.zeros_like(self._like)
            made = getattr(start, name)(0, index, messages)
        function = getattr(torch.Tensor, name)
        return self._recorder.add(
            "call", function, (zeros, 0, ids, sent), {}, made
        )

    def counts(self, call: _Scatter) -> Value:
        """Add the numbers of messages of each node, as a column."""
        index, ids = call.index
        if index.dim() > 1:
            first = (slice(None), *[0] * (index.dim() - 1))
            ids = self(operator.getitem, ids, first)
        ones = self(torch.ones_like, ids)
        ones = self(torch.Tensor.to, ones, self._like.dtype)
        zeros = self._zeros((len(self._like),))
        found = self(torch.Tensor.index_add, zeros, 0, ids, ones)
        shape = (-1, *[1] * (self._like.dim() - 1))
        return self(torch.Tensor.reshape, found, shape)

    def _zeros(self, shape: tuple[int, ...]) -> Value:
        """Add zeros of a type and a shape whose sizes are followed."""
        with hidden():
            made = torch.zeros(shape, dtype=self._like.dtype)
        sizes = self._recorder.lift(tuple(map(self._recorder.number, shape)))
        kwargs = {"dtype": self._like.dtype}
        return self._recorder.add("call", torch.zeros, (sizes,), kwargs, made)
