"""Recording values, and recognising the tensors and numbers they stand for."""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import torch
from torch import nn

from .. import causes
from ..causes import Cause
from ..refusals import LCError, refuse
from .followed_numbers import Real, Whole, is_followed, plain, without_numpy
from .random_state import kept_random_state
from .user_lines import user_line
from .values import Guard, Trace, Value, leaves, replace, values_in
from .views import Views

#: Rows that a node may have in a tensor, as one for each head of attention.
_MOST_ROWS = 64


class Recorder:
    """Records values, and knows which tensor and number is which value.

    Parameters
    ----------
    model : nn.Module
        A copy of the user's model: its parameters are known by name.
    num_nodes : int
        Number of nodes of the probe.
    """

    def __init__(self, model: nn.Module, num_nodes: int) -> None:
        self.trace = Trace()
        self._known: dict[int, tuple[torch.Tensor, int, Value]] = {}
        self._same: dict[Any, Value] = {}
        self._scope: list[str] = []
        self.views = Views(self)
        self.sizes: dict[int, Value] = {}
        #: Whether problems are collected, and tracing continues after them.
        self.collects = False
        self.add_size(num_nodes, "N")
        self.num_nodes = num_nodes
        named = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        self._params = {id(p): (name, p) for name, p in reversed(named)}

    @property
    def where(self) -> str:
        """The name of the submodule that runs."""
        return self._scope[-1] if self._scope else ""

    def refuse(
        self, cause: Cause, operation: str, reason: str, advice: str
    ) -> NoReturn:
        """Refuse an operation of the submodule that runs."""
        line = user_line()
        refuse(cause, self.where, operation, reason, advice, line)

    def after_refusal(
        self, error: LCError, function: Callable, args: tuple, kwargs: dict
    ) -> Any:
        """Run what was refused as it is, where problems are collected.

        Its result is a value of its own, so that its consequences are known
        for what they are. Otherwise the error is raised.
        """
        if not self.collects:
            raise error
        self.trace.note(error.problems)
        known = [self._lift_any(leaf) for leaf in leaves((args, kwargs))]
        first: Any = args[0] if args else None
        version = getattr(first, "_version", None)
        state = torch.get_rng_state()
        with hidden(), kept_random_state():
            plain_args, plain_kwargs = replace((args, kwargs), plain)
            result = function(*plain_args, **plain_kwargs)
        random = not torch.equal(state, torch.get_rng_state())
        used = tuple(leaf for leaf in known if isinstance(leaf, Value))
        value = self.add("refused", function, used, {}, result, random=random)
        parts = list(result.values()) if isinstance(result, dict) else result
        self.bind_result(parts, value)
        if version is not None and first._version != version:
            self.bind(first, value)
        return self.follow(result, value)

    def _lift_any(self, leaf: Any) -> Any:
        """Return the value of a leaf, even of a tensor changed in place."""
        if isinstance(leaf, torch.Tensor) and id(leaf) in self._known:
            return self._known[id(leaf)][2]
        if isinstance(leaf, torch.Tensor):
            return None
        return self._lift_leaf(leaf)

    def add(
        self,
        op: str,
        target: Any,
        args: tuple = (),
        kwargs: dict | None = None,
        example: Any = None,
        *,
        learned: bool = False,
        random: bool = False,
        data: bool = False,
    ) -> Value:
        """Record a value, unless the same value is known already."""
        kwargs = kwargs or {}
        used = values_in((args, kwargs))
        made = Value(
            len(self.trace.values), op, target, args, kwargs, self.where,
            example,
            learned or any(v.learned for v in used),
            random or any(v.random for v in used),
            data or any(v.data for v in used),
            random,
        )  # fmt: skip
        # Dropout is random in training only, but traces of both modes are
        # compared step by step.
        once = op in ("const", "module", "refused")
        twice = not once and "dropout" not in made.name
        if twice and not random:
            key = (op, _key(target), _key(args), _key(kwargs))
            if key in self._same:
                return self._same[key]
            self._same[key] = made
        made.line = user_line()
        self.trace.values.append(made)
        return made

    def add_size(self, size: int, name: Any) -> None:
        """Record a size of the graph: "N", or ("E", key of the graph)."""
        if size not in self.sizes:
            self.sizes[size] = self.add("number", name, example=size, data=True)

    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        """Let a tensor stand for a value."""
        # The tensor is kept, so that no other tensor gets its id.
        self._known[id(tensor)] = (tensor, tensor._version, value)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor stands for a value."""
        return id(tensor) in self._known

    def turned(
        self, tensor: torch.Tensor, before: torch.Tensor, version: int
    ) -> None:
        """Let ``before`` stand for a tensor that got another shape in place.

        Tensors that share its memory had this version before, and have the
        same numbers as then.
        """
        for made in self.trace.values:
            if made.example is tensor:
                made.example = before
        shared = tensor.untyped_storage().data_ptr()
        for known, seen, value in list(self._known.values()):
            same = known.untyped_storage().data_ptr() == shared
            if same and seen == version:
                self.bind(known, value)

    def lift(self, item: Any) -> Any:
        """Replace tensors and followed numbers by their values."""
        return replace(item, self._lift_leaf)

    def _lift_leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.value_of(leaf)
        if isinstance(leaf, torch.Generator):
            return None  # the call is one that draws random numbers
        if isinstance(leaf, np.ndarray) and leaf.dtype != object:
            return self.add("const", None, example=torch.tensor(leaf))
        return leaf.value if is_followed(leaf) else without_numpy(leaf)

    def value_of(self, tensor: torch.Tensor) -> Value:
        """Return the value of a tensor: known, a parameter or a constant."""
        if id(tensor) in self._known:
            _, version, value = self._known[id(tensor)]
            if tensor._version != version:
                value = self._read_again(tensor)
            if tensor.requires_grad and value.target is torch.Tensor.detach:
                made_by = type(tensor.grad_fn).__name__.removesuffix("Backward")
                self.refuse(
                    causes.GRADIENTS,
                    f"a custom autograd function, or reentrant checkpointing "
                    f"({made_by})",
                    "has a gradient of its own, which can't be followed",
                    "Write it with functions of torch, or call checkpoint "
                    "with use_reentrant=False",
                )
            return value
        if id(tensor) in self._params:
            name, _ = self._params[id(tensor)]
            learned = isinstance(tensor, nn.Parameter)
            value = self.add("param", name, example=tensor, learned=learned)
        else:
            if tensor.requires_grad:
                self.refuse(
                    causes.GRADIENTS,
                    f"a tensor of shape {tuple(tensor.shape)}",
                    "requires gradients, but is neither a parameter of the "
                    "model nor made by an operation that can be followed (a "
                    "function of torch.jit.script or torch.compile can't be)",
                    "Register it as a parameter, or compute it with functions "
                    "of torch and dgl.ops",
                )
            kept = tensor.detach().clone()
            value = self.add("const", None, example=kept)
        self.bind(tensor, value)
        return value

    def _read_again(self, tensor: torch.Tensor) -> Value:
        """Return the value of a view after a write into what it is of."""
        value = self.views.read_again(tensor)
        if value is None:
            self.refuse(
                causes.WRITES_IN_PLACE,
                f"a tensor of shape {tuple(shape_of(tensor))}",
                "was changed in place through another view of it",
                "Compute a new tensor instead",
            )
        self.bind(tensor, value)
        return value

    def bind_result(self, result: Any, value: Value) -> None:
        """Let the tensors of a result stand for a value and its items."""
        if isinstance(result, torch.Tensor):
            self.bind(result, value)
        elif isinstance(result, (tuple, list)):
            for place, item in enumerate(result):
                if isinstance(item, (torch.Tensor, tuple, list)):
                    part = self.add(
                        "call", operator.getitem, (value, place), {}, item
                    )
                    self.bind_result(item, part)

    # Numbers

    def number(self, size: int) -> int:
        """Return a size, followed if it is one of the graph's."""
        value = self.sizes.get(size)
        if value is not None:
            return Whole(size, value, self._record)
        nodes, times = self.num_nodes, size // self.num_nodes
        if 1 < times <= _MOST_ROWS and size % nodes == 0:
            # A tensor with several rows for each node.
            return self.number(nodes) * times
        return size

    def shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Return the sizes of a tensor, followed if they are the graph's."""
        return tuple(
            self._size(tensor, dim, size)
            for dim, size in enumerate(shape_of(tensor))
        )

    def _size(self, tensor: torch.Tensor, dim: int, size: int) -> int:
        """Return a size of a tensor, followed if it is one of the graph's.

        Indices made of the graph, as of edges in both directions, may have
        any size: no width is as large as the number of nodes.
        """
        found = self.number(size)
        ids = tensor.dtype in (torch.int64, torch.int32) and self.knows(tensor)
        if is_followed(found) or not ids or size <= self.num_nodes:
            return found
        value = self.value_of(tensor)
        if not value.static or value.op != "call":
            return found
        asked = torch.Tensor.size
        return self.follow(
            size, self.add("call", asked, (value, dim), {}, size)
        )

    def follow(self, number: Any, value: Value) -> Any:
        """Return a number that remembers its value."""
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            return number
        kind = Whole if isinstance(number, int) else Real
        return kind(number, value, self._record)  # type: ignore[arg-type]

    def _record(self, function: Callable, operands: tuple, result: Any) -> Any:
        """Record a function of followed numbers, and branches on it."""
        lifted = self.lift(operands)
        if isinstance(result, bool):
            same = len(lifted) == 2 and lifted[0] is lifted[1]
            if not same:
                value = self.add("call", function, lifted, {}, result)
                self.trace.guards.append(Guard(value, result))
            return result
        value = self.add("call", function, lifted, {}, result)
        if function is int:
            self.trace.guards.append(Guard(value, result, escaped=True))
            return result
        return self.follow(result, value)


@contextmanager
def hidden() -> Iterator[None]:
    """Record nothing in this block."""
    with torch._C.DisableTorchFunction():
        yield


def shape_of(tensor: torch.Tensor) -> tuple:
    """Return the shape of a tensor as plain numbers."""
    with hidden():
        return tuple(tensor.shape)


def _key(item: Any) -> Any:
    """Return a key that is equal for equal targets or arguments."""
    if isinstance(item, Value):
        return ("value", item.id)
    if isinstance(item, (tuple, list)):
        return (type(item).__name__, *map(_key, item))
    if isinstance(item, dict):
        return tuple((key, _key(part)) for key, part in item.items())
    if isinstance(item, slice):
        return ("slice", _key((item.start, item.stop, item.step)))
    try:
        hash(item)
    except TypeError:
        return id(item)
    return (type(item).__name__, item)
