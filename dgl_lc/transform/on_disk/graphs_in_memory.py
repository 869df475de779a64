"""The same steps on graphs in memory, whose features may be on disk."""

from collections.abc import Iterator
from typing import Any

import dgl
import numpy as np
import torch

from ...precompute.graph.in_edges import in_edges
from .. import causes
from ..apply_words import apply_word, edge_weight
from ..evaluate import Evaluator
from ..filter_words import Aggregate, NormedAggregate, Word
from ..memory_count import MemoryCount
from ..refusals import refuse_value
from ..tracing.model_call import ModelCall
from ..tracing.values import Value, arguments_of
from .edge_values import is_filter
from .engine_graphs import Spec, find_norm
from .rowwise_values import EDGES, domain, width
from .static_values import At, StaticValues


class ValuesInMemory(StaticValues):
    """Evaluates static values of a call whose graphs are in memory.

    What depends on the graph alone is computed as DGL does, and counted. Rows
    of features are computed in chunks.
    """

    on_disk = False

    def __init__(self, call: ModelCall, memory: MemoryCount) -> None:
        super().__init__(call, memory)
        self.plain = Evaluator(call, memory)
        self._needs_disk: dict[int, bool] = {}
        self._degrees: dict[Any, np.ndarray] = {}

    def _on_disk(self, value: Value) -> bool:
        """Tell whether a value depends on features that are on disk."""
        if value.id not in self._needs_disk:
            found = any(map(self._on_disk, arguments_of(value)))
            if value.op == "input" and isinstance(value.target, str):
                array = self.call.inputs[value.target]
                found = not isinstance(array, torch.Tensor)
            self._needs_disk[value.id] = found
        return self._needs_disk[value.id]

    def describe_graph(self, key: Any) -> Any:
        return in_edges(self.plain.graph(key)).key()

    def _check(self, value: Value) -> None:
        if not self._on_disk(value):
            return
        if domain(value) == EDGES or value.op in ("edges", "softmax"):
            refuse_value(
                causes.NOT_ON_DISK,
                value,
                "is a value of edges that is computed from features on disk",
                "Pass features in memory, or compute it before the model is "
                "called",
            )
        if value.op == "aggregate":
            self._edges.check_sum(value)
        elif value.op in ("call", "module"):
            self._check_call(value, domain(value))

    def view(self, key: Any) -> Any:
        return self.plain.graph(key)

    def apply_word(self, word: Word, columns: torch.Tensor) -> torch.Tensor:
        return apply_word(word, columns, self.plain)

    def degrees(self, key: Any, name: str, at: At) -> np.ndarray:
        if (key, name) not in self._degrees:
            self.memory.hold(8 * self.num_nodes, name)
            self._degrees[key, name] = self.plain.degrees(key, name).numpy()
        return self._degrees[key, name][at]

    def num_edges(self, key: Any) -> int:
        return self.plain.graph(key).num_edges()

    def _is_whole(self, value: Value) -> bool:
        """Tell whether a value is computed for all nodes, in memory."""
        if self._on_disk(value) or value.id in self.stored:
            return False
        given = value.op == "input" and not isinstance(value.target, str)
        if value.op == "aggregate" and not is_filter(value):
            return True
        return given or width(value) == 1 or value.op == "graph"

    def in_steps(self, value: Value) -> bool:
        return super().in_steps(value) and is_filter(value)

    def _whole(self, value: Value) -> Any:
        return self.plain(value)

    def vector(self, value: Value) -> torch.Tensor:
        if self._on_disk(value):
            return super().vector(value)
        return self.plain(value)

    def fixed(self, value: Value) -> Any:
        if self._on_disk(value):
            return super().fixed(value)
        return self.plain(value)

    def forget(self) -> None:
        super().forget()
        self.plain.forget()


class EngineInMemory:
    """Finds the engine's options for filters on graphs in memory."""

    def __init__(self, values: ValuesInMemory) -> None:
        self._values = values
        self._specs: dict[NormedAggregate, Spec] = {}

    def spec(self, unit: NormedAggregate) -> Spec:
        """Return the options for a filter."""
        if unit not in self._specs:
            norm = find_norm(unit, self._values)
            found = norm is not None
            self._specs[unit] = Spec(norm or "none", False, found, False)
        return self._specs[unit]

    def graph(self, letter: Aggregate) -> tuple[dgl.DGLGraph, Any]:
        """Return the graph and the ``edge_weight`` that the engine takes."""
        graph = self._values.plain.graph(letter.graph)
        if letter.weight is None:
            return graph, False
        return graph, edge_weight(letter, self._values.plain)

    sizes = graph

    def describe(self, letter: Aggregate) -> Iterator[Any]:
        """Yield what stands for a letter in keys."""
        graph, weight = self.graph(letter)
        yield in_edges(graph).key(weight if letter.weight is not None else None)
        self._values.forget()


def is_in_memory(call: ModelCall) -> bool:
    """Tell whether all graphs of a call are in memory."""
    return all(isinstance(g, dgl.DGLGraph) for g in call.graphs.values())
