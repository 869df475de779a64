"""Tensors with several rows for each node, as several tensors.

``torch.cat([a, b])`` of two tensors with a row for each node has 2 N rows,
and ``h.view(N * heads, -1)`` has N * heads. What is done to each row of them
is done to each of the tensors they are made of, until ``view(2, N, -1)`` or
``view(N, -1)`` joins the rows of a node again. Every step is compared with
what the model computed on the probe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from .linearity import close
from .recognise import DROPOUTS
from .rewrite import Rewriter
from .tracing.values import (
    Trace,
    Value,
    arguments_of,
    callable_of,
    in_evaluation,
)
from .tracing.values import replace as replace_leaves


@dataclass(frozen=True)
class _Joined:
    """The tensors that one with several rows for each node is made of.

    Attributes
    ----------
    parts : tuple of Value
        Tensors with one row for each node.
    blocks : bool
        Whether all rows of one part follow each other, as after ``cat``, or
        all rows of one node, as after ``view``.
    """

    parts: tuple[Value, ...]
    blocks: bool

    def join(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Join tensors as these parts are joined."""
        if self.blocks:
            return torch.cat(list(tensors), 0)
        return torch.stack(list(tensors), 1).flatten(0, 1)

    def stack(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack tensors, with a dimension of the nodes and one of parts."""
        return torch.stack(list(tensors), 0 if self.blocks else 1)


def split_joined_rows(trace: Trace, model: nn.Module) -> Trace:
    """Rewrite a trace so that tensors have one row for each node.

    ``model`` is that of the probe on which the values were computed.
    """
    wide = any(v.data and v.dims and v.dims[0] is None for v in trace.values)
    return _Splitter(model).rewrite(trace) if wide else trace


class _Splitter(Rewriter):
    """Follows tensors with several rows for each node, part by part."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._joined: dict[Value, _Joined] = {}
        self._cut: dict[Value, tuple[Value, ...]] = {}

    def instead(self, value: Value) -> Value | None:
        """Return the rows of nodes that a value has, if it joins them."""
        if value.op not in ("call", "module") or not value.data:
            return None
        if value.name == "getitem" and value.args[0] in self._cut:
            return self._cut[value.args[0]][value.args[1]]
        sources = [v for v in arguments_of(value) if v in self._joined]
        if not sources:
            self._begin(value)
            return None
        return self._of_joined(value, sources)

    # How several rows for each node begin

    def _begin(self, value: Value) -> None:
        """Note what a value with several rows for each node is made of."""
        example = value.example
        if not isinstance(example, torch.Tensor) or value.dims[:1] != (None,):
            return
        sources = [v for v in arguments_of(value) if _is_tensor(v)]
        if not sources or any(v.row_dim is None for v in sources):
            return
        found: _Joined | None = None
        if value.name in _JOINS and all(v.row_dim == 0 for v in sources):
            found = _Joined(tuple(sources), True)
        elif value.name in _REPEATS and sources[0].row_dim == 0:
            times = len(example) // len(sources[0].example)
            found = _Joined((sources[0],) * times, True)
        elif value.name in _RESHAPES and len(sources) == 1:
            found = self._taken_apart(value, sources[0])
        if found is not None:
            self._note(value, found)

    def _taken_apart(self, value: Value, source: Value) -> _Joined | None:
        """Cut a tensor into parts, for a view with more rows than nodes."""
        row = source.row_dim
        n = source.example.shape[row]
        rest = value.example.shape[1:]
        count, left = divmod(len(value.example), n)
        if left or row not in (0, 1):
            return None
        blocks = row == 1
        if not blocks and source.example.shape[1:] != (count, *rest):
            source = self._reshaped(source, ("N", count, *rest))
        if source.example.shape[1 - row] != count:
            return None
        every = slice(None)
        parts = tuple(
            self._call(
                torch.Tensor.__getitem__,
                (source, place if blocks else (every, place)), source,
            )
            for place in range(count)
        )  # fmt: skip
        return _Joined(parts, blocks)

    # What is done to them

    def _of_joined(self, value: Value, sources: list[Value]) -> Value | None:
        """Do to each part what is done to the joined rows, or join them."""
        joined = self._joined[sources[0]]
        tensors = [part.example for part in joined.parts]
        example = value.example
        if isinstance(example, (tuple, list)):
            if _all_equal(list(example), tensors):
                self._cut[value] = joined.parts
            return None
        if not isinstance(example, torch.Tensor):
            return None
        if value.name == "getitem":
            same = {p for p in joined.parts if _equal(p.example, example)}
            return same.pop() if len(same) == 1 else None
        if value.name in _RESHAPES and value.row_dim is not None:
            stacked = joined.stack(tensors)
            fits = stacked.numel() == example.numel()
            if fits and _equal(stacked.reshape(example.shape), example):
                return self._stacked(value, joined)
        self._each(value, sources)
        return None

    def _stacked(self, value: Value, joined: _Joined) -> Value:
        """Join the rows of each node again."""
        dim = 0 if joined.blocks else 1
        stacked = self._call(
            torch.stack, (list(joined.parts), dim), joined.parts[0]
        )
        if stacked.dims == value.dims:
            return stacked
        return self._reshaped(stacked, value.dims)

    def _each(self, value: Value, sources: list[Value]) -> None:
        """Call an operation on each part instead of on all rows."""
        joined = self._joined[sources[0]]
        alike = all(
            self._joined[v].blocks == joined.blocks
            and len(self._joined[v].parts) == len(joined.parts)
            for v in sources
        )
        others = [v for v in arguments_of(value) if v.data and v not in sources]
        random = value.draws and value.name not in DROPOUTS
        if not alike or others or random or self._pools(value):
            return
        made = []
        try:
            for place in range(len(joined.parts)):
                args, kwargs = self._at(place, value)
                example = self._run(value, args, kwargs)
                made.append((args, kwargs, example))
        except Exception:
            # It is refused later, as an operation on too many rows.
            return
        whole = joined.join([example for _, _, example in made])
        if not _equal(whole, value.example):
            return
        parts = tuple(
            self._added(
                replace(
                    value, args=args, kwargs=kwargs, example=example,
                    dims=("N", *value.dims[1:]),
                )
            )
            for args, kwargs, example in made
        )  # fmt: skip
        self._joined[value] = _Joined(parts, joined.blocks)

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
            if isinstance(leaf, Value) and leaf in self._joined:
                return self._joined[leaf].parts[place]
            return leaf

        return replace_leaves((value.args, value.kwargs), part)

    def _note(self, value: Value, joined: _Joined) -> None:
        """Remember parts, if they are those of the value on the probe."""
        tensors = [part.example for part in joined.parts]
        n = {len(tensor) for tensor in tensors}
        if len(n) == 1 and _equal(joined.join(tensors), value.example):
            self._joined[value] = joined

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
