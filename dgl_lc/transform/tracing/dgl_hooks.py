"""DGL's choke points: the few functions all message passing goes through.

They are patched while a model is traced, for the thread that traces, and put
back whatever happens. Other threads go on with the originals.
"""

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any

import dgl
import torch
from dgl import core
from dgl.base import is_all
from dgl.view import HeteroNodeView
from torch import nn
from torch.overrides import TorchFunctionMode

from .followed_numbers import MATH, is_followed, plain
from .torch_tracer import TorchTracer, hidden

_spmm = sys.modules["dgl.ops.spmm"]
_sddmm = sys.modules["dgl.ops.sddmm"]
_softmax = sys.modules["dgl.ops.edge_softmax"]
_segment = sys.modules["dgl.ops.segment"]

gspmm = _spmm.gspmm_internal
gsddmm = _sddmm.gsddmm_internal
edge_softmax = _softmax.edge_softmax_internal

#: Functions from graph to graph that depend on nothing but the graph.
_DERIVED = (
    "add_self_loop", "remove_self_loop", "reverse", "to_simple",
    "to_bidirected", "khop_graph",
)  # fmt: skip
#: Methods that give a graph with the same edges.
_SAME_EDGES = ("to", "int", "long", "formats", "cpu", "clone", "local_var")
#: Methods that give a static tensor.
_STATIC = ("in_degrees", "out_degrees", "batch_num_nodes", "batch_num_edges")
_NUM_NODES = (
    "num_nodes", "number_of_nodes", "num_src_nodes", "num_dst_nodes",
    "number_of_src_nodes", "number_of_dst_nodes",
)  # fmt: skip
_NUM_EDGES = ("num_edges", "number_of_edges")

#: One transformation at a time.
LOCK = threading.RLock()
_active = threading.local()


class GraphTracer(TorchTracer):
    """A tracer that knows DGL's graphs.

    A graph is a key: the name of a graph the user gave, or a tuple
    ``(function, key, args, kwargs)`` for one that was derived from it.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._graphs: dict[int, tuple[Any, Any]] = {}

    def add_graph(
        self,
        graph: dgl.DGLGraph,
        key: Any,
        like: dgl.DGLGraph | None = None,
        same_edges: bool = False,
    ) -> None:
        """Let this graph be known, with the features it carries.

        Features of nodes (and of edges, with ``same_edges``) that it has
        taken over from the graph ``like`` are still the same values.
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
        if id(index) not in self._graphs:
            self.refuse(
                "message passing",
                "on a graph that is built or sampled in forward, so that its "
                "filter is not constant",
                "Give the graph to the model, or derive it with "
                f"dgl.{', dgl.'.join(_DERIVED[:3])}",
            )
        return self._graphs[id(index)][1]

    # What the patched functions do

    def gspmm(self, index, op, reduce, lhs, rhs):
        target = (self.key_of(index), op, reduce)
        lifted = self.lift((lhs, rhs))
        with hidden():
            result = gspmm(index, op, reduce, lhs, rhs)
        value = self.add("aggregate", target, lifted, {}, result, data=True)
        self.bind(result, value)
        return result

    def gsddmm(self, index, op, lhs, rhs, left="u", right="v"):
        target = (self.key_of(index), op, left, right)
        lifted = self.lift((lhs, rhs))
        with hidden():
            result = gsddmm(index, op, lhs, rhs, left, right)
        value = self.add("edges", target, lifted, {}, result, data=True)
        self.bind(result, value)
        return result

    def edge_softmax(self, index, logits, eids, norm_by):
        lifted = self.lift((logits,))
        if not is_all(eids):
            self.refuse(
                "edge softmax", "over some of the edges", "Use all edges"
            )
        target = (self.key_of(index), norm_by)
        with hidden():
            result = edge_softmax(index, logits, eids, norm_by)
        value = self.add("softmax", target, lifted, {}, result, data=True)
        self.bind(result, value)
        return result

    def edge_udf(self, graph, eid, etype, func, *, orig_eid=None):
        """Run a message function on what is gathered for all edges."""
        if not is_all(eid):
            self.refuse(
                "a user-defined function",
                "on some of the edges",
                "Apply it to all edges",
            )
        return func(_Edges(graph))

    def static(self, graph, name, original, args, kwargs):
        """What a method of the graph gives, as a static value."""
        with hidden():
            result = original(graph, *args, **kwargs)
        if isinstance(result, torch.Tensor):
            index = graph._graph
            if isinstance(index, dgl.DGLGraph):
                index = index._graph
            target = (self.key_of(index), name)
            value = self.add(
                "graph", target, self.lift(args), self.lift(kwargs), result,
                data=True,
            )  # fmt: skip
            self.bind(result, value)
        return result

    def derive(self, name, original, args, kwargs):
        kwargs = dict(kwargs)
        graph, rest = args[0] if args else kwargs.pop("g"), args[1:]
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
                    f"dgl.{name}",
                    f"on a graph with edge features made in forward "
                    f"({feature!r})",
                    "Derive the graph before they are assigned, or give them "
                    "to the graph before the model is called",
                )
        options = frozen(rest), frozen(sorted(kwargs.items()))
        self.add_graph(result, (name, key, *options), like=graph)
        return result


class _Lazy(dict):
    """Looks things up when they are asked for."""

    def __init__(self, find: Callable[[str], Any]):
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> Any:
        return self._find(name)


class _Edges:
    """What a message function is given: the ends of all edges."""

    def __init__(self, graph: dgl.DGLGraph):
        self.src = _Lazy(lambda k: dgl.ops.copy_u(graph, graph.srcdata[k]))
        self.dst = _Lazy(lambda k: dgl.ops.copy_v(graph, graph.dstdata[k]))
        self.data = graph.edata
        self._graph = graph

    def batch_size(self) -> int:
        return self._graph.num_edges()

    __len__ = batch_size


def frozen(item: Any) -> Any:
    """Lists as tuples, so that a key can be looked up."""
    if isinstance(item, (list, tuple)):
        return tuple(map(frozen, item))
    return item


def _tracer() -> GraphTracer | None:
    """The tracer of this thread, if it is looking."""
    tracer = getattr(_active, "tracer", None)
    if tracer is None or not torch._C._is_torch_function_mode_enabled():
        return None
    return tracer


def _when_tracing(original: Callable, traced: Callable) -> Callable:
    """``traced(tracer, *args)`` where a tracer looks, else the original."""

    @wraps(original)
    def call(*args, **kwargs):
        tracer = _tracer()
        if tracer is None:
            return original(*args, **kwargs)
        return traced(tracer, *args, **kwargs)

    return call


def _of_numbers(function: Callable, _: GraphTracer, *numbers):
    """A function of :mod:`math`, recorded if a size is among its numbers."""
    result = function(*map(plain, numbers))
    for number in numbers:
        if is_followed(number):
            return number.record(function, numbers, result)
    return result


def _refusal(operation: str, reason: str, advice: str) -> Callable:
    def refused(tracer: GraphTracer, *args, **kwargs):
        tracer.refuse(operation, reason, advice)

    return refused


def _patches() -> Iterator[tuple[Any, str, Callable]]:
    """Where, which name, and what is called there while tracing."""
    hetero = _refusal(
        "message passing",
        "over several types of edges",
        "Transform a model of a homogeneous graph",
    )
    readout = _refusal(
        "a readout over all nodes",
        "mixes nodes, and a mini-batch has only some of them",
        "Leave it out of the model, or apply it to the output",
    )
    for name in MATH:
        if hasattr(math, name):
            yield math, name, partial(_of_numbers, getattr(math, name))
    yield _spmm, "gspmm_internal", GraphTracer.gspmm
    yield _spmm, "gspmm_internal_hetero", hetero
    yield _sddmm, "gsddmm_internal", GraphTracer.gsddmm
    yield _sddmm, "gsddmm_internal_hetero", hetero
    yield _softmax, "edge_softmax_internal", GraphTracer.edge_softmax
    yield _softmax, "edge_softmax_hetero_internal", hetero
    yield core, "invoke_edge_udf", GraphTracer.edge_udf
    yield (
        core,
        "invoke_udf_reduce",
        _refusal(
            "a user-defined reduce function",
            "is not a linear filter (an LSTM, or a function of the mailbox)",
            "Use fn.sum or fn.mean",
        ),
    )
    yield _segment, "segment_reduce", readout
    call = nn.Module.__call__
    yield (
        nn.Module,
        "__call__",
        lambda tracer, module, *args, **kwargs: tracer.call_module(
            call, module, args, kwargs
        ),
    )
    if not _getitem_is_seen():
        getitem = torch.Tensor.__getitem__
        yield (
            torch.Tensor,
            "__getitem__",
            lambda tracer, tensor, index: tracer.getitem(
                getitem, tensor, index
            ),
        )
    for name in _STATIC:
        yield dgl.DGLGraph, name, _static(name)
    node_ids = HeteroNodeView.__call__
    yield (
        HeteroNodeView,
        "__call__",
        lambda tracer, view, *args, **kwargs: tracer.static(
            view, "nodes", node_ids, args, kwargs
        ),
    )
    for name in _NUM_NODES + _NUM_EDGES:
        yield dgl.DGLGraph, name, _size(name)
    for name in ("__getitem__", *_SAME_EDGES):
        yield dgl.DGLGraph, name, _same_edges(name)
    for name in _DERIVED:
        original = getattr(dgl, name)
        derive = _derive(name, original)
        if hasattr(dgl.DGLGraph, name):
            yield dgl.DGLGraph, name, derive
        # Also where a module did `from dgl import add_self_loop`.
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is original:
                yield module, name, derive


@cache
def _getitem_is_seen() -> bool:
    """Whether this torch tells a mode of every ``tensor[index]``."""
    seen = []

    class Look(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.zeros(2, 2)
    with Look():
        tensor[0], tensor[:1]
    return len(seen) == 2


def _static(name: str) -> Callable:
    original = getattr(dgl.DGLGraph, name)

    def traced(tracer: GraphTracer, graph, *args, **kwargs):
        return tracer.static(graph, name, original, args, kwargs)

    return traced


def _size(name: str) -> Callable:
    original = getattr(dgl.DGLGraph, name)

    def traced(tracer: GraphTracer, graph, *args, **kwargs):
        return tracer.number(original(graph, *args, **kwargs))

    return traced


def _same_edges(name: str) -> Callable:
    original = getattr(dgl.DGLGraph, name)

    def traced(tracer: GraphTracer, graph, *args, **kwargs):
        result = original(graph, *args, **kwargs)
        known = id(graph._graph) in tracer._graphs
        if known and isinstance(result, dgl.DGLGraph):
            one_type = len(graph.canonical_etypes) == 1
            if one_type and result._graph is not graph._graph:
                key = tracer.key_of(graph._graph)
                tracer.add_graph(result, key, like=graph, same_edges=True)
        return result

    return traced


def _derive(name: str, original: Callable) -> Callable:
    def traced(tracer: GraphTracer, *args, **kwargs):
        return tracer.derive(name, original, args, kwargs)

    return traced


@contextmanager
def tracing(tracer: GraphTracer) -> Iterator[None]:
    """Record what happens in this block, in this thread."""
    undo = []
    with LOCK:
        _active.tracer = tracer
        try:
            for owner, name, traced in list(_patches()):
                original = getattr(owner, name, None)
                if callable(original):
                    undo.append((owner, name, owner.__dict__.get(name)))
                    setattr(owner, name, _when_tracing(original, traced))
            with tracer:
                yield
        finally:
            for owner, name, original in reversed(undo):
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            _active.tracer = None
