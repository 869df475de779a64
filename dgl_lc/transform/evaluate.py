"""Evaluating static values: degrees, norms, edge weights, features."""

from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

import dgl
import numpy as np
import torch
from dgl.base import ALL

from ..precompute.graph.in_edges import in_edges
from . import causes
from .matrix_filters import graph_of_matrix
from .memory_count import MemoryCount
from .refusals import refuse, refuse_value
from .scattered_edges import graph_of_indices
from .tracing.graph_tracer import edge_softmax, gsddmm, gspmm
from .tracing.graph_transforms import COMPUTED, compute_graph
from .tracing.model_call import ModelCall
from .tracing.values import (
    Guard,
    PerNode,
    Value,
    after_parts,
    arguments_of,
    callable_of,
    in_evaluation,
    replace,
    tensors_in,
)

#: Bytes that reading a slice of edges takes.
_SLICE = 1 << 22


class Evaluator:
    """Evaluates static values for one call of the model, each once.

    Parameters
    ----------
    memory : MemoryCount, optional
        Count of the bytes that values and derived graphs take.
    """

    def __init__(
        self, call: ModelCall, memory: MemoryCount | None = None
    ) -> None:
        self.call = call
        self.memory = memory or MemoryCount(None)
        self._held = 0
        self._values: dict[int, Any] = {}
        self._graphs: dict[Any, dgl.DGLGraph] = {}
        self._sorted: set[Any] = set()
        self._degrees: dict[tuple, torch.Tensor] = {}
        self._params = {
            **dict(call.model.named_parameters(remove_duplicate=False)),
            **dict(call.model.named_buffers(remove_duplicate=False)),
        }

    def graph(self, key: Any) -> dgl.DGLGraph:
        """Return a graph of the call, or one derived from it."""
        if isinstance(key, str):
            return self.call.graphs[key]
        if key not in self._graphs:
            name, base, args, kwargs = key
            # DGL lists the edges, copies them, and sorts what it needs.
            source = self.graph(base)
            made = graph_bytes(source)
            with self.memory.holding(2 * made, f"the graph of {name}"):
                found = self._derive(name, source, args, kwargs)
            self.memory.hold(graph_bytes(found), f"the graph of {name}")
            self._graphs[key] = found
        return self._graphs[key]

    def _derive(
        self, name: str, source: dgl.DGLGraph, args: Any, kwargs: tuple
    ) -> dgl.DGLGraph:
        """Derive a graph from another."""
        if name == "matrix":
            return graph_of_matrix(self(args))
        if name == "indexed":
            ends = [self(end) for end in args]
            return graph_of_indices(ends[0], ends[1], source)
        if name in COMPUTED:
            # Most of these make matrices of nodes by nodes.
            size = 16 * source.num_nodes() ** 2
            with self.memory.holding(size, f"the graph of {name}"):
                return compute_graph(name, args, source)
        # Masks and ids of edges are static values.
        args, kwargs = replace((args, kwargs), self._static_argument)
        return getattr(dgl, name)(source, *args, **dict(kwargs))

    def _static_argument(self, leaf: Any) -> Any:
        return self(leaf) if isinstance(leaf, Value) else leaf

    def degrees(self, key: Any, name: str) -> torch.Tensor:
        """Count the edges of each node.

        DGL would sort all edges for it, and keep them. Where memory counts,
        the degrees that the engine needs anyway are taken.
        """
        graph = self.graph(key)
        if not self.memory.is_limited:
            # Every layer asks for them, and DGL would count them again.
            if (key, name) not in self._degrees:
                self._degrees[key, name] = getattr(graph, name)()
            return self._degrees[key, name]
        edges = in_edges(graph)
        if key not in self._sorted:
            # Nodes by their edges, and a slice of edges while they are read.
            self._sorted.add(key)
            size = 16 * graph.num_nodes()
            with self.memory.holding(size + _SLICE, f"counting {name}"):
                edges.count_edges(np.zeros(1, np.int32))
            self.memory.hold(size, f"counting {name}")
        if name == "in_degrees":
            found = np.diff(edges.indptr)
        else:
            found = edges.out_edges
        return torch.from_numpy(found).to(graph.idtype)

    def __call__(self, value: Value) -> Any:
        """Evaluate a static value, and its arguments before it."""
        return after_parts(value, self._values, arguments_of, self._counted)

    def forget(self) -> None:
        """Drop all values that are kept."""
        self._values.clear()
        self._degrees.clear()
        self.memory.release(self._held)
        self._held = 0

    def _counted(self, value: Value) -> Any:
        """Compute a value, and count its bytes and those of temporaries."""
        if value.op in ("input", "const", "param", "number"):
            return self._evaluate(value)
        what = f"computing {value.name}"
        if value.op in ("aggregate", "edges", "softmax"):
            self._count_formats(value.target[0])
        with self.memory.holding(2 * self._bytes(value), what):
            found = self._evaluate(value)
        # A view of another tensor takes nothing, which is not known here.
        size = sum(map(_tensor_bytes, tensors_in(found)))
        self.memory.hold(size, what)
        self._held += size
        return found

    def _count_formats(self, key: Any) -> None:
        """Count the edges that DGL sorts for message passing, and keeps."""
        if ("formats", key) not in self._sorted:
            self._sorted.add(("formats", key))
            size = graph_bytes(self.graph(key))
            with self.memory.holding(size, "edges that DGL sorts"):
                pass
            self.memory.hold(size, "edges that DGL sorts")

    def _bytes(self, value: Value) -> int:
        """Count the bytes of a value, before it is computed."""
        if not isinstance(value.example, torch.Tensor):
            return 0
        graphs = [*self.call.graphs.values(), *self._graphs.values()]
        nodes = self.call.num_nodes
        edges = max(graph.num_edges() for graph in graphs)
        if value.example.layout is not torch.strided:
            # A matrix of the graph has a number and two ids for each edge.
            return (edges + nodes) * (value.example.element_size() + 16)
        # A size that is not known may be that of edges in both directions,
        # with a self-loop for each node.
        sizes = {"N": nodes, "E": edges, None: 2 * edges + nodes}

        def size(dim: Any) -> int:
            if isinstance(dim, PerNode):
                return dim.rows * nodes
            return sizes.get(dim, dim)

        if value.example.layout != torch.strided:
            # Both indices of each entry, of which there are about as many as
            # edges, and its value.
            return (edges + nodes) * (16 + value.example.element_size())
        return prod(map(size, value.dims)) * value.example.element_size()

    def _evaluate(self, value: Value) -> Any:
        """Compute a value from the values of its arguments."""
        if value.trouble:
            refuse_trouble(value)
        args, kwargs = replace((value.args, value.kwargs), self._argument)
        if value.op in ("aggregate", "edges", "softmax"):
            args = [arg if arg is None else arg.contiguous() for arg in args]
        target = value.target
        if value.op == "input":
            return self._input(target)
        if value.op == "number":
            if target == "N":
                return self.call.num_nodes
            return self.graph(target[1]).num_edges()
        if value.op == "const":
            return value.example
        if value.op == "param":
            return self._params[target].detach()
        if value.op == "graph":
            plain = not args and not kwargs
            if plain and target[1] in ("in_degrees", "out_degrees"):
                return self.degrees(*target)
            found = getattr(self.graph(target[0]), target[1])
            return found(*args, **kwargs) if callable(found) else found
        if value.op == "aggregate":
            index = self.graph(target[0])._graph
            return gspmm(index, target[1], target[2], *args)
        if value.op == "edges":
            index = self.graph(target[0])._graph
            return gsddmm(index, target[1], *args, *target[2:])
        if value.op == "softmax":
            index = self.graph(target[0])._graph
            return edge_softmax(index, args[0], ALL, target[1])
        return callable_of(value, self.call.model)(*args, **kwargs)

    def _argument(self, leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return self._values[leaf.id]
        return in_evaluation(leaf)

    def _input(self, target: Any) -> torch.Tensor:
        """Return an argument of the call, or a feature of a graph."""
        if isinstance(target, str):
            return self.call.inputs[target]
        kind, key, name = target
        features = getattr(self.graph(key), kind)
        if name not in features:
            refuse(
                causes.WRONG_CALL, "",
                f"g.{kind}[{name!r}]", "does not exist, but the model "
                "reads it",
                "Assign the features that the graph had when lc_transform "
                "was called",
            )  # fmt: skip
        return features[name]


def _tensor_bytes(tensor: torch.Tensor) -> int:
    """Count the bytes of a tensor, dense or sparse."""
    if tensor.layout == torch.strided:
        return tensor.nbytes
    # Both indices of each entry, and its value.
    entries = tensor._nnz()
    return entries * (16 + tensor.element_size())


def graph_bytes(graph: dgl.DGLGraph) -> int:
    """Count the bytes of a graph with as many edges, and a loop per node."""
    ids = 4 if graph.idtype == torch.int32 else 8
    edges = graph.num_edges() + graph.num_nodes()
    rows = sum(
        tensor.nbytes
        for features in (graph.ndata, graph.edata)
        for _, tensor in features.items()
    )
    # Both ends and, where DGL has sorted the edges, an order as well.
    return 4 * ids * edges + 2 * rows


def refuse_trouble(value: Value) -> NoReturn:
    """Refuse a value that differs from probe to probe."""
    refuse_value(
        causes.NUMBER_OF_THE_GRAPH, value, str(value.trouble),
        "Store it as a fixed attribute of the model, or compute it "
        "with torch from the graph's features and degrees",
    )  # fmt: skip


#: Advice on a branch that another graph takes in lc_transform, and later.
_BRANCH = (
    "Write forward without this branch, or change the graph "
    "(dgl.add_self_loop) so that the branch is not taken"
)
OTHER_GRAPH = (
    "Call lc_transform with this graph: its LC version may be another one"
)


def check_guards(
    guards: list[Guard], evaluate: Callable[[Value], Any],
    advice: str = _BRANCH,
) -> None:  # fmt: skip
    """Refuse a graph on which the model would take another branch."""
    for guard in guards:
        value = guard.value
        if value.learned or value.random:
            continue
        found = evaluate(value)
        found = found.item() if isinstance(found, torch.Tensor) else found
        if found != guard.result:
            _refuse_without_edges(value, evaluate)
            refuse_value(
                causes.OTHER_ON_OTHER_GRAPHS, value,
                f"is {found} on this graph, but was {guard.result} on the "
                f"graphs that the model was traced on, so that the model "
                f"would take another branch, or stop with an error (because "
                f"of nodes without incoming edges, or of a type of edges "
                f"that was not there, for instance)",
                advice,
            )  # fmt: skip


def _refuse_without_edges(value: Value, evaluate: Any) -> None:
    """Refuse a branch that is taken because a graph has no edges."""
    call = getattr(evaluate, "call", None)
    graphs = call.graphs.items() if call is not None else ()
    for name, graph in graphs:
        if not graph.num_edges():
            refuse_value(
                causes.OTHER_ON_OTHER_GRAPHS, value,
                f"takes another branch, because {name} has no "
                f"edges: nothing is aggregated there, and nothing can be "
                f"transformed",
                "Pass a graph with edges (dgl.add_self_loop), or train the "
                "model on this graph as it is",
            )  # fmt: skip
