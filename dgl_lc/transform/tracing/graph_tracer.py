"""A tracer that knows DGL's graphs: message passing, degrees, derivations."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import dgl
import torch
from dgl.base import is_all

from .mailbox import OPERATION, Mailbox
from .reduce_functions import laws_of
from .recorder import hidden, shape_of
from .torch_tracer import TorchTracer
from .values import Guard

gspmm = sys.modules["dgl.ops.spmm"].gspmm_internal
_gsddmm = sys.modules["dgl.ops.sddmm"].gsddmm_internal
edge_softmax = sys.modules["dgl.ops.edge_softmax"].edge_softmax_internal
reduce_udf = dgl.core.invoke_udf_reduce

#: Functions of dgl from graph to graph that depend on the graph alone.
DERIVED = (
    "add_self_loop", "remove_self_loop", "reverse", "to_simple",
    "to_bidirected", "khop_graph",
)  # fmt: skip


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
        #: The mailboxes of the reduce function that runs.
        self.mailbox: Mailbox | None = None
        #: The user's graphs, by their names.
        self.users_graphs: dict[str, dgl.DGLGraph] = {}
        self._lacking: dict[str, bool] = {}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:  # fmt: skip
        mailbox = self.mailbox
        if mailbox is not None and mailbox.takes(args, kwargs):
            with self:
                return mailbox.call(func, args, dict(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def _leaf(
        self, original: Callable, module: Any, name: str, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
        if self.mailbox is not None and self.mailbox.takes(args, kwargs):
            # Its functions are looked at one by one.
            return original(module, *args, **kwargs)
        return super()._leaf(original, module, name, args, kwargs)

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
        if id(index) not in self._graphs:
            self.refuse(
                "message passing",
                "runs on a graph that is built or sampled in forward, so that "
                "its filter is not constant",
                "Pass the graph to the model, or derive it with "
                f"dgl.{', dgl.'.join(DERIVED[:3])}",
            )
        return self._graphs[id(index)][1]

    # What the hooks of dgl_hooks.py call

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
                "edge softmax", "runs over some of the edges", "Use all edges"
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

    def edge_udf(
        self, graph: dgl.DGLGraph, eid: Any, etype: Any, func: Callable, *,
        orig_eid: Any = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """Run a message function on all edges at once."""
        if not is_all(eid):
            self.refuse(
                "a user-defined function",
                "runs on some of the edges",
                "Apply it to all edges",
            )
        return func(_Edges(self, graph))

    def ends(
        self, graph: dgl.DGLGraph, rows: torch.Tensor, end: str
    ) -> torch.Tensor:
        """Return the rows of the sources ("u") or targets ("v") of edges."""
        op = {"u": "copy_lhs", "v": "copy_rhs"}[end]
        pair = (rows, None) if end == "u" else (None, rows)
        return self.gsddmm(graph._graph, op, *pair)

    def reduce_udf(
        self, graph: dgl.DGLGraph, func: Callable, msgdata: Any, *,
        orig_nid: Any = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """Record a reduce function, for all nodes at once."""
        messages = dict(msgdata)
        self.mailbox, outer = None, self.mailbox
        with hidden():
            laws = laws_of(func, messages)
        mailbox = Mailbox(self, graph)
        if laws is not None:
            result = {
                key: sum_up(
                    [mailbox.sum(messages[k], law) for k, law in found.items()]
                )
                for key, found in laws.items()
            }
        else:
            mail = {key: mailbox.put(rows) for key, rows in messages.items()}
            self.mailbox = mailbox
            try:
                result = func(_Nodes(graph, mail))
            finally:
                self.mailbox = outer
            result = {
                key: self._reduced(graph, mailbox, key, rows)
                for key, rows in result.items()
            }
        if not self._model.training:
            self._check_reduced(graph, func, messages, result)
        return result

    def _reduced(
        self, graph: dgl.DGLGraph, mailbox: Mailbox, key: str, rows: Any
    ) -> torch.Tensor:
        """Return a result of a reduce function, for every node."""
        tensor = isinstance(rows, torch.Tensor) and rows.dim() > 0
        if mailbox.holds(rows) or not tensor or mailbox.takes(rows, None):
            mailbox.refuse(f"it returns {key!r} without a row for each node")
        # DGL does not call it for a node without messages, and leaves zeros.
        return self.where_messages(graph, rows, None)

    def where_messages(
        self, graph: dgl.DGLGraph, rows: torch.Tensor, old: Any
    ) -> torch.Tensor:
        """Return rows, with old ones (or zeros) where no edges come in."""
        missing = graph.in_degrees() == 0
        if not self._may_lack_edges(self.key_of(graph._graph)):
            value = self.add(
                "call", torch.any, self.lift((missing,)), {}, torch.tensor(False)
            )
            self.trace.guards.append(Guard(value, False))
            return rows
        shape = (-1, *[1] * (rows.dim() - 1))
        new = rows * (~missing).to(rows.dtype).reshape(shape)
        if old is None:
            return new
        return new + old * missing.to(rows.dtype).reshape(shape)

    def _may_lack_edges(self, key: Any) -> bool:
        """Return whether nodes of the user's graph may have no in-edges."""
        if not isinstance(key, str):
            return key[0] != "add_self_loop"
        if key not in self._lacking:
            graph = self.users_graphs.get(key)
            with hidden():
                self._lacking[key] = graph is not None and bool(
                    (graph.in_degrees() == 0).any()
                )
        return self._lacking[key]

    def _check_reduced(
        self, graph: dgl.DGLGraph, func: Callable, messages: dict, found: dict
    ) -> None:
        """Compare what was recorded with what DGL computes."""
        with hidden(), torch.no_grad():
            expected = reduce_udf(graph, func, messages)
            same = set(expected) == set(found) and all(
                shape_of(rows) == shape_of(found[key])
                and torch.allclose(rows, found[key], rtol=1e-3, atol=1e-4)
                for key, rows in expected.items()
            )
        if not same:
            self.refuse(
                OPERATION,
                "is not a linear filter: it is not a function of the sum or "
                "the mean of each node's messages",
                "Use fn.sum or fn.mean",
            )

    # Message passing over edges and nodes that are given

    def send_and_recv(
        self, graph: dgl.DGLGraph, edges: Any, message_func: Any,
        reduce_func: Any, apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """Pass messages over edges that are given: all of them."""
        if isinstance(edges, (tuple, list)) and len(edges) == 2:
            u, v = graph.edges()
            pairs = [(edges[0], u), (edges[1], v)]
        else:
            pairs = [(edges, graph.edges(form="eid"))]
        for given, every in pairs:
            self._check_all(given, every, "edges")
        self._send(graph, message_func, reduce_func, apply_node_func, True)

    def pull(
        self, graph: dgl.DGLGraph, v: Any, message_func: Any,
        reduce_func: Any, apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """Pass messages to nodes that are given: all of them."""
        self._check_all(v, graph.nodes(), "nodes")
        self._send(graph, message_func, reduce_func, apply_node_func, False)

    def push(
        self, graph: dgl.DGLGraph, u: Any, message_func: Any,
        reduce_func: Any, apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """Pass messages from nodes that are given: all of them."""
        self._check_all(u, graph.nodes(), "nodes")
        self._send(graph, message_func, reduce_func, apply_node_func, True)

    def _check_all(self, given: Any, every: torch.Tensor, what: str) -> None:
        """Refuse some of the nodes or edges; check it on the user's graph."""
        if not isinstance(given, torch.Tensor):
            with hidden():
                given = torch.as_tensor(given).to(every)
        with hidden():
            same = given.shape == every.shape and torch.equal(
                given.to(every), every
            )
        if not same:
            self.refuse(
                "message passing",
                f"runs over some of the {what}, or over {what} in another "
                f"order",
                f"Pass all {what}, or call update_all",
            )
        value = self.add(
            "call", torch.equal, self.lift((given, every)), {}, True
        )
        if value.args[0] is not value.args[1]:
            self.trace.guards.append(Guard(value, True))

    def _send(
        self, graph: dgl.DGLGraph, message_func: Any, reduce_func: Any,
        apply_node_func: Any, keeps_old: bool,
    ) -> None:  # fmt: skip
        """Pass messages over all edges.

        With ``keeps_old``, nodes without incoming edges keep their features.
        """
        found = dgl.core.message_passing(
            graph, message_func, reduce_func, apply_node_func
        )
        if keeps_old:
            found = {
                key: self.where_messages(graph, rows, graph.ndata.get(key))
                for key, rows in found.items()
            }
        graph.ndata.update(found)

    def static(
        self, graph: Any, name: str, original: Callable, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
        """Call a method of the graph, and record a static value."""
        with hidden():
            result = original(graph, *args, **kwargs)
        if isinstance(result, (torch.Tensor, tuple)):
            index = graph._graph
            if isinstance(index, dgl.DGLGraph):
                index = index._graph
            target = (self.key_of(index), name)
            value = self.add(
                "graph", target, self.lift(args), self.lift(kwargs), result,
                data=True,
            )  # fmt: skip
            self.bind_result(result, value)
        return result

    def derive(
        self, name: str, original: Callable, args: tuple, kwargs: dict
    ) -> dgl.DGLGraph:
        """Derive a graph from another, and remember it."""
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
                    f"is called on a graph with edge features made in forward "
                    f"({feature!r})",
                    "Derive the graph before the features are assigned, or "
                    "assign them before the model is called",
                )
        options = frozen(rest), frozen(sorted(kwargs.items()))
        self.add_graph(result, (name, key, *options), like=graph)
        return result


class _Lazy(dict):
    """A dict that computes each item when it is read."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> Any:
        return self._find(name)


class _Edges:
    """The argument of a message function: features of all edges."""

    def __init__(self, tracer: GraphTracer, graph: dgl.DGLGraph) -> None:
        find = tracer.ends
        self.src = _Lazy(lambda key: find(graph, graph.srcdata[key], "u"))
        self.dst = _Lazy(lambda key: find(graph, graph.dstdata[key], "v"))
        self.data = graph.edata
        self._graph = graph

    def edges(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self._graph.edges(form="all")

    def batch_size(self) -> int:
        return self._graph.num_edges()

    __len__ = batch_size


class _Nodes:
    """The argument of a reduce function: features of all nodes, and mail."""

    def __init__(self, graph: dgl.DGLGraph, mailbox: dict) -> None:
        self.data = graph.dstdata
        self.mailbox = mailbox
        self._graph = graph

    def nodes(self) -> torch.Tensor:
        return self._graph.nodes()

    def batch_size(self) -> int:
        return self._graph.num_nodes()

    __len__ = batch_size


def sum_up(parts: list[torch.Tensor]) -> torch.Tensor:
    """Add up tensors."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def frozen(item: Any) -> Any:
    """Turn lists into tuples, which can be keys."""
    if isinstance(item, (list, tuple)):
        return tuple(map(frozen, item))
    return item
