"""A tracer that knows DGL's graphs: message passing, degrees, derivations."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import dgl
import torch
from dgl.base import is_all

from .. import causes
from ..refusals import LCError
from .followed_numbers import plain
from .hidden_graphs import name_of_graph
from .made_graphs import refuse_hidden_graph, refuse_made_graph
from .recorder import hidden
from .torch_tracer import TorchTracer
from .user_lines import function_of_dgl, user_line
from .values import Guard, Value, values_in

gspmm = sys.modules["dgl.ops.spmm"].gspmm_internal
_gsddmm = sys.modules["dgl.ops.sddmm"].gsddmm_internal
edge_softmax = sys.modules["dgl.ops.edge_softmax"].edge_softmax_internal

#: Functions of dgl from graph to graph that depend on the graph alone.
DERIVED = (
    "add_self_loop", "remove_self_loop", "reverse", "to_simple",
    "to_bidirected", "khop_graph", "add_reverse_edges", "to_homogeneous",
)  # fmt: skip

#: Functions of dgl from a graph and a mask or ids of edges to a graph.
BY_IDS = ("edge_subgraph", "remove_edges", "add_edges")
#: Names of the argument that is the graph.
_GRAPH = ("g", "graph")


def gsddmm(
    index: Any, op: str, lhs: Any, rhs: Any, left: str, right: str
) -> torch.Tensor:
    """Compute values of edges from their ends, as DGL does.

    Integers can be copied too, as in user-defined functions of edges.
    """
    rows, end = (lhs, left) if op == "copy_lhs" else (rhs, right)
    if op.startswith("copy") and not rows.is_floating_point():
        ids = index.edges(0, "eid")["uv".index(end)]
        return rows[ids.long()]
    return _gsddmm(index, op, lhs, rhs, left, right)


class GraphTracer(TorchTracer):
    """A tracer that knows DGL's graphs.

    A graph is known by a key: the name of a graph of the user's, or a tuple
    ``(function, key, args, kwargs)`` for one that is derived from it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._graphs: dict[int, tuple[Any, Any]] = {}
        self._made: dict[int, tuple[Any, LCError]] = {}

    def add_graph(
        self,
        graph: dgl.DGLGraph,
        key: Any,
        like: dgl.DGLGraph | None = None,
        same_edges: bool = False,
    ) -> None:
        """Remember a graph under a key, with its features.

        Features of nodes (and of edges, with ``same_edges``) that it has from
        the graph ``like`` are the same values as there.
        """
        self._graphs[id(graph._graph)] = (graph._graph, key)
        with hidden():
            self.add_size(graph._graph.num_edges(0), ("E", key))
            for kind in ("ndata", "edata"):
                old = getattr(like, kind) if like is not None else {}
                if kind == "edata" and not same_edges:
                    old = {}
                for name, tensor in getattr(graph, kind).items():
                    if self.knows(tensor):
                        continue
                    if name in old:
                        value = self.value_of(old[name])
                    else:
                        value = self.add(
                            "input", (kind, key, name),
                            example=tensor, data=True,
                        )  # fmt: skip
                    self.bind(tensor, value)

    def key_of(self, index: Any) -> Any:
        """Return the key of a graph, or refuse an unknown graph."""
        if id(index) in self._graphs:
            return self._graphs[id(index)][1]
        if id(index) in self._made:
            raise self._made[id(index)][1]
        name = name_of_graph(index)
        if name:
            refuse_hidden_graph(self.where, name, line=user_line())
        return refuse_made_graph(self.where, "", user_line())

    def blame(self, graph: dgl.DGLGraph, error: LCError) -> None:
        """Remember why a graph has no key: whoever uses it raises the error."""
        self._made[id(graph._graph)] = (graph._graph, error)

    def inherit_blame(self, graph: dgl.DGLGraph, parent: dgl.DGLGraph) -> None:
        """Blame a graph for what the one that it was made of is blamed for."""
        if id(parent._graph) in self._made:
            self.blame(graph, self._made[id(parent._graph)][1])

    def after_refusal(
        self, error: LCError, function: Callable, args: tuple, kwargs: dict
    ) -> Any:
        """Run what was refused as it is, where problems are collected."""
        result = super().after_refusal(error, function, args, kwargs)
        if isinstance(result, dgl.DGLGraph):
            self.blame(result, error)
        return result

    def note_made(self, graph: dgl.DGLGraph, method: str = "") -> None:
        """Remember where a graph is made that no key is known of.

        ``method`` is the method of the graph that made it, if it was one.
        """
        if id(graph._graph) not in self._graphs:
            function = function_of_dgl() or method
            try:
                refuse_made_graph(self.where, function, user_line())
            except LCError as error:
                self.blame(graph, error)

    # What the hooks of dgl_hooks.py call, with those of message_tracer.py

    def gspmm(
        self, index: Any, op: str, reduce: str, lhs: Any, rhs: Any
    ) -> torch.Tensor:
        """Record an aggregation over incoming edges."""
        target = (self.key_of(index), op, reduce)
        call = partial(gspmm, index, op, reduce, lhs, rhs)
        return self._message("aggregate", target, (lhs, rhs), call)

    def gsddmm(
        self, index: Any, op: str, lhs: Any, rhs: Any,
        left: str = "u", right: str = "v",
    ) -> torch.Tensor:  # fmt: skip
        """Record values of edges, computed from their ends."""
        target = (self.key_of(index), op, left, right)
        call = partial(gsddmm, index, op, lhs, rhs, left, right)
        return self._message("edges", target, (lhs, rhs), call)

    def edge_softmax(
        self, index: Any, logits: torch.Tensor, eids: Any, norm_by: str
    ) -> torch.Tensor:
        """Record a softmax over incoming edges."""
        if not is_all(eids):
            self.refuse(
                causes.UNSUPPORTED_MESSAGES,
                "edge softmax",
                "runs over some of the edges",
                "Use all edges",
            )
        target = (self.key_of(index), norm_by)
        call = partial(edge_softmax, index, logits, eids, norm_by)
        return self._message("softmax", target, (logits,), call)

    def _message(
        self, op: str, target: tuple, args: tuple,
        call: Callable[[], torch.Tensor],
    ) -> torch.Tensor:  # fmt: skip
        """Run a function of DGL, and record its result as a value."""
        lifted = self.lift(args)
        with hidden():
            result = call()
        value = self.add(op, target, lifted, {}, result, data=True)
        self.bind(result, value)
        return result

    def static(
        self, graph: Any, name: str, original: Callable, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
        """Call a method of the graph, and record a static value."""
        with hidden():
            result = original(graph, *args, **kwargs)
        if isinstance(result, (torch.Tensor, tuple, bool, int)):
            index = graph._graph
            if isinstance(index, dgl.DGLGraph):
                index = index._graph
            target = (self.key_of(index), name)
            value = self.add(
                "graph", target, self.lift(args), self.lift(kwargs), result,
                data=True,
            )  # fmt: skip
            if isinstance(result, bool):
                self.trace.guards.append(Guard(value, result))
            self.bind_result(result, value)
            return self.follow(result, value)
        return result

    def is_multigraph(self, index: Any) -> bool:
        """Return whether a graph has parallel edges, and note the branch."""
        with hidden():
            found = index.is_multigraph()
        target = (self.key_of(index), "is_multigraph")
        value = self.add("graph", target, example=found, data=True)
        self.trace.guards.append(Guard(value, found))
        return found

    def derive(
        self, name: str, original: Callable, args: tuple, kwargs: dict,
        options: tuple | None = None,
    ) -> dgl.DGLGraph:  # fmt: skip
        """Derive a graph from another, and remember it.

        ``options`` stand for the arguments in the key of the graph.
        """
        kwargs = dict(kwargs)
        first = next((k for k in ("g", "graph") if k in kwargs), "G")
        graph, rest = args[0] if args else kwargs.pop(first), args[1:]
        key = self.key_of(graph._graph)
        with hidden():
            result = original(graph, *rest, **kwargs)
            taken = {
                feature: graph.edata[feature]
                for feature, tensor in result.edata.items()
                if feature in graph.edata and not self.knows(tensor)
            }
        for feature, tensor in taken.items():
            value = self.value_of(tensor)
            if (value.op, value.target) != ("input", ("edata", key, feature)):
                self.refuse(
                    causes.UNSUPPORTED_MESSAGES,
                    f"dgl.{name}",
                    f"is called on a graph with edge features made in forward "
                    f"({feature!r})",
                    "Derive the graph before the features are assigned, or "
                    "assign them before the model is called",
                )
        if options is None:
            options = frozen(rest), frozen(sorted(kwargs.items()))
        self.add_graph(result, (name, key, *options), like=graph)
        return result

    def derive_by_ids(
        self, name: str, original: Callable, args: tuple, kwargs: dict
    ) -> dgl.DGLGraph:
        """Derive a graph by a constant mask, or by constant ids of edges."""
        rest = args[1:], {k: v for k, v in kwargs.items() if k not in _GRAPH}
        if name == "edge_subgraph" and kwargs.get("relabel_nodes", True):
            with hidden():
                result = original(*args, **kwargs)
            try:
                self.refuse(
                    causes.GRAPH_MADE_IN_FORWARD,
                    "edge_subgraph makes a graph",
                    "has only the nodes of some edges, with new ids",
                    "Keep all nodes: dgl.edge_subgraph(g, mask, "
                    "relabel_nodes=False)",
                )
            except LCError as error:
                self.blame(result, error)
            return result
        lifted = self.lift(rest)
        if any(value.learned or value.random for value in values_in(lifted)):
            return original(*args, **kwargs)
        options = frozen(lifted[0]), frozen(sorted(lifted[1].items()))
        return self.derive(name, original, args, kwargs, options)

    def graph_of_ends(
        self, name: str, original: Callable, args: tuple, kwargs: dict
    ) -> dgl.DGLGraph:
        """Make a graph of the ends of its edges, if these are constant."""
        data: Any = args[0] if args else kwargs.get("data")
        pair = isinstance(data, (tuple, list)) and len(data) == 2
        if not pair or not all(isinstance(e, torch.Tensor) for e in data):
            return original(*args, **kwargs)
        source, target = (self.value_of(end) for end in data)
        if not source.static or not target.static:
            return original(*args, **kwargs)
        with hidden():
            result = original(*args, **{k: plain(v) for k, v in kwargs.items()})
            same_nodes = result.num_nodes() == self.num_nodes
        if same_nodes:
            self.add_graph(result, self._key_of_ends(source, target))
        else:
            self.note_made(result)
        return result

    def _key_of_ends(self, source: Value, target: Value) -> Any:
        """Return the key of a graph that has these ends of edges."""
        ends = [(end.args if end.is_item else (None, None)) for end in
                (source, target)]  # fmt: skip
        edges = ends[0][0]
        same = edges is not None and edges is ends[1][0]
        if same and (ends[0][1], ends[1][1]) == (0, 1) and _all_edges(edges):
            # It is the same graph, without its features.
            return edges.target[0]
        users = next(k for _, k in self._graphs.values() if isinstance(k, str))
        return ("indexed", users, (source, target), ())


def _all_edges(value: Value) -> bool:
    """Return whether it is ``g.edges()``, of all edges in their order."""
    if value.op != "graph" or value.target[1] != "edges" or value.args:
        return False
    return not set(value.kwargs) - {"form"} and value.kwargs.get(
        "form", "uv"
    ) in ("uv", "all")


def frozen(item: Any) -> Any:
    """Turn lists into tuples, which can be keys."""
    if isinstance(item, (list, tuple)):
        return tuple(map(frozen, item))
    return item
