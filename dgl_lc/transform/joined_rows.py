"""Tensors whose rows were joined one below the other, as several tensors.

``torch.cat([a, b])`` of two tensors with a row for each node has 2 N rows.
What is done to each of them is done to a and to b, until ``view(2, N, -1)``,
a slice or ``chunk`` separates them again. Every step is compared with what the
model computed on the probe. (Rows of one node that lie side by side, as after
``h.view(N * heads, -1)``, need no such change.)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .linearity import close
from .recognise import DROPOUTS
from .rewrite import Rewriter
from .tracing.values import (
    PerNode,
    Trace,
    Value,
    arguments_of,
    callable_of,
    in_evaluation,
)
from .tracing.values import replace as replace_leaves


def split_joined_rows(trace: Trace, model: nn.Module) -> Trace:
    """Rewrite a trace so that tensors have one row for each node.

    ``model`` is that of the probe on which the values were computed.
    """
    wide = any(_has_more_rows(v) for v in trace.values)
    return _Splitter(model).rewrite(trace) if wide else trace


class _Splitter(Rewriter):
    """Follows tensors with several rows for each node, part by part."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._parts: dict[Value, tuple[Value, ...]] = {}
        self._cut: dict[Value, tuple[Value, ...]] = {}

    def instead(self, value: Value) -> Value | None:
        """Return the rows of nodes that a value has, if it joins them."""
        if value.op not in ("call", "module") or not value.data:
            return None
        if value.name == "getitem" and value.args[0] in self._cut:
            return self._cut[value.args[0]][value.args[1]]
        sources = [v for v in arguments_of(value) if v in self._parts]
        if not sources:
            self._begin(value)
            return None
        return self._of_joined(value, sources)

    def _begin(self, value: Value) -> None:
        """Note what a value with more rows than nodes is made of."""
        sources = [v for v in arguments_of(value) if _is_tensor(v)]
        if not _has_more_rows(value) or not sources:
            return
        first = sources[0]
        parts: tuple[Value, ...] = ()
        if value.name in _JOINS and all(v.row_dim == 0 for v in sources):
            parts = tuple(sources)
        elif value.name in _REPEATS and first.row_dim == 0:
            parts = (first,) * (len(value.example) // len(first.example))
        elif value.name in _RESHAPES and first.row_dim == 1:
            parts = tuple(
                self._call(torch.Tensor.__getitem__, (first, place), first)
                for place in range(len(first.example))
            )
        joined = [part.example for part in parts]
        if parts and _equal(torch.cat(joined), value.example):
            self._parts[value] = parts

    def _of_joined(self, value: Value, sources: list[Value]) -> Value | None:
        """Do to each part what is done to the joined rows, or join them."""
        parts, example = self._parts[sources[0]], value.example
        tensors = [part.example for part in parts]
        if isinstance(example, (tuple, list)):
            if _all_equal(list(example), tensors):
                self._cut[value] = parts
            return None
        if not isinstance(example, torch.Tensor):
            return None
        if value.name == "getitem":
            same = {p for p in parts if _equal(p.example, example)}
            return same.pop() if len(same) == 1 else None
        if value.name in _RESHAPES and value.row_dim is not None:
            stacked = torch.stack(tensors)
            fits = stacked.numel() == example.numel()
            if fits and _equal(stacked.reshape(example.shape), example):
                made = self._call(torch.stack, (list(parts), 0), parts[0])
                same_shape = made.dims == value.dims
                return made if same_shape else self._reshaped(made, value.dims)
        self._each(value, sources)
        return None

    def _each(self, value: Value, sources: list[Value]) -> None:
        """Call an operation on each part instead of on all rows."""
        count = len(self._parts[sources[0]])
        alike = all(len(self._parts[v]) == count for v in sources)
        others = [v for v in arguments_of(value) if v.data and v not in sources]
        random = value.draws and value.name not in DROPOUTS
        if not alike or others or random or self._pools(value):
            return
        made = []
        try:
            for place in range(count):
                args, kwargs = self._at(place, value)
                example = self._run(value, args, kwargs)
                made.append((args, kwargs, example))
            whole = torch.cat([example for _, _, example in made])
        except Exception:
            # It is refused later, as an operation on too many rows.
            return
        if not _equal(whole, value.example):
            return
        self._parts[value] = tuple(
            self._added(
                replace(
                    value, args=args, kwargs=kwargs, example=example,
                    dims=("N", *value.dims[1:]),
                )
            )
            for args, kwargs, example in made
        )  # fmt: skip

    def _pools(self, value: Value) -> bool:
        """Return whether it has statistics of all rows, as a batch norm."""
        if value.op != "module":
            return value.name == "batch_norm"
        module = self._model.get_submodule(value.target)
        return isinstance(module, nn.modules.batchnorm._NormBase)

    # What the rules share

    def _at(self, place: int, value: Value) -> tuple[tuple, dict]:
        """Return the arguments of a value for one of the parts."""

        def part(leaf: Any) -> Any:
            if isinstance(leaf, Value) and leaf in self._parts:
                return self._parts[leaf][place]
            return leaf

        return replace_leaves((value.args, value.kwargs), part)

    def _run(self, value: Value, args: tuple, kwargs: dict) -> Any:
        function = callable_of(value, self._model)
        mode = self._model.training
        self._model.eval()
        try:
            with torch.no_grad():
                args, kwargs = replace_leaves((args, kwargs), _example)
                return function(*args, **kwargs)
        finally:
            self._model.train(mode)

    def _call(self, function: Callable, args: tuple, like: Value) -> Value:
        """Add a call of a function of rows."""
        with torch.no_grad():
            example = function(*replace_leaves(args, _example))
        n = like.example.shape[like.row_dim]
        made = replace(
            like, op="call", target=function, args=args, kwargs={},
            example=example, draws=False,
            dims=tuple("N" if size == n else size for size in example.shape),
        )  # fmt: skip
        return self._added(made)

    def _reshaped(self, value: Value, dims: tuple) -> Value:
        """Add a reshape to sizes, of which one is the number of nodes."""
        number = next(v for v in self.values if v.target == "N")
        shape = tuple(number if size == "N" else size for size in dims)
        return self._call(torch.reshape, (value, shape), value)

    def _added(self, value: Value) -> Value:
        value.id = len(self.values)
        self.values.append(value)
        return value


#: Functions that join tensors, repeat one, and change a shape.
_JOINS = frozenset({
    "cat", "concat", "concatenate", "vstack", "row_stack",
})  # fmt: skip
_REPEATS = frozenset({"repeat", "tile"})
_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten"})


def _has_more_rows(value: Value) -> bool:
    """Return whether it has several times as many rows as nodes."""
    return value.data and isinstance((*value.dims, None)[0], PerNode)


def _is_tensor(value: Value) -> bool:
    return value.data and isinstance(value.example, torch.Tensor)


def _example(leaf: Any) -> Any:
    return leaf.example if isinstance(leaf, Value) else in_evaluation(leaf)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two tensors are equal up to rounding."""
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    if not tensors or a.shape != b.shape or a.dtype != b.dtype:
        return False
    return close(a, b, rtol=1e-5)


def _all_equal(a: list, b: list) -> bool:
    return len(a) == len(b) and all(map(_equal, a, b))
