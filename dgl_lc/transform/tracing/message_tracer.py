"""A tracer of message passing with functions of the user's own.

Functions of edges and reduce functions run once, for all edges or nodes.
Message passing over edges or nodes that are given runs over all of them, or
is refused.
"""

from collections.abc import Callable
from typing import Any

import dgl
import torch
from dgl.base import ALL, is_all
from dgl.frame import Frame

from ...row_programs.typed_products import typed_product
from .. import causes
from ..linearity import close
from ..refusals import LCError
from .graph_tracer import GraphTracer
from .mailbox import OPERATION, Mailbox
from .recorder import hidden
from .reduce_functions import laws_of
from .values import Guard

_apply_edges = dgl.DGLGraph.apply_edges
_reduce_udf = dgl.core.invoke_udf_reduce


class MessageTracer(GraphTracer):
    """A tracer that knows functions of edges and of mailboxes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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

    def after_refusal(
        self, error: LCError, function: Callable, args: tuple, kwargs: dict
    ) -> Any:
        """Run what was refused; know the features that it wrote as such."""
        self.mailbox = None
        result = super().after_refusal(error, function, args, kwargs)
        graph = args[0] if args else None
        value = self.trace.values[-1]
        with hidden():
            written = []
            if isinstance(result, Frame):
                written = [result[key] for key in result]
            elif isinstance(graph, dgl.DGLGraph) and result is None:
                written = [*graph.ndata.values(), *graph.edata.values()]
        for tensor in written:
            if not self.knows(tensor):
                self.bind(tensor, value)
        return result

    def _leaf(
        self, original: Callable, module: Any, name: str, args: tuple,
        kwargs: dict,
    ) -> Any:  # fmt: skip
        if self.mailbox is not None and self.mailbox.takes(args, kwargs):
            # Its functions are looked at one by one.
            return original(module, *args, **kwargs)
        return super()._leaf(original, module, name, args, kwargs)

    def edge_udf(
        self, graph: dgl.DGLGraph, eid: Any, etype: Any, func: Callable, *,
        orig_eid: Any = None,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """Run a message function on all edges at once."""
        if not is_all(eid):
            self.refuse(
                causes.UNSUPPORTED_MESSAGES,
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
            largest = self.largest_degree(graph)
            laws = laws_of(func, messages, largest)
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
                result = func(_NodesWithMail(graph, mail))
            finally:
                self.mailbox = outer
            result = {
                key: self._reduced(graph, mailbox, key, rows)
                for key, rows in result.items()
            }
        if not self.model.training:
            self._check_reduced(graph, func, messages, result)
        return result

    def _reduced(
        self, graph: dgl.DGLGraph, mailbox: Mailbox, key: str, rows: Any
    ) -> torch.Tensor:
        """Return a result of a reduce function, for every node."""
        tensor = isinstance(rows, torch.Tensor) and rows.dim() > 0
        if mailbox.holds(rows) or not tensor or mailbox.takes(rows, None):
            mailbox.reject(f"it returns {key!r} without a row for each node")
        # DGL does not call it for a node without messages, and leaves zeros.
        return self.where_messages(graph, rows, None)

    def where_messages(
        self, graph: dgl.DGLGraph, rows: torch.Tensor, old: Any
    ) -> torch.Tensor:
        """Return rows, with old ones (or zeros) where no edges come in."""
        missing = graph.in_degrees() == 0
        if not self._may_lack_edges(self.key_of(graph._graph)):
            value = self.add(
                "call",
                torch.any,
                self.lift((missing,)),
                {},
                torch.tensor(False),
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

    def largest_degree(self, graph: dgl.DGLGraph) -> int:
        """Return the largest in-degree of the user's graph, if it is one."""
        key = self.key_of(graph._graph)
        while not isinstance(key, str):
            key = key[1]
        users = self.users_graphs.get(key)
        if users is None or not users.num_edges():
            return 0
        with hidden():
            return int(users.in_degrees().max())

    def _check_reduced(
        self, graph: dgl.DGLGraph, func: Callable, messages: dict, found: dict
    ) -> None:
        """Compare what was recorded with what DGL computes."""
        with hidden(), torch.no_grad():
            expected = _reduce_udf(graph, func, messages)
            same = set(expected) == set(found) and all(
                close(found[key], rows) for key, rows in expected.items()
            )
        if not same:
            self.refuse(
                causes.NOT_A_SUM,
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

    def push_messages(
        self, graph: dgl.DGLGraph, u: Any, message_func: Any,
        reduce_func: Any, apply_node_func: Any = None, etype: Any = None,
    ) -> None:  # fmt: skip
        """Pass messages from nodes that are given: all of them."""
        self._check_all(u, graph.nodes(), "nodes")
        self._send(graph, message_func, reduce_func, apply_node_func, True)

    def apply_nodes(
        self, graph: dgl.DGLGraph, func: Callable, v: Any = ALL,
        ntype: Any = None,
    ) -> None:  # fmt: skip
        """Apply a function to nodes that are given: all of them."""
        if not is_all(v):
            self._check_all(v, graph.nodes(), "nodes")
        graph.ndata.update(func(_NodesWithMail(graph, {})))

    def apply_edges(
        self, graph: dgl.DGLGraph, func: Any, edges: Any = ALL,
        etype: Any = None,
    ) -> None:  # fmt: skip
        """Apply a function to edges; the others keep their features."""
        if is_all(edges) or not isinstance(edges, torch.Tensor):
            _apply_edges(graph, func, edges, etype)
            return
        if dgl.core.is_builtin(func):
            found = dgl.core.invoke_gsddmm(graph, func)
        else:
            found = func(_Edges(self, graph))
        chosen = torch.zeros(graph.num_edges(), dtype=torch.bool)
        chosen = chosen.index_fill(0, edges.long(), True)
        for key, rows in found.items():
            shape = (-1, *[1] * (rows.dim() - 1))
            new = rows * chosen.to(rows.dtype).reshape(shape)
            if key in graph.edata:
                kept = (~chosen).to(rows.dtype).reshape(shape)
                new = new + graph.edata[key] * kept
            graph.edata[key] = new

    def typed_linear(
        self, module: Any, x: torch.Tensor, x_type: torch.Tensor,
        sorted_by_type: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        """Record DGL's TypedLinear: a product with the matrix of a type."""
        blocks = None
        if module.regularizer == "bdd":
            blocks = (module.num_bases, module.submat_in, module.submat_out)
        given = (x, module.get_weight(), x_type, blocks)
        lifted = self.lift(given)
        with hidden():
            result = typed_product(*given)
        value = self.add("call", typed_product, lifted, {}, result)
        self.bind(result, value)
        return result

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
                causes.UNSUPPORTED_MESSAGES,
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


class _Lazy(dict):
    """A dict that computes each item when it is read."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> Any:
        return self._find(name)


class _Edges:
    """The argument of a message function: features of all edges."""

    def __init__(self, tracer: MessageTracer, graph: dgl.DGLGraph) -> None:
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


class _NodesWithMail:
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
