"""Hooks into DGL: the few functions that all message passing goes through.

They are patched while a model is traced, and restored in any case. Threads
other than the one that traces still call the originals.
"""

import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any, NamedTuple, NoReturn

import dgl
import torch
from dgl import core
from dgl.heterograph_index import HeteroGraphIndex
from dgl.nn.pytorch.glob import MultiHeadAttention
from dgl.nn.pytorch.linear import TypedLinear
from dgl.view import HeteroEdgeView, HeteroNodeView
from torch import nn
from torch.overrides import TorchFunctionMode

from .. import causes
from ..causes import Cause
from ..refusals import LCError
from .followed_len import followed_len
from .followed_numbers import MATH, is_followed, plain
from .graph_tracer import BY_IDS, DERIVED, frozen
from .graph_transforms import computed_graphs, transforms
from .message_tracer import MessageTracer
from .recorder import hidden
from .refused_functions import ATTENTION_OF_A_GRAPH, refused_functions
from .torch_rules import called_by_dgl
from .vmapped import call_on_all_rows

_spmm = sys.modules["dgl.ops.spmm"]
_sddmm = sys.modules["dgl.ops.sddmm"]
_softmax = sys.modules["dgl.ops.edge_softmax"]
_segment = sys.modules["dgl.ops.segment"]


#: Methods of a graph that return a graph with the same edges.
_SAME_EDGES = ("to", "int", "long", "formats", "cpu", "clone", "local_var")
#: Methods of a graph that return a static tensor.
_STATIC = (
    "in_degrees", "out_degrees", "batch_num_nodes", "batch_num_edges",
    "all_edges", "adj", "adj_external", "adjacency_matrix", "adj_tensors",
)  # fmt: skip
#: The same, of some nodes or edges. DGL itself calls them on other graphs too.
_STATIC_OF_SOME = (
    "has_edges_between", "edge_ids", "find_edges", "in_edges", "out_edges",
    "predecessors", "successors", "has_nodes",
)  # fmt: skip
_NUM_NODES = (
    "num_nodes", "number_of_nodes", "num_src_nodes", "num_dst_nodes",
    "number_of_src_nodes", "number_of_dst_nodes",
)  # fmt: skip
_NUM_EDGES = ("num_edges", "number_of_edges")

#: Methods that change the nodes or edges of a graph.
_CHANGES = ("add_edges", "remove_edges", "add_nodes", "remove_nodes")

#: Held by the one transformation that may run at a time.
_LOCK = threading.RLock()

#: An object, the name of a function of it, and what is called there.
Patch = tuple[Any, str, Callable]


class _Found(NamedTuple):
    """Patches, and the modules that were searched for them."""

    modules: list[Any]
    patches: list[Patch]


class _Active(threading.local):
    """What a thread is doing."""

    #: The tracer that records.
    tracer: MessageTracer | None = None
    #: How many transformations there are, one within the other.
    depth: int = 0
    #: What the transformation has found: this takes a fifth of its time.
    found: _Found | None = None


_active = _Active()


@contextmanager
def transforming() -> Iterator[None]:
    """Keep other threads from transforming, and patches until the end."""
    with _LOCK:
        _active.depth += 1
        try:
            yield
        finally:
            _active.depth -= 1
            if not _active.depth:
                _active.found = None


def _tracer() -> MessageTracer | None:
    """Return the tracer of this thread, if it is recording."""
    tracer = _active.tracer
    if tracer is None or not torch._C._is_torch_function_mode_enabled():
        return None
    return tracer


def _when_tracing(original: Callable, traced: Callable) -> Callable:
    """Call ``traced(tracer, …)`` where a tracer records, else the original."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = _tracer()
        if tracer is None:
            return original(*args, **kwargs)
        try:
            return traced(tracer, *args, **kwargs)
        except LCError as error:
            return tracer.after_refusal(error, original, args, kwargs)

    return call


def _of_numbers(function: Callable, _: MessageTracer, *numbers: Any) -> Any:
    """Call a function of :mod:`math`, and record it for followed numbers."""
    result = function(*map(plain, numbers))
    for number in numbers:
        if is_followed(number):
            return number.record(function, numbers, result)
    return result


def _refusal(
    cause: Cause, operation: str, reason: str, advice: str
) -> Callable:
    """Make a function that refuses to be called."""

    def refused(tracer: MessageTracer, *args: Any, **kwargs: Any) -> NoReturn:
        tracer.refuse(cause, operation, reason, advice)

    return refused


def _patches() -> Iterator[Patch]:
    """Yield (owner, name, function to call there while tracing)."""
    hetero = _refusal(
        causes.UNSUPPORTED_GRAPH,
        "message passing",
        "runs over several types of edges",
        "Transform a model of a homogeneous graph",
    )
    readout = _refusal(
        causes.READOUT,
        "a readout over all nodes",
        "mixes nodes, and a mini-batch has only some of them",
        "Move it out of the model, and apply it to the output",
    )
    refused = list(refused_functions())
    known = _modules_by_name(
        {
            "segment_reduce", "graph", "vmap_impl", *DERIVED, *BY_IDS,
            *(name for _, name, *_ in refused),
        }
    )  # fmt: skip
    yield HeteroGraphIndex, "is_multigraph", MessageTracer.is_multigraph
    for name in MATH:
        if hasattr(math, name):
            yield math, name, partial(_of_numbers, getattr(math, name))
    yield _spmm, "gspmm_internal", MessageTracer.gspmm
    yield _spmm, "gspmm_internal_hetero", hetero
    yield _sddmm, "gsddmm_internal", MessageTracer.gsddmm
    yield _sddmm, "gsddmm_internal_hetero", hetero
    yield _softmax, "edge_softmax_internal", MessageTracer.edge_softmax
    yield _softmax, "edge_softmax_hetero_internal", hetero
    yield core, "invoke_edge_udf", MessageTracer.edge_udf
    yield core, "invoke_udf_reduce", MessageTracer.reduce_udf
    yield dgl.DGLGraph, "send_and_recv", MessageTracer.send_and_recv
    yield dgl.DGLGraph, "pull", MessageTracer.pull
    yield dgl.DGLGraph, "push", MessageTracer.push_messages
    yield dgl.DGLGraph, "apply_nodes", MessageTracer.apply_nodes
    yield dgl.DGLGraph, "apply_edges", MessageTracer.apply_edges
    yield TypedLinear, "forward", MessageTracer.typed_linear
    yield _segment, "segment_reduce", readout
    segments = _refusal(
        causes.UNSUPPORTED_MESSAGES,
        "segment_reduce",
        "adds rows by the lengths of segments, and which rows these are can't "
        "be followed",
        "Aggregate on the graph, with update_all or dgl.ops.copy_u_sum; apply "
        "a readout to the output of the model",
    )
    for module in known("segment_reduce", _segment.segment_reduce):
        if module is not _segment:
            yield module, "segment_reduce", segments
    call = nn.Module.__call__
    yield (
        nn.Module,
        "__call__",
        lambda tracer, module, *args, **kwargs: tracer.call_module(
            call, module, args, kwargs
        ),
    )
    if not _getitem_is_seen():
        for name in ("__getitem__", "__setitem__"):
            yield torch.Tensor, name, _items(name)
    for name in _STATIC + _STATIC_OF_SOME:
        if hasattr(dgl.DGLGraph, name):
            yield dgl.DGLGraph, name, _static(name)
    for view, name in ((HeteroNodeView, "nodes"), (HeteroEdgeView, "edges")):
        yield view, "__call__", _view(view, name)
    for name in _NUM_NODES + _NUM_EDGES:
        yield dgl.DGLGraph, name, _size(name)
    for name in ("__getitem__", *_SAME_EDGES):
        yield dgl.DGLGraph, name, _same_edges(name)
    yield dgl.DGLGraph, "__init__", _made(dgl.DGLGraph.__init__)
    for name in DERIVED:
        derive = _derive(name, getattr(dgl, name))
        if hasattr(dgl.DGLGraph, name):
            yield dgl.DGLGraph, name, derive
        for module in known(name, getattr(dgl, name)):
            yield module, name, derive
    by_ids = dict.fromkeys(BY_IDS, MessageTracer.derive_by_ids)
    by_ids["graph"] = MessageTracer.graph_of_ends
    # Of these, only one method does not change the graph in place.
    original = dgl.DGLGraph.edge_subgraph
    derive = _derive("edge_subgraph", original, by_ids["edge_subgraph"])
    yield dgl.DGLGraph, "edge_subgraph", derive
    for name, how in by_ids.items():
        for module in known(name, getattr(dgl, name)):
            yield module, name, _derive(name, getattr(dgl, name), how)
    for name in _CHANGES:
        yield dgl.DGLGraph, name, _changed(name)
    for owner, name, cause, *words in refused:
        for module in known(name, getattr(owner, name)):
            yield module, name, _refusal(cause, *words)
    cause, *words = ATTENTION_OF_A_GRAPH
    yield MultiHeadAttention, "forward", _refusal(cause, *words)
    rows = getattr(sys.modules.get("torch._functorch.apis"), "vmap_impl", None)
    if rows is not None:
        for module in known("vmap_impl", rows):
            yield module, "vmap_impl", partial(call_on_all_rows, rows)
    yield transforms.DropEdge, "__call__", _drop_edges
    for transform in computed_graphs():
        yield transform, "__call__", _compute(transform)


def _modules_by_name(names: set[str]) -> Callable[[str, Any], list[Any]]:
    """Find the modules that know functions of DGL by these names.

    A model's module may have one: ``from dgl import reverse``. Returns a
    function of a name and a function; it gives the modules. There are
    thousands of modules, so all names are looked for at once.
    """
    found: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
    for module in list(sys.modules.values()):
        known = getattr(module, "__dict__", {})
        for name in known.keys() & names:
            found[name].append((module, known[name]))

    def modules(name: str, function: Any) -> list[Any]:
        return [module for module, value in found[name] if value is function]

    return modules


@cache
def _getitem_is_seen() -> bool:
    """Return whether a mode of this torch sees every ``tensor[index]``."""
    seen = []

    class Look(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable, types: Any, args: tuple = (),
            kwargs: dict | None = None,
        ) -> Any:  # fmt: skip
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.zeros(2, 2)
    with Look():
        tensor[0], tensor[:1]
    return len(seen) == 2


def _items(name: str) -> Callable:
    """Make a hook for ``tensor[index]``, or for writing there."""
    original = getattr(torch.Tensor, name)

    def traced(tracer: MessageTracer, *args: Any) -> Any:
        return tracer.items(original, name, args)

    return traced


def _static(name: str) -> Callable:
    """Make a hook for a method that returns a static tensor."""
    original = getattr(dgl.DGLGraph, name)

    def traced(
        tracer: MessageTracer, graph: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if name in _STATIC_OF_SOME and called_by_dgl():
            return original(graph, *args, **kwargs)
        return tracer.static(graph, name, original, args, kwargs)

    return traced


def _view(view: type, name: str) -> Callable:
    """Make a hook for ``g.nodes()`` or ``g.edges()``."""
    original = view.__call__

    def traced(
        tracer: MessageTracer, view: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return tracer.static(view, name, original, args, kwargs)

    return traced


def _size(name: str) -> Callable:
    """Make a hook for a method that returns a size of the graph."""
    original = getattr(dgl.DGLGraph, name)

    def traced(
        tracer: MessageTracer, graph: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return tracer.number(original(graph, *args, **kwargs))

    return traced


def _same_edges(name: str) -> Callable:
    """Make a hook for a method that returns a graph with the same edges."""
    original = getattr(dgl.DGLGraph, name)

    def traced(
        tracer: MessageTracer, graph: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if name == "clone":
            # Constants that DGL makes for it are no operations of the model.
            with torch._C.DisableTorchFunction():
                result = original(graph, *args, **kwargs)
        else:
            result = original(graph, *args, **kwargs)
        known = id(graph._graph) in tracer._graphs
        if known and isinstance(result, dgl.DGLGraph):
            one_type = len(graph.canonical_etypes) == 1
            if one_type and result._graph is not graph._graph:
                key = tracer.key_of(graph._graph)
                tracer.add_graph(result, key, like=graph, same_edges=True)
        elif isinstance(result, dgl.DGLGraph):
            tracer.inherit_blame(result, graph)
        return result

    return traced


_drop = transforms.DropEdge.__call__


def _drop_edges(tracer: MessageTracer, transform: Any, graph: Any) -> Any:
    """Drop no edges if that is asked for.

    What happens inside is not recorded: a model may drop edges in training
    alone, and has the same operations otherwise.
    """
    with hidden():
        if not tracer.ignores_edge_dropout:
            made = _drop(transform, graph)
            tracer.note_made(made, "DropEdge")
            return made
        made = graph.clone()
    key = tracer.key_of(graph._graph)
    tracer.add_graph(made, key, like=graph, same_edges=True)
    return made


def _compute(transform: type) -> Callable:
    """Make a hook for a transform that depends on the graph alone."""
    original = transform.__call__

    def traced(tracer: MessageTracer, self: Any, graph: Any) -> Any:
        options = frozen(sorted(vars(self).items()))
        name = transform.__name__
        call = partial(original, self)
        return tracer.derive(name, call, (graph,), {}, (options, ()))

    return traced


def _made(original: Callable) -> Callable:
    """Make a hook for the constructor of graphs."""

    def traced(
        tracer: MessageTracer, graph: Any, *args: Any, **kwargs: Any
    ) -> None:
        original(graph, *args, **kwargs)
        tracer.note_made(graph)

    return traced


def _changed(name: str) -> Callable:
    """Make a hook for a method that changes the edges of a graph."""
    original = getattr(dgl.DGLGraph, name)

    def traced(
        tracer: MessageTracer, graph: Any, *args: Any, **kwargs: Any
    ) -> None:
        original(graph, *args, **kwargs)
        tracer.note_made(graph, name)

    return traced


def _derive(
    name: str, original: Callable, how: Callable = MessageTracer.derive
) -> Callable:
    """Make a hook for a function from graph to graph."""

    def traced(tracer: MessageTracer, *args: Any, **kwargs: Any) -> Any:
        return how(tracer, name, original, args, kwargs)

    return traced


@contextmanager
def tracing(tracer: MessageTracer) -> Iterator[None]:
    """Record what happens in this block, in this thread."""
    undo = []
    with transforming():
        _active.tracer = tracer
        try:
            for owner, name, call in _wrapped_patches():
                undo.append((owner, name, owner.__dict__.get(name)))
                setattr(owner, name, call)
            length = _when_tracing(len, MessageTracer.length)
            with followed_len(tracer.model, length), tracer:
                yield
        finally:
            for owner, name, original in reversed(undo):
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            _active.tracer = None


def _wrapped_patches() -> Iterator[Patch]:
    """Yield what to set while tracing; each is set before the next is made."""
    # A model may import modules while it runs: they are searched next time.
    modules = list(sys.modules.values())
    found = _active.found
    if found is not None and _are_same(found.modules, modules):
        yield from found.patches
        return
    made: list[Patch] = []
    for owner, name, traced in list(_patches()):
        original = getattr(owner, name, None)
        if callable(original):
            made.append((owner, name, _when_tracing(original, traced)))
            yield made[-1]
    _active.found = _Found(modules, made)


def _are_same(some: list[Any], others: list[Any]) -> bool:
    """Tell whether two lists have the same objects, whatever "==" says."""
    return len(some) == len(others) and all(map(operator.is_, some, others))
