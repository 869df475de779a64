"""Values that rewriting adds to a trace, with their results on the probe."""

from collections.abc import Callable
from typing import Any

import torch

from .evaluate import Evaluator
from .tracing.model_call import ModelCall
from .tracing.values import TRAINING, Guard, Trace, Value, arguments_of


class _OnExamples(Evaluator):
    """Computes values from the results of their arguments on the probe."""

    def run(self, value: Value) -> Any:
        return self._evaluate(value)

    def _argument(self, leaf: Any) -> Any:
        if leaf is TRAINING:
            return False
        return leaf.example if isinstance(leaf, Value) else leaf


class MadeValues:
    """Makes values, and knows those that were made.

    A value that is known already is not made twice, so that equal filters of
    several layers are one filter.
    """

    def __init__(self, trace: Trace, probe: ModelCall) -> None:
        self._compute = _OnExamples(probe).run
        self._next_id = len(trace.values)
        self._known: dict[Any, Value] = {}
        self._new: list[Value] = []
        self._guards = trace.guards
        #: The number of nodes.
        self.number = next(v for v in trace.values if v.target == "N")

    def take(self) -> list[Value]:
        """Return the values that were made since this was called last."""
        made, self._new = self._new, []
        return made

    def drop(self) -> None:
        """Drop the values that were made since :meth:`take` was called."""
        dropped = set(self.take())
        self._guards[:] = [g for g in self._guards if g.value not in dropped]
        self._known = {k: v for k, v in self._known.items() if v not in dropped}

    def is_zero(self, weight: Value) -> bool:
        """Return whether weights of edges are zero, on all graphs.

        If they are zero on the probe, this is checked on the user's graph.
        """
        if weight.example.any():
            return False
        found = self.call(torch.any, (weight,), ())
        if all(guard.value is not found for guard in self._guards):
            self._guards.append(Guard(found, False))
        return True

    def aggregate(self, graph: Any, op: str, args: tuple, dims: tuple) -> Value:
        """Make a sum over incoming edges."""
        like = next(arg for arg in args if arg is not None)
        return self.make("aggregate", (graph, op, "sum"), args, dims, like)

    def call(self, function: Callable, args: tuple, dims: tuple) -> Value:
        """Make the result of a function."""
        like = next(arg for arg in args if isinstance(arg, Value))
        return self.make("call", function, args, dims, like)

    def parameter(self, name: str, like: Value) -> Value:
        """Make a parameter of the model, by its name."""
        made = self.make("param", name, (), (), like)
        made.learned, made.dims = True, tuple(made.example.shape)
        return made

    def constant(self, tensor: torch.Tensor, like: Value) -> Value:
        """Make a constant tensor."""
        made = Value(
            self._next_id, "const", None, (), {}, like.where, tensor,
            dims=tuple(tensor.shape), line=like.line,
        )  # fmt: skip
        self._next_id += 1
        self._new.append(made)
        return made

    def make(
        self, op: str, target: Any, args: tuple, dims: tuple, like: Value,
        kwargs: dict | None = None,
    ) -> Value:  # fmt: skip
        """Make a value; it is called where the value ``like`` is."""
        key = (op, target, _frozen(args), _frozen(kwargs or {}))
        if key in self._known:
            return self._known[key]
        made = Value(
            self._next_id, op, target, args, kwargs or {}, like.where, None,
            dims=dims, line=like.line,
        )  # fmt: skip
        used = arguments_of(made)
        of_graph = op in ("aggregate", "edges", "graph")
        made.data = of_graph or any(v.data for v in used)
        made.random = any(v.random for v in used)
        made.learned = any(v.learned for v in used)
        if op == "module":
            made.learned = like.learned
        made.example = self._compute(made)
        self._next_id += 1
        self._new.append(made)
        self._known[key] = made
        return made


def _frozen(item: Any) -> Any:
    """Turn lists and dicts into tuples, which can be keys."""
    if isinstance(item, (list, tuple)):
        return (type(item).__name__, *map(_frozen, item))
    if isinstance(item, dict):
        return tuple((key, _frozen(part)) for key, part in item.items())
    if isinstance(item, slice):
        return ("slice", _frozen((item.start, item.stop, item.step)))
    return item
