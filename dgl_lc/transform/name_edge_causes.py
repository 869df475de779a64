"""Naming the causes of problems that learned values of edges have."""

from collections.abc import Iterable

from . import causes
from .find_roots import Root
from .refusals import Problem
from .tracing.values import Value, arguments_of


def attention(root: Root, later: Iterable[Value]) -> Problem | None:
    """Name attention over neighbours, at the line of its softmax.

    ``later`` is what is computed from the root.
    """
    learned = (
        causes.LEARNED_EDGE_WEIGHTS.code, causes.LEARNED_MESSAGES.code,
    )  # fmt: skip
    edges = _edge_values(root.value)
    if root.problem.code == causes.MIXED_NODES.code and edges:
        # A function of edges is on the way to the softmax.
        edges = [value for value in later if value.op == "softmax"]
    elif root.problem.code not in learned:
        return None
    for edge in edges:
        if edge.op == "softmax" or "softmax" in edge.name:
            return root.named(
                causes.ATTENTION, "attention over neighbours (edge softmax)",
                "edge weights are learned, so the filter is not constant",
                "Use a layer with fixed weights, such as GraphConv or "
                "SAGEConv with mean: the LC transformation has no attention",
                edge.line,
            )  # fmt: skip
    return None


def dropped_messages(root: Root) -> Problem | None:
    """Name dropout of the messages of edges."""
    if root.problem.code != causes.LEARNED_MESSAGES.code:
        return None
    for edge in _edge_values(root.value):
        if edge.draws:
            return root.named(
                causes.DROPPED_EDGES, f"dropout of messages ({edge.name})",
                "is random for each edge, so the filter is not constant in "
                "training",
                "Apply dropout to the rows of nodes, before they are sent, or "
                "pass ignore_edge_dropout=True",
                edge.line,
            )  # fmt: skip
    return None


def layer_on_edge_features(root: Root) -> Problem | None:
    """Name messages that add a layer on features of edges."""
    value = root.value
    if value.op != "aggregate" or value.target[2] != "sum":
        return None
    if value.target[1] not in ("copy_rhs", "add", "sub"):
        return None
    edges = _edge_values(value)
    if any(v.op in ("edges", "softmax") or v.random for v in edges):
        return None
    if all(v.static for v in edges):
        return None
    ends = [a for v in edges for a in arguments_of(v) if a.row_dim == 0]
    if any(end.learned for end in ends):
        return None
    return root.named(
        causes.LEARNED_MESSAGES, "a layer on edge features",
        "is not linear alone (it has an activation, or is multiplied by "
        "weights), so that it can't be applied to the sums of the features of "
        "each node's edges, and the LC version has no edges",
        "Let the layer be linear, without an activation; or sum the features "
        "first, dgl.ops.copy_e_sum(g, edge_features), and pass the sums to "
        "the model as features of nodes",
    )  # fmt: skip


def _edge_values(value: Value) -> list[Value]:
    """Return the values of edges that a value is computed from."""
    pending = [v for v in arguments_of(value) if "E" in v.dims]
    found = dict.fromkeys(pending)
    while pending:
        for arg in arguments_of(pending.pop()):
            if "E" in arg.dims and arg not in found:
                found[arg] = None
                pending.append(arg)
    return list(found)
