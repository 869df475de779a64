"""Evaluating values of edges of a graph on disk, some edges at a time."""

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...storage.keys import memory_map
from .. import causes
from ..filter_words import Aggregate
from ..refusals import refuse, refuse_value
from ..tracing.values import (
    Value,
    after_parts,
    arguments_of,
    callable_of,
    replace,
)
from .graph_views import EdgeChunk, GraphView, edge_chunks, loop_chunks
from .rowwise_values import EDGES, FIXED, NODES, domain, row_bytes, width

if TYPE_CHECKING:
    from .static_values import StaticValues

#: DGL's names of operations on both ends of an edge.
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "dot": operator.mul,
    "copy_lhs": lambda left, _: left,
    "copy_rhs": lambda _, right: right,
}

#: Operations whose results are summed over edges by the engine.
_SUMMED = ("copy_lhs", "copy_rhs", "mul", "div")

#: Functions of all numbers of a tensor, by those of parts and their results.
_REDUCTIONS = {
    "any": "any", "all": "all", "min": "min", "max": "max", "amin": "min",
    "amax": "max", "sum": "sum", "mean": "sum",
}  # fmt: skip

_WRITE_WEIGHTS = (
    "Write the weights into the graph with build_disk_graph(weights=), and "
    'read them as g.edata["weight"] (the name in graph.sample()) or as an '
    "argument, for which precompute takes edge_weight=disk_graph.weights"
)


class EdgeValues:
    """Evaluates values of edges: weights from degrees, sums over edges."""

    def __init__(self, values: "StaticValues") -> None:
        self._values = values

    # What can be computed

    def check(self, value: Value) -> None:
        """Refuse a value of edges that can't be computed."""
        values = self._values
        if width(value) > 1:
            refuse_value(
                causes.NOT_ON_DISK,
                value,
                "has several numbers for each edge, which is not known for a "
                "graph on disk",
                "Use one number for each edge",
            )
        if value.op == "input":
            self._check_input(value)
        elif value.op == "edges":
            for arg in arguments_of(value):
                if domain(arg) != FIXED and width(arg) > 1:
                    refuse_value(
                        causes.NOT_ON_DISK,
                        value,
                        "is computed from rows of features, which is not "
                        "known for a graph on disk",
                        _WRITE_WEIGHTS,
                    )
            self._values.view(value.target[0])
        elif not values.mode(value, EDGES):
            refuse_value(
                causes.NOT_ON_DISK,
                value,
                "depends on several edges at once, which is not known for a "
                "graph on disk",
                _WRITE_WEIGHTS,
            )

    def _check_input(self, value: Value) -> None:
        target = value.target
        if isinstance(target, str):
            given = self._values.call.inputs[target]
            graphs = self._values.call.graphs.values()
            if any(_is_weights(given, graph.weights) for graph in graphs):
                return
            refuse(
                causes.NOT_ON_DISK,
                "",
                target,
                "has a number for each edge, and the edges of a graph on disk "
                "are in an order of their own",
                _WRITE_WEIGHTS,
            )
        _, key, name = target
        view = self._values.view(key)
        if name != "weight" or view.graph.weights is None:
            has = "weights" if view.graph.weights is not None else "no weights"
            refuse(
                causes.NOT_ON_DISK,
                value.where,
                f"g.edata[{name!r}]",
                f"is read by the model, but {view.graph} has {has}, which "
                f'are read as g.edata["weight"]',
                _WRITE_WEIGHTS,
            )

    def check_sum(self, value: Value) -> None:
        """Refuse a sum over edges that can't be computed."""
        key, op, reduce = value.target
        self._values.view(key)
        if reduce != "sum" or op not in _SUMMED:
            refuse(
                causes.NOT_ON_DISK,
                value.where,
                f"message passing ({op}, {reduce})",
                "is not known for a graph on disk",
                "Use sums or means, or compute it before the model is called",
            )
        if op == "copy_rhs" and width(value) > 1:
            refuse(
                causes.NOT_ON_DISK,
                value.where,
                "a sum of values of edges",
                "has several numbers for each edge, which is not known for a "
                "graph on disk",
                "Use one number for each edge",
            )

    def is_plain(self, value: Value) -> bool:
        """Tell whether edge weights are those of the graph on disk."""
        while (
            value.op == "call"
            and value.args
            and value.name
            in (
                "reshape",
                "view",
                "unsqueeze",
                "squeeze",
                "flatten",
                "to",
                "float",
                "double",
                "contiguous",
            )
        ):
            value = value.args[0]
        return value.op == "input"

    # Computing

    def chunk_bytes(self, value: Value | None) -> int:
        """Count the bytes per edge of all that a value is computed from."""
        total, pending = 64, [] if value is None else [value]
        while pending:
            top = pending.pop()
            if domain(top) == EDGES:
                total += 2 * row_bytes(top) + 32
                pending += arguments_of(top)
        return total

    def on(self, value: Value, chunk: EdgeChunk) -> torch.Tensor:
        """Compute a value of some edges, flat."""
        known: dict[int, Any] = {}

        def parts(value: Value) -> list[Value]:
            return [a for a in arguments_of(value) if domain(a) == EDGES]

        def compute(value: Value) -> torch.Tensor:
            shape = (len(chunk), *value.dims[1:])
            if value.op == "input":
                assert chunk.weight is not None
                return chunk.weight.to(value.example.dtype).reshape(shape)
            if value.op == "edges":
                return self._ends(value, chunk, known).reshape(shape)

            def take(leaf: Any) -> Any:
                if isinstance(leaf, Value):
                    if leaf.id in known:
                        return known[leaf.id]
                    sizes = self._values.mode(value, EDGES) == "sizes"
                    if leaf.op == "number" and leaf.target != "N" and sizes:
                        return len(chunk)
                return self._values._argument(leaf)

            args, kwargs = replace((value.args, value.kwargs), take)
            function = callable_of(value, self._values.call.model)
            return function(*args, **kwargs)

        return after_parts(value, known, parts, compute).reshape(-1)

    def _ends(
        self, value: Value, chunk: EdgeChunk, known: dict[int, Any]
    ) -> torch.Tensor:
        """Compute a value of edges from numbers of their ends."""
        key, op, left, right = value.target
        view = self._values.view(key)
        ends = {"u": chunk.source, "v": chunk.target}
        if view.reversed:
            ends = {"u": chunk.target, "v": chunk.source}
        found: list[torch.Tensor | None] = []
        for side, arg in zip((left, right), value.args, strict=True):
            if arg is None:
                found.append(None)
            elif side == "e":
                found.append(known[arg.id].reshape(-1))
            else:
                numbers = self._values.vector(arg).reshape(-1)
                found.append(numbers[ends[side]])
        return _OPERATIONS[op](*found)

    def prepare(self, value: Value) -> None:
        """Compute the numbers of nodes that a value of edges needs."""
        pending = [value]
        while pending:
            top = pending.pop()
            for arg in arguments_of(top):
                if domain(arg) == EDGES:
                    pending.append(arg)
                elif domain(arg) == NODES:
                    self._values.vector(arg)

    def sum_vector(self, value: Value) -> torch.Tensor:
        """Sum numbers over the incoming edges of each node."""
        key, op, _ = value.target
        view, n = self._values.view(key), self._values.num_nodes
        lhs, rhs = value.args
        numbers = None
        if op != "copy_rhs":
            numbers = self._values.vector(lhs).reshape(-1)
        if rhs is not None:
            self.prepare(rhs)
        memory = self._values.memory
        with memory.holding(8 * n, f"sums over edges ({value.name})"):
            total = torch.zeros(n, dtype=torch.float64)
            size = memory.chunk_rows(self.chunk_bytes(rhs), "reading edges")
            for chunk, times in self.chunks(view, size):
                source, target = chunk.source, chunk.target
                if view.reversed:
                    source, target = target, source
                message = None if numbers is None else numbers[source]
                if rhs is not None:
                    weight = self.on(rhs, chunk)
                    how = "copy_rhs" if message is None else op
                    message = _OPERATIONS[how](message, weight)
                assert message is not None
                total.index_add_(0, target, times * message.double())
            shape = (n, *value.dims[1:])
            return total.to(value.example.dtype).reshape(shape)

    def apply(self, letter: Aggregate, columns: torch.Tensor) -> torch.Tensor:
        """Apply a filter to columns of numbers, some edges at a time."""
        view, weight = self._values.view(letter.graph), letter.weight
        if weight is not None:
            self.prepare(weight)
        total = torch.zeros_like(columns)
        per_edge = self.chunk_bytes(weight) + 16 * columns.shape[1]
        size = self._values.memory.chunk_rows(per_edge, "reading edges")
        for chunk, times in self.chunks(view, size):
            source, target = chunk.source, chunk.target
            if view.reversed:
                source, target = target, source
            message = times * columns[source]
            if weight is not None:
                factor = self.on(weight, chunk).to(columns).unsqueeze(1)
                factor = 1 / factor if letter.inverse else factor
                message = message * factor
            total.index_add_(0, target, message)
        return total

    def is_reduction(self, value: Value) -> bool:
        """Tell whether a value is one number of all edges, such as a sum."""
        return (
            value.op == "call"
            and value.name in _REDUCTIONS
            and len(value.args) == 1
            and not value.kwargs
            and isinstance(value.args[0], Value)
            and domain(value.args[0]) == EDGES
        )

    def reduce(self, value: Value) -> torch.Tensor:
        """Compute one number of all edges, some edges at a time."""
        (inner,) = value.args
        view = self._values.view(self._key_of(inner))
        reduce = getattr(torch, _REDUCTIONS[value.name])
        self.prepare(inner)
        size = self._values.memory.chunk_rows(
            self.chunk_bytes(inner), "reading edges"
        )
        found, count = [], 0
        for chunk, times in self.chunks(view, size):
            if len(chunk):
                part = reduce(self.on(inner, chunk))
                is_sum = _REDUCTIONS[value.name] == "sum"
                found.append(part.double() * times if is_sum else part)
                count += times * len(chunk)
        total = reduce(torch.stack(found))
        if value.name == "mean":
            total = total / count
        return total.to(value.example.dtype)

    def _key_of(self, value: Value) -> Any:
        """Return the key of the graph whose edges a value is of."""
        pending = [value]
        while pending:
            top = pending.pop()
            if top.op in ("edges", "aggregate", "softmax"):
                return top.target[0]
            if top.op == "input" and not isinstance(top.target, str):
                return top.target[1]
            if top.op == "number" and top.target != "N":
                return top.target[1]
            pending += arguments_of(top)
        return next(iter(self._values.call.graphs))

    def chunks(
        self, view: GraphView, size: int
    ) -> Iterator[tuple[EdgeChunk, int]]:
        """Read the edges of a view, with how often each chunk counts."""
        view.graph.check_edges()
        for chunk in edge_chunks(view.graph, 0, size):
            if view.drops_loops:
                kept = chunk.source != chunk.target
                weight = chunk.weight
                chunk = EdgeChunk(
                    chunk.source[kept],
                    chunk.target[kept],
                    None if weight is None else weight[kept],
                )
            yield chunk, 1
        if view.added_loops:
            n, weighted = view.graph.num_nodes(), view.graph.weights is not None
            for chunk in loop_chunks(n, size, weighted):
                yield chunk, view.added_loops

    def loop_weights(self, letter: Aggregate, nodes: torch.Tensor) -> Any:
        """Return the weight of an added self-loop of some nodes."""
        if letter.weight is None:
            return 1.0
        weight = torch.ones(len(nodes))
        found = self.on(letter.weight, EdgeChunk(nodes, nodes, weight))
        return 1 / found if letter.inverse else found


def is_filter(value: Value) -> bool:
    """Tell whether message passing is a sum of rows with one weight each."""
    _, op, reduce = value.target
    if reduce != "sum" or op not in _SUMMED or op == "copy_rhs":
        return False
    weight = value.args[1]
    return op == "copy_lhs" or width(weight) == 1


def _is_weights(given: Any, weights: np.ndarray | None) -> bool:
    """Tell whether an array is that of the weights of a graph on disk."""
    if weights is None or not isinstance(given, np.ndarray):
        return False
    mine, its = memory_map(given), memory_map(weights)
    if mine is None or its is None:
        return given is weights

    def place(array: np.ndarray, mapped: np.memmap) -> tuple:
        first = array.ctypes.data - mapped.ctypes.data + mapped.offset
        return str(mapped.filename), first, array.shape, array.strides

    return place(given, mine) == place(weights, its)
