"""Evaluating a model at some nodes, with their exact neighbourhoods.

The rows of some nodes depend on the nodes from which they can be reached in as
many hops as the model has aggregations. Filters are applied on the edges into
these nodes. Degrees, norms and edge weights are those of the whole graph: they
are evaluated there, and the rows of these nodes and edges are taken.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import dgl
import torch
from dgl import DGLError

from .apply_words import apply_word
from .evaluate import Evaluator
from .filter_words import Aggregate, Letter, Polynomial, Word, degree
from .find_filters import FilterFinder
from .model_inputs import Input
from .polynomials import PolynomialFinder
from .pushed import Pushed
from .recognise import OperationKinds
from .refusals import LCError
from .tracing.model_call import ModelCall
from .tracing.values import Value, after_parts, arguments_of, values_in

#: Nodes, edges and bytes of values that a neighbourhood may have.
MAX_NODES, MAX_EDGES, MAX_BYTES = 200_000, 5_000_000, 2**30


class Parts:
    """Says what each value of a model is computed from, at some nodes."""

    def __init__(self, pushed: Pushed, kinds: OperationKinds) -> None:
        self._filters = FilterFinder(pushed.trace)
        self._polynomials = PolynomialFinder(
            self._filters, fold=bool(pushed.folded)
        )
        self._kinds = kinds
        self._depths: dict[int, int] = {}

    def letter(self, value: Value) -> tuple[Value, Letter] | None:
        """Return (source, letter) if a value is a letter times a source."""
        if not value.data or value.trouble:
            return None
        if not value.static:
            folded = self._polynomials.foldable(value)
            if folded is not None:
                source, word = folded
                one = word[0] if len(word) == 1 else Polynomial(((1.0, word),))
                return source, one
        return self._filters.letter(value)

    def of(self, value: Value) -> list[Value] | None:
        """Return the values to compute it from; None: on the whole graph."""
        found = self.letter(value)
        if found is not None:
            return [found[0]]
        # A number that is computed from a size is a size as well.
        size = value.op == "call" and isinstance(value.example, int)
        if not value.data or not value.static or size:
            return arguments_of(value)
        return arguments_of(value) if self._is_row_wise(value) else None

    def _is_row_wise(self, value: Value) -> bool:
        """Return whether a static value is computed row by row."""
        if value.op not in ("call", "module") or value.row_dim is None:
            return False
        if any("E" in v.dims or v.op == "number" for v in arguments_of(value)):
            return False
        try:
            self._kinds.of(value)
        except LCError:
            return False
        return True

    def depth(self, value: Value) -> int:
        """Return how many hops away nodes are that a value depends on."""

        def count(value: Value) -> int:
            found = self.letter(value)
            if found is not None:
                source, letter = found
                return degree((letter,)) + self._depths[source.id]
            inside = self.of(value) or []
            return max((self._depths[v.id] for v in inside), default=0)

        return after_parts(
            value, self._depths, lambda v: self.of(v) or [], count
        )

    def reached(self, values: list[Value]) -> Iterator[Value]:
        """Yield all values that some values are computed from."""
        seen: set[int] = set()
        pending = list(values)
        while pending:
            value = pending.pop()
            if value.id not in seen:
                seen.add(value.id)
                pending.extend(self.of(value) or [])
                yield value


class NodeEvaluator(Evaluator):
    """Evaluates all values of a model at some nodes.

    Parameters
    ----------
    nodes : Tensor or None
        Nodes whose rows are asked for; None: all nodes.

    Attributes
    ----------
    size : int
        Number of nodes of the neighbourhood.
    hops : int
        Number of hops that it reaches.
    """

    def __init__(
        self, call: ModelCall, parts: Parts, outputs: list[Value],
        inputs: list[Input], nodes: torch.Tensor | None,
    ) -> None:  # fmt: skip
        super().__init__(call)
        self._parts = parts
        self._whole = Evaluator(call)
        self._seeds = nodes
        self._nodes: torch.Tensor | None = None
        self._edges: dict[Any, torch.Tensor] = {}
        self._local: dict[Any, dgl.DGLGraph] = {}
        self._graph_of: dict[Value, Any] = {}
        words = [entry.word for entry in inputs]
        sources = [*outputs, *(entry.value for entry in inputs)]
        row = 0
        for value in parts.reached(sources):
            if value.row_dim is not None:
                row += (
                    value.example.nbytes // value.example.shape[value.row_dim]
                )
            found = parts.letter(value)
            if found is not None:
                words.append((found[1],))
        for word in words:
            self._note_weights(word)
        depths = [parts.depth(value) for value in outputs]
        depths += [degree(e.word) + parts.depth(e.value) for e in inputs]
        self.hops = max(depths)
        self.size = call.num_nodes
        if nodes is not None:
            self._grow(nodes, min(MAX_NODES, MAX_BYTES // max(row, 1)))

    def rows(self, value: Value) -> Any:
        """Return a value at the nodes that were asked for."""
        return self.at_nodes(self(value), value)

    def at_nodes(self, result: Any, value: Value) -> Any:
        """Take the rows that were asked for of a result."""
        if self._seeds is None or value.row_dim is None:
            return result
        # The nodes that were asked for come first in the neighbourhood.
        return result.narrow(value.row_dim, 0, len(self._seeds))

    def input_rows(self, entry: Input) -> torch.Tensor:
        """Return an input of the LC version at the nodes asked for."""
        rows = apply_word(entry.word, self(entry.value), self)
        return self.at_nodes(rows, entry.value)

    def graph(self, key: Any) -> dgl.DGLGraph:
        """Return the edges into the nodes of the neighbourhood."""
        whole = self._whole.graph(key)
        return whole if self._nodes is None else self._local[key]

    def __call__(self, value: Value) -> Any:
        """Evaluate a value at the nodes of the neighbourhood."""
        return after_parts(
            value, self._values, lambda v: self._parts.of(v) or [],
            self._evaluate,
        )  # fmt: skip

    def _evaluate(self, value: Value) -> Any:
        found = self._parts.letter(value)
        if found is not None:
            source, letter = found
            return apply_word((letter,), self._values[source.id], self)
        if value.op == "number" and value.target == "N":
            return self.size
        if self._parts.of(value) is None:
            return self._cut(self._whole(value), value)
        if value.op in ("input", "graph"):
            return self._cut(self._whole(value), value)
        return super()._evaluate(value)

    def _cut(self, result: Any, value: Value) -> Any:
        """Take the rows of the neighbourhood's nodes and edges."""
        if self._nodes is None or not isinstance(result, torch.Tensor):
            return result
        for dim, size in enumerate(value.dims):
            if size == "N":
                nodes = self._nodes.to(result.device)
                result = result.index_select(dim, nodes)
            elif size == "E" and value in self._graph_of:
                edges = self._edges[self._graph_of[value]]
                result = result.index_select(dim, edges.to(result.device))
        return result

    # The neighbourhood

    def _note_weights(self, word: Word) -> None:
        """Remember which graph's edges each weight belongs to."""
        for letter in word:
            if isinstance(letter, Polynomial):
                for _, inner in letter.terms:
                    self._note_weights(inner)
            elif isinstance(letter, Aggregate):
                self._local[letter.graph] = None  # type: ignore[assignment]
                if letter.weight is None:
                    continue
                key = self._graph_of.setdefault(letter.weight, letter.graph)
                if key != letter.graph:
                    raise DGLError(
                        "drift: the same edge weights are used on two graphs, "
                        "for which no sample of nodes can be taken. Compare "
                        "on a graph of at most 1,000 nodes."
                    )

    def _grow(self, seeds: torch.Tensor, limit: int) -> None:
        """Find the nodes that are reached, and the edges into them."""
        graphs = {key: self._whole.graph(key) for key in self._local}
        nodes = seeds
        inner = seeds
        for _ in range(self.hops):
            inner = nodes
            _check_edges(graphs.values(), nodes)
            sources = [g.in_edges(_ids(nodes, g))[0] for g in graphs.values()]
            more = torch.cat([nodes, *(s.to(nodes) for s in sources)])
            nodes = _new_last(nodes, more)
            if len(nodes) > limit:
                raise TooLargeError
        place = torch.full((self.call.num_nodes,), -1, dtype=torch.int64)
        place[nodes] = torch.arange(len(nodes))
        for key, graph in graphs.items():
            u, v, ids = graph.in_edges(_ids(inner, graph), form="all")
            # Edges keep their order, in which sums are computed.
            order = ids.argsort()
            u, v, ids = (ends[order].cpu().long() for ends in (u, v, ids))
            self._edges[key] = ids
            local = dgl.graph((place[u], place[v]), num_nodes=len(nodes))
            self._local[key] = local.astype(graph.idtype).to(graph.device)
        self._nodes, self.size = nodes, len(nodes)


class TooLargeError(Exception):
    """Raised where a neighbourhood has too many nodes or edges."""


def _check_edges(graphs: Iterable[dgl.DGLGraph], nodes: torch.Tensor) -> None:
    for graph in graphs:
        if int(graph.in_degrees(_ids(nodes, graph)).sum()) > MAX_EDGES:
            raise TooLargeError


def _ids(nodes: torch.Tensor, graph: dgl.DGLGraph) -> torch.Tensor:
    return nodes.to(graph.device, graph.idtype)


def _new_last(known: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    """Return known nodes first, then those that are new, each once."""
    fresh = more.unique()
    fresh = fresh[~torch.isin(fresh, known)]
    return torch.cat([known, fresh])


def output_values(pushed: Pushed) -> list[Value]:
    """Return the values that the model returns."""
    return values_in(pushed.trace.output)
