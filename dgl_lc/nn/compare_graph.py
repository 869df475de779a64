"""Whether a graph that a layer is given is the one of its hop features.

A layer on hop features does not compute on a graph. What it is given tells
what the layer that it replaces would have computed, so that a filter of
another graph, or with other self-loops, is found before it gives another
model. Only counts and hashes of degrees are compared: see
:class:`~dgl_lc.graph_counts.GraphCounts`.
"""

from typing import Any

import dgl
import torch as th
from dgl import DGLError

from ..graph_counts import GraphCounts
from ..hops import FilterSpec
from ..node_rows import NodeRows
from ..precompute.graph.count_graph import count_graph
from ..storage.disk_graph import DiskGraph

#: The end of messages about a filter.
ONE_FILTER = (
    " All layers of a model share one filter: if they need different ones, "
    "use dgl_lc.lc_transform on the model as written for dgl.nn."
)


def check_edges(
    name: str, filter: FilterSpec, graph: Any, adds_self_loop: bool = False
) -> None:
    """Refuse a graph whose edges are not those that the filter sums over.

    Parameters
    ----------
    name : str
        The layer.
    filter : FilterSpec
        The filter of the hop features. If its graph is not known, there is
        nothing to compare.
    graph : DGLGraph or DiskGraph
        The graph that the layer is given.
    adds_self_loop : bool
        Whether the layer computes on the graph with a self-loop added to
        each node.
    """
    own = _count(name, graph)
    seen = filter.seen_graph
    if seen is None:
        return
    needed = own.add_loops() if adds_self_loop else own
    if needed == seen:
        return
    one, other = needed.seen(self_loop=True), seen.seen(self_loop=True)
    if one != other:
        raise _another_graph(name, filter.graph, own, str(one) == str(other))
    raise _other_loops(name, filter, own, needed)


def check_same_graph(name: str, filter: FilterSpec, graph: Any) -> None:
    """Refuse a graph that hop features were not precomputed on.

    Self-loops are compared only where the filter takes the graph's own.
    """
    own = _count(name, graph)
    seen = filter.seen_graph
    found = own.seen(filter.self_loop)
    if seen is not None and found != seen:
        raise _another_graph(name, filter.graph, own, str(found) == str(seen))


def check_rows(name: str, feat: NodeRows, graph: Any) -> None:
    """Refuse rows that are not those of all nodes of a graph, in order.

    The caller would take the rows of the output for those of all nodes.
    """
    _check_kind(name, graph)
    count, nodes = graph.num_nodes(), feat.nodes
    rows = feat.shape[0]
    if nodes is None and rows != count:
        raise DGLError(
            f"{name}: feat has {rows:,} rows, but the graph has {count:,} "
            f"nodes: give None as the graph."
        )
    if nodes is None:
        return
    if rows != count or not th.equal(nodes.cpu(), th.arange(count)):
        raise DGLError(
            f"{name}: a graph of {count:,} nodes was given, but these are "
            f"{rows:,} rows of some nodes: give None as the graph; row i of "
            f"the output is that of nodes[i]."
        )


def _count(name: str, graph: Any) -> GraphCounts:
    """Count a graph; refuse what can't be the one of hop features."""
    _check_kind(name, graph)
    return count_graph(graph)


def _check_kind(name: str, graph: Any) -> None:
    """Refuse what can't be the graph of hop features."""
    if isinstance(graph, DiskGraph):
        return
    if not isinstance(graph, dgl.DGLGraph):
        raise DGLError(
            f"{name}: graph should be None or a DGLGraph, got "
            f"{type(graph).__name__}. Hop features need no graph: give None."
        )
    if graph.is_block:
        raise DGLError(
            f"{name}: graph is a block (message flow graph), but hop features "
            f"need no sampling: give None, and the rows of a batch, "
            f"hops.rows(ids), or the whole graph and all rows."
        )
    if not graph.is_homogeneous:
        raise DGLError(
            f"{name}: graph is a heterograph with edge types {graph.etypes}, "
            f"but hop features are of one relation: give None or the graph "
            f"that they were precomputed on."
        )


def _another_graph(
    name: str, known: GraphCounts | None, own: GraphCounts, same_counts: bool
) -> DGLError:
    differs = f"It has {own}, that one has {known}."
    if same_counts:
        differs = (
            "It has the same numbers of nodes and of edges between them, but "
            "other degrees, such as a reversed graph, or nodes in another "
            "order."
        )
    return DGLError(
        f"{name}: the graph is not the one that the hop features were "
        f"precomputed on. {differs} Hop features "
        f"need no sampling, and know the edges of the whole graph: give None "
        f"or that graph, or precompute again on this one."
    )


def _other_loops(
    name: str, filter: FilterSpec, own: GraphCounts, needed: GraphCounts
) -> DGLError:
    """Say which argument gives the filter that sums over the loops needed."""
    assert filter.seen_graph is not None
    have, need = _loops(filter.seen_graph), _loops(own)
    whole = "this graph"
    if needed != own:
        need += ", to which the layer adds one per node"
        whole = "dgl.add_self_loop(graph)"
    if filter.self_loop:
        advice = f"give self_loop=False to block_aggregate, and {whole}"
    elif needed.one_loop_each:
        advice = "give self_loop=True to block_aggregate"
    else:
        advice = f"give {whole} to block_aggregate"
    return DGLError(
        f"{name}: the graph has {need}, but the hop features were precomputed "
        f"with {have}, which is another filter: {advice}.{ONE_FILTER}"
    )


def _loops(counts: GraphCounts) -> str:
    if counts.num_loops == 0:
        return "no self-loops"
    if counts.one_loop_each:
        return "one self-loop per node"
    loops = "self-loop" if counts.num_loops == 1 else "self-loops"
    return (
        f"{counts.num_loops:,} {loops} at {counts.num_looped:,} of its "
        f"{counts.num_nodes:,} nodes"
    )
