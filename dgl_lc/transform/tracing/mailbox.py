"""Tracing reduce functions that do more than to sum their mailbox.

A reduce function is called once, for all nodes. Its mailbox is a tensor of
shape (edges, 1, …): each message is alone. What acts on each message runs on
that tensor and is recorded as an operation on edges; a sum or a mean over the
messages of a node is recorded as an aggregation. Anything else is refused.
"""

import math
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import dgl
import numpy as np
import torch

from .. import causes
from ..causes import Cause
from .followed_numbers import Real, Whole, is_followed, plain
from .recorder import shape_of
from .reduce_functions import (
    DEGREES,
    NODES,
    Law,
    degrees_to_test,
    factor_of,
    law_of,
    random_mailbox,
)
from .values import leaves, replace, tensors_in

if TYPE_CHECKING:
    from .message_tracer import MessageTracer

OPERATION = "a user-defined reduce function"
_ADVICE = (
    "Use fn.sum or fn.mean, or a function of nodes.mailbox[…].sum(1) or "
    ".mean(1)"
)
#: Functions of a followed number, and of a tensor of such numbers.
_OF_TENSORS: dict[Any, Callable] = {
    math.sqrt: torch.sqrt, math.log: torch.log, math.exp: torch.exp,
    math.log2: torch.log2, math.log10: torch.log10, math.log1p: torch.log1p,
    np.sqrt: torch.sqrt, np.log: torch.log, np.exp: torch.exp,
    np.log2: torch.log2, np.log10: torch.log10, np.log1p: torch.log1p,
}  # fmt: skip
#: Operators of two numbers, by the names of functions and methods.
_ARITHMETIC = frozenset({
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv",
    "rtruediv", "pow", "rpow", "multiply", "divide", "true_divide",
    "subtract",
})  # fmt: skip


class Mailbox:
    """The mailboxes of all nodes, while a reduce function is traced.

    Parameters
    ----------
    tracer : MessageTracer
        The tracer that records operations.
    graph : DGLGraph
        The graph that the messages were sent on.
    """

    def __init__(self, tracer: "MessageTracer", graph: Any) -> None:
        self._tracer, self._graph = tracer, graph
        #: Messages as mailboxes, by their ids, and as rows of edges.
        self._mail: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._degrees: dict[int, tuple[Any, torch.Tensor]] = {}
        self._num_nodes = plain(graph.num_nodes())

    def put(self, messages: torch.Tensor) -> torch.Tensor:
        """Return messages, a row for each edge, as a mailbox."""
        return self._keep(messages.unsqueeze(1), messages)

    def holds(self, tensor: Any) -> bool:
        """Return whether a tensor has the messages of a mailbox."""
        return id(tensor) in self._mail

    def takes(self, args: Any, kwargs: Any) -> bool:
        """Return whether arguments contain messages, or their number."""
        return any(
            id(leaf) in self._mail or id(leaf) in self._degrees
            for leaf in leaves((args, kwargs))
        )

    def _keep(
        self, mail: torch.Tensor, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        self._mail[id(mail)] = (mail, rows)
        return mail

    def _rows(self, mail: torch.Tensor) -> torch.Tensor:
        """Return messages as rows of edges."""
        rows = self._mail[id(mail)][1]
        if rows is None:
            rows = self._record(torch.Tensor.squeeze, (mail, 1), {})
        return rows

    def _record(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a function whose arguments are rows of edges."""
        self._tracer.mailbox = None
        try:
            return func(*args, **kwargs)
        finally:
            self._tracer.mailbox = self

    def reject(self, detail: str, cause: Cause = causes.NOT_A_SUM) -> NoReturn:
        """Refuse the reduce function."""
        self._tracer.refuse(
            cause, OPERATION, f"is not a linear filter: {detail}",
            _ADVICE,
        )  # fmt: skip

    # Calls of torch functions on messages

    def call(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a torch function on messages, or on their number."""
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in ("shape", "size"):
            return self._shape(name, args, kwargs)
        plain = ("dtype", "device", "ndim", "dim", "requires_grad")
        if name in plain or name.startswith("new_"):
            with torch._C.DisableTorchFunction():
                return func(*args, **kwargs)
        if any(id(leaf) in self._degrees for leaf in leaves((args, kwargs))):
            return self._arithmetic(func, name, args, kwargs)
        mails = [t for t in tensors_in((args, kwargs)) if self.holds(t)]
        if len(mails) == 1:
            found = self._law(func, args, kwargs)
            if found is not None:
                law, keeps = found
                total = self.sum(self._rows(mails[0]), law)
                return total.unsqueeze(1) if keeps else total
        if "dropout" in name or self._acts_on_each(func, args, kwargs):
            return self._on_each(func, args, kwargs)
        cause = causes.ATTENTION if "softmax" in name else causes.NOT_A_SUM
        return self.reject(
            f"{name.strip('_')} is neither a sum nor a mean over the "
            f"messages of a node",
            cause,
        )

    def _on_each(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """Record a function of each message, on rows of edges if it can be."""
        if self._acts_on_each(func, args, kwargs, flat=True):
            args, kwargs = replace(
                (args, kwargs),
                lambda leaf: self._rows(leaf) if self.holds(leaf) else leaf,
            )
            return self.put(self._record(func, args, kwargs))
        args, kwargs = replace((args, kwargs), self._to_edges)
        return self._keep(self._record(func, args, kwargs))

    def sum(self, messages: torch.Tensor, law: Law) -> torch.Tensor:
        """Record the sum of the messages of each node, times a factor."""
        if not messages.is_floating_point():
            self.reject("the messages are integers")
        if law.power == -1:
            total = dgl.ops.copy_e_mean(self._graph, messages)
        else:
            total = dgl.ops.copy_e_sum(self._graph, messages)
            if law.power:
                shape = (-1, *[1] * (total.dim() - 1))
                degrees = self.degrees().to(total.dtype)
                total = total * degrees.reshape(shape) ** law.power
        return total if law.scale == 1 else total * law.scale

    def degrees(self) -> torch.Tensor:
        """Return the number of messages of each node, at least one."""
        return self._graph.in_degrees().clamp(min=1)

    def _law(
        self, func: Callable, args: tuple, kwargs: dict
    ) -> tuple[Law, bool] | None:
        """Return the factor of a sum over messages, if a function is one.

        The second item says whether the dimension of messages is kept.
        """
        factors = {}
        keeps = False
        for degree in self._tested(args, kwargs):
            found = self._try(func, args, kwargs, degree)
            if found is None:
                return None
            result, mail = found
            if not isinstance(result, torch.Tensor):
                return None
            keeps = result.dim() == mail.dim()
            if keeps and result.shape[1] == 1:
                result = result.squeeze(1)
            factor = factor_of(result, mail)
            if not factor:
                return None
            factors[degree] = factor
        law = law_of(factors)
        return None if law is None else (law, keeps)

    def _tested(self, args: tuple, kwargs: dict) -> tuple[int, ...]:
        """Return the degrees that a function of messages is tested on."""
        mails = [t for t in tensors_in((args, kwargs)) if self.holds(t)]
        with torch._C.DisableTorchFunction():
            width = max((prod(t.shape[2:]) for t in mails), default=1)
        largest = self._tracer.largest_degree(self._graph)
        return degrees_to_test(width, largest)

    def _try(
        self, func: Callable, args: tuple, kwargs: dict, degree: int,
        alone: bool = False, flat: bool = False,
    ) -> tuple[Any, torch.Tensor] | None:  # fmt: skip
        """Run a function on random mailboxes of some nodes.

        With ``alone``, every message is the only one of a node of its own;
        with ``flat``, without the dimension of messages.
        """
        mail: list[torch.Tensor] = []

        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return plain(leaf)
            if self.holds(leaf):
                like = leaf.squeeze(1)
                made = random_mailbox(like, degree, 7 * len(mail) + degree)
                if not leaf.is_floating_point():
                    made = (4 * made).to(leaf.dtype)
                mail.append(made)
                rows = made.flatten(0, 1)
                if alone:
                    return rows if flat else rows.unsqueeze(1)
                return made
            if leaf.dim() and leaf.shape[0] == self._num_nodes:
                if flat:
                    raise ValueError("rows of nodes have another dimension")
                leaf = leaf[: len(mail[0])] if mail else leaf[:NODES]
                leaf = leaf.repeat_interleave(degree, 0) if alone else leaf
            return leaf.double() if leaf.is_floating_point() else leaf

        with torch._C.DisableTorchFunction(), torch.no_grad():
            try:
                args, kwargs = replace((args, kwargs), fake)
                return func(*args, **kwargs), mail[0]
            except Exception:
                return None

    def _acts_on_each(
        self, func: Callable, args: tuple, kwargs: dict, flat: bool = False
    ) -> bool:
        """Return whether a function treats every message by itself.

        With ``flat``, it has to do so without the dimension of messages too.
        """
        for degree in (1, 3, self._tested(args, kwargs)[-1]):
            whole = self._try(func, args, kwargs, degree)
            parts = self._try(func, args, kwargs, degree, True, flat)
            if whole is None or parts is None:
                return False
            a, b = whole[0], parts[0]
            if not isinstance(a, torch.Tensor) or a.dim() < 2:
                return False
            nodes = len(whole[1])
            if a.shape[:2] != (nodes, degree):
                return False
            if not flat:
                if b.shape[1] != 1:
                    return False
                b = b.squeeze(1)
            if len(b) != nodes * degree:
                return False
            b = b.unflatten(0, (nodes, degree))
            if a.shape != b.shape or not torch.allclose(
                a.double(), b.double(), equal_nan=True
            ):
                return False
        return True

    def _to_edges(self, leaf: Any) -> Any:
        """Give each message the row of the node that it is sent to."""
        shape = shape_of(leaf) if isinstance(leaf, torch.Tensor) else ()
        if self.holds(leaf) or shape[:1] != (self._num_nodes,):
            return leaf
        return self._tracer.ends(self._graph, leaf, "v")

    # The number of messages

    def _shape(self, name: str, args: tuple, kwargs: dict) -> Any:
        """Return a shape: nodes, the number of messages, and the rest."""
        with torch._C.DisableTorchFunction():
            rest = tuple(args[0].shape[2:])
        shape = (self._tracer.number(self._num_nodes), self._degree(), *rest)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if name == "size" and dim is not None:
            return shape[dim]
        return torch.Size(shape)

    def _degree(self) -> Any:
        """Return the number of messages, which differs from node to node."""
        each = self.degrees().to(torch.get_default_dtype())
        return self._follow(DEGREES[3], each)

    def _follow(self, number: Any, each: torch.Tensor) -> Any:
        """Return a number that stands for one number for each node."""
        kind = Whole if isinstance(number, int) else Real
        value = self._tracer.value_of(each)
        made = kind(number, value, self._compute)  # type: ignore[arg-type]
        self._degrees[id(made)] = (made, each)
        return made

    def _compute(self, func: Callable, operands: tuple, result: Any) -> Any:
        """Compute with the number of messages of each node."""
        if isinstance(result, bool) or func in (int, round):
            self.reject("it depends on the number of messages in other ways "
                        "than by a factor (a branch, min or max of it: use "
                        "g.in_degrees().clamp(min=…) after a sum)")  # fmt: skip
        if isinstance(func, np.ufunc) and func not in _OF_TENSORS:
            self.reject(f"numpy.{func.__name__} of the number of messages "
                        f"can't be followed")  # fmt: skip
        func = _OF_TENSORS.get(func, func)
        tensors = [self._each(operand) for operand in operands]
        return self._follow(result, func(*tensors))

    def _each(self, leaf: Any) -> Any:
        """Return the tensor that a number stands for."""
        if id(leaf) in self._degrees:
            return self._degrees[id(leaf)][1]
        return plain(leaf) if is_followed(leaf) else leaf

    def _arithmetic(
        self, func: Callable, name: str, args: tuple, kwargs: dict
    ) -> Any:
        """Compute with the number of messages and rows of nodes."""
        name = name.strip("_")
        tensors = [t for t in args if isinstance(t, torch.Tensor)]
        if name not in _ARITHMETIC or len(tensors) != 1 or kwargs:
            self.reject(f"{name} uses the number of messages in other ways "
                        f"than by a factor")  # fmt: skip
        (rows,) = tensors
        shape = (-1, *[1] * (rows.dim() - 1))

        def spread(leaf: Any) -> Any:
            each = self._each(leaf)
            if each is leaf or not isinstance(each, torch.Tensor):
                return leaf
            if self.holds(rows):
                each = self._tracer.ends(self._graph, each, "v")
            return each.reshape(shape).to(rows.dtype)

        made = self._record(func, tuple(map(spread, args)), {})
        return self._keep(made) if self.holds(rows) else made
