"""Naming causes in the layout of rows: blocks of heads, messages by indices."""

from . import causes
from .find_roots import Root
from .name_causes import Around, names, renamed
from .refusals import Problem
from .scattered_edges import of_edges
from .tracing.values import PerNode, Value, arguments_of


@names
def _blocks_of_rows(root: Root, around: Around) -> Problem | None:
    """Name heads that lie below each other, in blocks of all nodes."""
    value = root.value
    name = value.name.strip("_")
    rows = (*value.dims, None)[0]
    if not isinstance(rows, PerNode):
        return None
    turned = name in ("reshape", "view", "flatten") and any(
        v.dims[1:2] == ("N",) for v in arguments_of(value)
    )
    if name not in ("cat", "concat", "concatenate", "vstack") and not turned:
        return None
    return renamed(
        root, causes.MIXED_NODES, f"{name} of {rows.rows} blocks of rows",
        "mixes nodes: puts blocks with all nodes below each other, and what is "
        "then done is not done to each block alone (a view, graph or index of "
        "all blocks, a norm over them)",
        "Put heads side by side: columns, or h.view(N, heads, -1), are "
        "aggregated all at once",
    )  # fmt: skip


#: Functions that sum messages by an index, and others that combine them.
_SUMS = frozenset({"index_add", "scatter_add"})
_REDUCES = frozenset({"scatter_reduce", "index_reduce"})
_WRITES = frozenset({"index_put", "scatter"})

_BY_HAND = (
    "torch.zeros_like(h).index_add(0, v, messages), with u, v = g.edges(), or "
    "dgl.ops.copy_u_sum, copy_u_mean and u_mul_e_sum"
)


@names
def _messages_by_indices(root: Root, around: Around) -> Problem | None:
    """Name message passing by indices that is not a filter."""
    value = root.value
    if root.problem.code != causes.MIXED_NODES.code:
        return None
    if not any(map(of_edges, (value, *arguments_of(value)))):
        return None
    known = _SUMS | _REDUCES | _WRITES
    used = next(
        (v for v in (value, *around.follow(value)) if _name(v) in known), None
    )
    if used is None:
        return None
    how = (*used.args, None, None)[4] if len(used.args) > 4 else "sum"
    how = used.kwargs.get("reduce", how)
    if _name(used) in _REDUCES and how not in ("sum", "mean"):
        return renamed(
            root, causes.NOT_A_SUM, f"{_name(used)} ({how})",
            f"{how} over neighbours is not a sum of messages",
            f"Use a sum or a mean: {_BY_HAND}",
        )  # fmt: skip
    if _name(used) in _WRITES and not _accumulates(used):
        if not any(v.dims[:1] == ("E",) for v in arguments_of(used)):
            return None
        return renamed(
            root, causes.UNSUPPORTED_MESSAGES, f"{_name(used)} of messages",
            "writes messages into rows of nodes: of several messages, a node "
            "gets one, and which one is not defined",
            f"Add the messages up: {_BY_HAND}",
        )  # fmt: skip
    return renamed(
        root, causes.LEARNED_MESSAGES, f"{_name(used)} of messages",
        "the messages are not a sum of fixed weights times values of the ends "
        "of edges: their weights are learned (attention, gates), or they are "
        "not linear",
        f"Use fixed edge weights, computed from the graph, and apply layers to "
        f"nodes: {_BY_HAND}",
    )  # fmt: skip


def _accumulates(value: Value) -> bool:
    """Return whether ``index_put`` adds what it is given."""
    given = value.kwargs.get("accumulate", (*value.args, False, False)[3])
    return _name(value) == "index_put" and given is True


def _name(value: Value) -> str:
    return value.name.strip("_")


_PICKS = frozenset({"getitem", "index_select", "masked_select"})


@names
def _some_edges(root: Root, around: Around) -> Problem | None:
    """Name values of some edges that are picked by a mask or by ids."""
    value = root.value
    if _name(value) not in _PICKS or value.dims[:1] != (None,):
        return None
    if root.problem.code != causes.MIXED_NODES.code:
        return None
    rows, *others = arguments_of(value)
    if not of_edges(rows) or any(v.learned or v.random for v in others):
        return None
    return renamed(
        root, causes.UNSUPPORTED_MESSAGES, f"{_name(value)} of some edges",
        "picks the values of some edges, which are not written back by the "
        "same index, or not computed row by row (a norm over these edges)",
        "Compute both for all edges, and choose: torch.where(mask.unsqueeze(1),"
        " self.a(h), self.b(h)), with a mask of the edges",
    )  # fmt: skip


@names
def _some_nodes(root: Root, around: Around) -> Problem | None:
    """Name rows of some nodes that are picked by a mask or by ids."""
    value = root.value
    if _name(value) not in _PICKS or value.row_dim is not None:
        return None
    if root.problem.code != causes.MIXED_NODES.code:
        return None
    rows, *others = arguments_of(value)
    if rows.row_dim != 0 or any(map(of_edges, others)):
        return None
    if any(v.learned or v.random for v in others):
        return None
    if any(user.name == "write_items" for user in around.follow(value)):
        return _written_nodes(root, f"{_name(value)} of some nodes")
    return renamed(
        root, causes.SOME_ROWS, f"{_name(value)} of some nodes",
        "picks the rows of some nodes, but a mini-batch has nodes of its own",
        "Return the rows of all nodes, and pick nodes outside: "
        "predict(lc.module, inputs, ids), or nodes=ids of lc.precompute",
    )  # fmt: skip


def _written_nodes(root: Root, what: str) -> Problem:
    return renamed(
        root, causes.SOME_ROWS, what,
        "picks the rows of some nodes, to write what is computed of them into "
        "these rows, but a mini-batch has nodes of its own",
        "Compute it for all nodes, and multiply by the mask as a number: h = "
        "h + mask.unsqueeze(1).float() * self.fc(x), in the place of h[mask] "
        "= h[mask] + self.fc(x[mask])",
    )  # fmt: skip


@names
def _layers_on_some_nodes(root: Root, around: Around) -> Problem | None:
    """Name layers on the rows of some nodes, by a mask or by types."""
    value = root.value
    if value.dims[:1] != (None,) or root.problem.code != (
        causes.MIXED_NODES.code
    ):
        return None
    for rows in arguments_of(value):
        picked = _name(rows) in _PICKS and rows.dims[:1] == (None,)
        whole = next(iter(arguments_of(rows)), rows)
        written = any(u.name == "write_items" for u in around.follow(value))
        if picked and rows.static and whole.row_dim == 0 and written:
            return _written_nodes(root, f"{_name(value)} on some nodes")
    return None
