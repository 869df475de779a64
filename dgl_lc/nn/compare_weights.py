"""Whether the edge weights a layer is given are those of its hop features.

A layer on hop features does not read weights of edges. Those that it is given
tell what the layer that it replaces would have computed. Two sums of them are
compared: see :class:`~dgl_lc.graph_counts.WeightSums`.
"""

import math
import weakref
from typing import Any, NamedTuple

import dgl
import torch as th
from dgl import DGLError
from dgl.nn import EdgeWeightNorm

from ..graph_counts import WeightSums
from ..hops import FilterSpec
from ..precompute.graph.count_graph import sum_weights

#: What is given to block_aggregate for weights that a layer normalizes.
RECIPE = 'norm="none", edge_weight=dgl.nn.EdgeWeightNorm("both")(g, w)'
#: How much the sums of the same weights differ at most, of another type.
TOLERANCE = 1e-3


class _KnownSums(NamedTuple):
    """Sums of weights that were not changed since."""

    weight: weakref.ref
    version: int
    graph_index: weakref.ref
    sums: WeightSums


#: By the id of the weights, and whether they were normalized.
_known: dict[tuple[int, bool], _KnownSums] = {}


def check_weight(name: str, graph: Any, edge_weight: Any) -> None:
    """Refuse weights that can't be those of a filter, on a graph or None."""
    if edge_weight is None:
        return
    if not isinstance(edge_weight, th.Tensor):
        raise DGLError(
            f"{name}: edge_weight should be a tensor, got "
            f"{type(edge_weight).__name__}."
        )
    if edge_weight.requires_grad:
        raise DGLError(
            f"{name}: edge_weight has requires_grad=True, but learned weights "
            f"can't be precomputed: give edge_weight.detach() to the layer "
            f"and to block_aggregate, or use the layer of dgl.nn."
        )
    if not hasattr(graph, "num_edges"):
        return
    count, shape = graph.num_edges(), tuple(edge_weight.shape)
    if shape not in ((count,), (count, 1)):
        raise DGLError(
            f"{name}: edge_weight should be one number for each of the "
            f"{count:,} edges of the graph, got a tensor of shape {shape}."
        )


def check_same_weights(
    name: str,
    filter: FilterSpec,
    graph: Any,
    edge_weight: th.Tensor,
    normalized: bool,
    adds_self_loop: bool,
    hint: str,
) -> None:
    """Refuse other weights than those of the filter.

    Parameters
    ----------
    name : str
        The layer.
    filter : FilterSpec
        The filter of the hop features. If the sums of its weights are not
        known, there is nothing to compare.
    graph : DGLGraph or DiskGraph
        The graph that the layer is given.
    edge_weight : Tensor
        The weights that it is given.
    normalized : bool
        Whether it normalizes them.
    adds_self_loop : bool
        Whether it adds a self-loop of weight 1 to each node.
    hint : str
        The end of the message.
    """
    seen = filter.seen_graph
    if seen is None or seen.weights is None:
        return
    if normalized and not isinstance(graph, dgl.DGLGraph):
        # DGL does not normalize the weights of a graph on disk.
        return
    sums = _sums(edge_weight, graph, normalized)
    if adds_self_loop:
        sums = sums.add_ones(graph.num_nodes())
    if _are_close(sums, seen.weights, seen.num_edges):
        return
    if normalized:
        advice = f"the layer normalizes weights w, so give {RECIPE}"
    else:
        advice = "give the same edge_weight="
        if adds_self_loop:
            advice += ", with 1 for each added self-loop,"
    raise DGLError(
        f"{name}: edge_weight is not what the hop features were precomputed "
        f"with: the {'normalized ' if normalized else ''}weights sum up to "
        f"{sums.weights:.6g} (their squares to {sums.squares:.6g}), those of "
        f"the hop features to {seen.weights.weights:.6g} "
        f"({seen.weights.squares:.6g}): {advice} to block_aggregate.{hint}"
    )


def _are_close(one: WeightSums, other: WeightSums, count: int) -> bool:
    """Compare sums; positive and negative weights may cancel out."""
    least = 1e-6 * math.sqrt(count * other.squares)
    return one.finite and all(
        abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) + rest
        for a, b, rest in zip(one, other, (least, 0.0), strict=True)
    )


def _sums(weight: th.Tensor, graph: Any, normalized: bool) -> WeightSums:
    """Sum up weights, once for as long as they and the graph stay as is."""
    if weight.is_inference():
        # It has no version that would tell of a change.
        return _compute_sums(weight, graph, normalized)
    key = id(weight), normalized
    index = getattr(graph, "_graph", graph)
    entry = _known.get(key)
    if (
        entry is None
        or entry.weight() is not weight
        or entry.version != weight._version
        or (normalized and entry.graph_index() is not index)
    ):

        def forget(_: weakref.ref) -> None:
            _known.pop(key, None)

        entry = _known[key] = _KnownSums(
            weakref.ref(weight, forget), weight._version, weakref.ref(index),
            _compute_sums(weight, graph, normalized),
        )  # fmt: skip
    return entry.sums


def _compute_sums(
    weight: th.Tensor, graph: Any, normalized: bool
) -> WeightSums:
    if not normalized:
        return sum_weights(weight)
    exact = weight.to(graph.device, th.float64).reshape(-1)
    if "coo" not in [
        name for kind in graph.formats().values() for name in kind
    ]:
        # DGL lists edges in their order with this format alone.
        graph = graph.formats("coo")
    with th.no_grad():
        return sum_weights(EdgeWeightNorm("both")(graph, exact))
