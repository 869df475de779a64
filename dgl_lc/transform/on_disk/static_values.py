"""Evaluating static values in chunks: degrees, norms, weights, features.

A value with a row for each node is computed for some rows at a time, from the
files of the graph and of the features. Only a number for each node (a degree,
a norm) is ever held for all nodes, and counted; values of edges are computed
for some edges at a time.
"""

from typing import Any

import numpy as np
import torch

from ...storage.disk_features import DiskFeatures
from .. import causes
from ..evaluate import refuse_trouble
from ..filter_words import Aggregate, Letter, Polynomial, Word
from ..memory_count import MemoryCount
from ..refusals import refuse, refuse_value
from ..tracing.model_call import ModelCall
from ..tracing.values import (
    Value,
    after_parts,
    arguments_of,
    callable_of,
    in_evaluation,
    replace,
)
from .edge_values import EdgeValues
from .graph_views import GraphView
from .rowwise_values import (
    EDGES,
    FIXED,
    NODES,
    OTHER,
    domain,
    row_bytes,
    width,
    works_in_chunks,
)

#: Which rows: a range of them, or their ids.
At = slice | np.ndarray

_OUTSIDE = (
    "Compute it before the model is called, and pass it to forward with the "
    "features"
)


class StaticValues:
    """Evaluates static values of a call whose graphs are on disk."""

    #: Whether the graphs are on disk.
    on_disk = True

    def __init__(self, call: ModelCall, memory: MemoryCount) -> None:
        self.call, self.memory = call, memory
        self.num_nodes = call.num_nodes
        #: Values of many columns that a step has computed, by their ids.
        self.stored: dict[int, Any] = {}
        self._modes: dict[tuple[int, str], str | None] = {}
        self._fixed: dict[int, Any] = {}
        self._vectors: dict[int, torch.Tensor] = {}
        self._sizes: dict[int, int] = {}
        self._checked: set[int] = set()
        self._views: dict[Any, GraphView] = {}
        self._edges = EdgeValues(self)

    def view(self, key: Any) -> GraphView:
        """Return a graph of the call, or one derived from it."""
        if key not in self._views:
            self._views[key] = GraphView.of(key, self.call.graphs)
        return self._views[key]

    def describe_graph(self, key: Any) -> Any:
        """Return what stands for a graph in keys."""
        return self.view(key).describe()

    # What can be computed

    def check(self, value: Value) -> None:
        """Refuse a value that can't be computed, before any work."""
        pending = [value]
        while pending:
            top = pending.pop()
            if top.id in self._checked:
                continue
            self._checked.add(top.id)
            if top.trouble:
                refuse_trouble(top)
            self._check(top)
            pending += arguments_of(top)

    def _check(self, value: Value) -> None:
        kind = domain(value)
        if value.op == "aggregate":
            self._edges.check_sum(value)
        elif kind == EDGES:
            self._edges.check(value)
        elif value.op == "input":
            if not isinstance(value.target, str):
                kind, _, name = value.target
                refuse(
                    causes.NOT_ON_DISK,
                    value.where,
                    f"g.{kind}[{name!r}]",
                    "is read by the model, but a graph on disk has no "
                    "features of nodes",
                    "Let forward take the features as an argument, and pass "
                    "them to lc_transform and precompute",
                )
        elif value.op == "graph":
            self._check_method(value)
        elif value.op in ("call", "module"):
            self._check_call(value, kind)
        elif value.op not in ("number", "const", "param"):
            refuse_value(
                causes.NOT_ON_DISK, value, "can't be computed on disk", _OUTSIDE
            )

    def _check_method(self, value: Value) -> None:
        _, name = value.target
        known = (
            "in_degrees",
            "out_degrees",
            "nodes",
            "batch_num_nodes",
            "batch_num_edges",
        )
        if name == "is_multigraph":
            refuse(
                causes.NOT_ON_DISK,
                value.where,
                "g.is_multigraph",
                "is not known of a graph on disk",
                "Decide this when the model is made, and hold the answer as "
                "an attribute",
            )
        plain = name.startswith("batch_") or not (value.args or value.kwargs)
        if name not in known or not plain:
            refuse(
                causes.NOT_ON_DISK,
                value.where,
                f"g.{name}",
                "is called with arguments that are not known for a graph on "
                "disk",
                "Call it without arguments",
            )

    def _check_call(self, value: Value, kind: str) -> None:
        if kind == NODES and self.mode(value, NODES):
            return
        if self._edges.is_reduction(value):
            return
        for arg in arguments_of(value):
            its = domain(arg)
            if its == FIXED or (
                its in (NODES, OTHER)
                and width(arg) == 1
                and not {"E", None} & set(arg.dims)
            ):
                continue
            what = "edges" if "E" in arg.dims else "rows of the features"
            refuse_value(
                causes.NOT_ON_DISK,
                value,
                f"takes all {what} at once, which may not fit in memory for "
                f"a graph on disk",
                _OUTSIDE,
            )
        if kind != FIXED and width(value) > 1:
            refuse_value(
                causes.NOT_ON_DISK,
                value,
                "computes rows that depend on those of other nodes, which is "
                "not known on disk",
                _OUTSIDE,
            )

    def mode(self, value: Value, kind: str) -> str | None:
        """Tell how an operation works in chunks, if it does."""
        key = value.id, kind
        if key not in self._modes:
            found = None
            if value.op in ("call", "module"):
                found = works_in_chunks(value, kind, self.call.model)
            self._modes[key] = found
        return self._modes[key]

    def _in_chunks(self, value: Value) -> bool:
        """Tell whether rows of a value are computed from rows."""
        return bool(
            domain(value) == NODES
            and value.id not in self.stored
            and not self._is_whole(value)
            and self.mode(value, NODES)
        )

    def _is_whole(self, value: Value) -> bool:
        """Tell whether a value is computed for all nodes, by `_whole`."""
        return False

    def _whole(self, value: Value) -> Any:
        raise NotImplementedError

    def sums(self, value: Value) -> list[Value]:
        """Return the sums over edges that a value is computed from."""
        found: dict[int, Value] = {}
        seen: set[int] = set()
        pending = [value]
        while pending:
            top = pending.pop()
            if top.id in seen:
                continue
            seen.add(top.id)
            if top.op == "aggregate":
                found[top.id] = top
            pending += arguments_of(top)
        return list(found.values())

    def wide_sums(self, value: Value) -> list[Value]:
        """Return the sums over edges that are too large to be held."""
        found: dict[int, Value] = {}
        seen: set[int] = set()
        pending = [value]
        while pending:
            top = pending.pop()
            if top.id in seen:
                continue
            seen.add(top.id)
            if top.op == "aggregate" and not self.in_steps(top):
                continue
            if top.op == "aggregate" and width(top) > 1:
                found[top.id] = top
            pending += arguments_of(top)
        return list(found.values())

    def in_steps(self, value: Value) -> bool:
        """Tell whether the engine computes a value, in steps of its own.

        The engine has sums alone. The maximum over neighbours, for instance,
        is computed by DGL if the graph is in memory, and refused if not.
        """
        return value.op == "aggregate"

    def chunk_bytes(self, value: Value) -> int:
        """Count the bytes of a row of all that a value is computed from."""
        seen: set[int] = set()
        total, pending = 0, [value]
        while pending:
            top = pending.pop()
            if top.id in seen or domain(top) != NODES:
                continue
            seen.add(top.id)
            # Rows are gathered, and then converted.
            total += 2 * row_bytes(top) + 16
            if self._in_chunks(top):
                pending += arguments_of(top)
        return total

    # Rows, numbers and what is fixed

    def rows(self, value: Value, at: At) -> torch.Tensor:
        """Compute some rows of a value that has one for each node."""
        known: dict[int, Any] = {}
        length = len(at) if not isinstance(at, slice) else at.stop - at.start

        def parts(value: Value) -> list[Value]:
            if not self._in_chunks(value):
                return []
            return [a for a in arguments_of(value) if domain(a) == NODES]

        def compute(value: Value) -> Any:
            if value.id in self.stored:
                return self.stored[value.id](at).to(value.example.dtype)
            if self._is_whole(value):
                return self._whole(value)[at]
            if value.op == "input":
                array = self.call.inputs[value.target]
                return read_rows(array, at).to(value.example.dtype)
            if value.op == "graph":
                return self._of_nodes(value, at)
            if not self._in_chunks(value):
                return self.vector(value)[at]
            sizes = self.mode(value, NODES) == "sizes"

            def take(leaf: Any) -> Any:
                if isinstance(leaf, Value):
                    if leaf.id in known:
                        return known[leaf.id]
                    if leaf.op == "number" and leaf.target == "N" and sizes:
                        return length
                return self._argument(leaf)

            args, kwargs = replace((value.args, value.kwargs), take)
            return callable_of(value, self.call.model)(*args, **kwargs)

        return after_parts(value, known, parts, compute)

    def _of_nodes(self, value: Value, at: At) -> torch.Tensor:
        """Return degrees of nodes, or their ids."""
        key, name = value.target
        if name == "nodes":
            found = np.arange(self.num_nodes)[at]
        else:
            found = self.degrees(key, name, at)
        return torch.from_numpy(np.asarray(found)).to(value.example.dtype)

    def degrees(self, key: Any, name: str, at: At) -> np.ndarray:
        """Return the in_degrees or out_degrees of some nodes."""
        return self.view(key).degrees(name, at)

    def num_edges(self, key: Any) -> int:
        """Count the edges of a graph."""
        return self.view(key).num_edges()

    def vector(self, value: Value) -> torch.Tensor:
        """Compute a number for each node, which is held until `forget`."""
        if value.id not in self._vectors:
            n = self.num_nodes
            size = n * row_bytes(value)
            self.memory.hold(size, f"{value.name}, a number for each node,")
            self._sizes[value.id] = size
            self._vectors[value.id] = self._vector(value)
        return self._vectors[value.id]

    def _vector(self, value: Value) -> torch.Tensor:
        n = self.num_nodes
        if value.op == "aggregate":
            return self._edges.sum_vector(value)
        if self._in_chunks(value) or value.op in ("input", "graph"):
            sizes = [n if d == "N" else d for d in value.dims]
            found = torch.empty(sizes, dtype=value.example.dtype)
            step = self.memory.chunk_rows(
                self.chunk_bytes(value), f"computing {value.name}"
            )
            for low in range(0, n, step):
                own = slice(low, min(low + step, n))
                found[own] = self.rows(value, own)
            return found
        # An operation on whole columns may make a temporary of each.
        with self.memory.holding(2 * n * row_bytes(value), value.name):
            return self._call(value)

    def forget(self) -> None:
        """Drop the numbers of nodes that are held."""
        for size in self._sizes.values():
            self.memory.release(size)
        self._vectors.clear()
        self._sizes.clear()

    def fixed(self, value: Value) -> Any:
        """Compute a value that has no rows: a number, or a small tensor."""

        def parts(value: Value) -> list[Value]:
            return [a for a in arguments_of(value) if domain(a) == FIXED]

        return after_parts(value, self._fixed, parts, self._call)

    def _call(self, value: Value) -> Any:
        """Compute a value from all rows of its arguments."""
        if value.op == "number":
            target = value.target
            if target == "N":
                return self.num_nodes
            return self.num_edges(target[1])
        if value.op == "const":
            return value.example
        if value.op == "param":
            state = self.call.model.state_dict(keep_vars=True)
            return state[value.target].detach()
        if value.op == "graph":
            key, name = value.target
            nodes = name == "batch_num_nodes"
            count = self.num_nodes if nodes else self.num_edges(key)
            return torch.tensor([count], dtype=value.example.dtype)
        if self._edges.is_reduction(value):
            return self._edges.reduce(value)
        args, kwargs = replace((value.args, value.kwargs), self._argument)
        return callable_of(value, self.call.model)(*args, **kwargs)

    def _argument(self, leaf: Any) -> Any:
        if not isinstance(leaf, Value):
            return in_evaluation(leaf)
        return self.fixed(leaf) if domain(leaf) == FIXED else self.vector(leaf)

    # Values of edges

    @property
    def edges(self) -> EdgeValues:
        """What evaluates values of edges."""
        return self._edges

    def apply_word(self, word: Word, columns: torch.Tensor) -> torch.Tensor:
        """Apply a word to columns of numbers, to compare it with another."""
        with self.memory.holding(6 * columns.nbytes, "comparing filters"):
            for letter in reversed(word):
                columns = self._apply_letter(letter, columns)
        self.forget()
        return columns

    def _apply_letter(
        self, letter: Letter, columns: torch.Tensor
    ) -> torch.Tensor:
        if isinstance(letter, Aggregate):
            if letter.weight is not None:
                self.check(letter.weight)
            return self._edges.apply(letter, columns)
        if isinstance(letter, Polynomial):
            total = torch.zeros_like(columns)
            for coefficient, word in letter.terms:
                total += coefficient * self.apply_word(word, columns)
            return total
        self.check(letter.factor)
        factor = self.vector(letter.factor).reshape(-1, 1).to(columns)
        return columns / factor if letter.inverse else columns * factor

    def __call__(self, value: Value) -> Any:
        """Evaluate a number, for the branches that a model takes."""
        self.check(value)
        try:
            return self.fixed(value)
        finally:
            self.forget()


def read_rows(array: Any, at: At) -> torch.Tensor:
    """Read some rows of a tensor, an array or features on disk."""
    if isinstance(array, DiskFeatures):
        if isinstance(at, slice):
            at = np.arange(at.start, at.stop)
        return array.rows(torch.from_numpy(np.asarray(at)))
    if isinstance(array, torch.Tensor):
        if not isinstance(at, slice):
            at = torch.from_numpy(np.asarray(at))  # type: ignore[assignment]
        return array[at]
    return torch.from_numpy(np.array(array[at]))
