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
    if name not in ("cat", "concat", "concatenate", "vstack"):
        return None
    if not isinstance(rows, PerNode):
        return None
    return renamed(
        root, causes.MIXED_NODES, f"{name} of {rows.rows} blocks of rows",
        "mixes nodes: puts blocks with all nodes below each other, and what is "
        "then done is not done to each block alone (a view, graph or index of "
        "all blocks, a norm over them)",
        "Put heads side by side: columns, or h.view(N, heads, -1), are "
        "aggregated all at once",
    )  # fmt: skip


#: Functions that sum messages by an index.
_SUMS = frozenset({"index_add", "scatter_add", "scatter_reduce"})


@names
def _messages_by_indices(root: Root, around: Around) -> Problem | None:
    """Name message passing by indices that is not a filter."""
    value = root.value
    if root.problem.code != causes.MIXED_NODES.code:
        return None
    if not any(map(of_edges, (value, *arguments_of(value)))):
        return None
    used = next(
        (v for v in (value, *around.follow(value)) if _name(v) in _SUMS), None
    )
    if used is None:
        return None
    how = (*used.args, None, None)[4] if len(used.args) > 4 else "sum"
    how = used.kwargs.get("reduce", how)
    if _name(used) == "scatter_reduce" and how != "sum":
        return renamed(
            root, causes.NOT_A_SUM, f"scatter_reduce ({how})",
            f"{how} over neighbours is not a sum of messages",
            "Use a sum (index_add), and divide it by the degrees for a mean",
        )  # fmt: skip
    return renamed(
        root, causes.LEARNED_MESSAGES, f"{_name(used)} of messages",
        "the messages are not a sum of fixed weights times values of the ends "
        "of edges: their weights are learned (attention, gates), or they are "
        "not linear",
        "Use fixed edge weights, computed from the graph, and apply layers to "
        "nodes",
    )  # fmt: skip


def _name(value: Value) -> str:
    return value.name.strip("_")
