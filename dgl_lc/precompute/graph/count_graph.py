"""Counting a graph, once for as long as it stays as it is."""

import weakref

import dgl
import torch

from ...graph_counts import MODULUS, DegreeHashes, GraphCounts, WeightSums
from ...storage.disk_graph import DiskGraph
from .edge_kernels import count_totals
from .edge_reader import SLICE
from .in_edges import InEdges, in_edges

#: Weights that are converted at once, so that no memory is needed for them.
_PIECE = 1 << 14
#: The index of each graph that was counted, by weak references, and counts.
_counted: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def count_graph(graph: dgl.DGLGraph | DiskGraph) -> GraphCounts:
    """Count the nodes, edges and self-loops of a homogeneous graph.

    This is done once for each graph. A graph that was changed in place has a
    new index, and is counted again.
    """
    # The edges of a graph on disk do not change.
    index = graph.manifest if isinstance(graph, DiskGraph) else graph._graph
    known_index, counts = _counted.get(graph, (None, None))
    if counts is None or known_index() is not index:
        if graph.device.type == "cpu":
            counts = counts_of(in_edges(graph, keep=False))
        else:
            counts = count_with_torch(graph)
        _counted[graph] = weakref.ref(index), counts
    return counts


def counts_of(edges: InEdges) -> GraphCounts:
    """Add up the degrees of a graph, without a temporary."""
    loops, looped, balanced, hashes = count_totals(
        edges.indptr, edges.out_edges, edges.loops
    )
    return GraphCounts(
        edges.num_nodes, edges.num_edges, int(loops), int(looped),
        bool(balanced), DegreeHashes(*map(int, hashes)),
    )  # fmt: skip


def count_with_torch(graph: dgl.DGLGraph) -> GraphCounts:
    """Count a graph where it is, on any device, in slices of its edges."""
    n = graph.num_nodes()
    in_edges, out_edges, loops = torch.zeros(
        3, n, dtype=torch.int64, device=graph.device
    )
    # Not every format lists its edges, but all of them can be this one.
    ends = (part.split(SLICE) for part in graph.formats("coo").edges())
    for source, target in zip(*ends, strict=True):
        in_edges += target.bincount(minlength=n)
        out_edges += source.bincount(minlength=n)
        loops += source[source == target].bincount(minlength=n)
    factor = _mix(torch.arange(n, device=graph.device))
    hashes = (
        int((factor * part).sum()) % MODULUS
        for part in (in_edges, out_edges, loops, torch.ones_like(loops))
    )
    return GraphCounts(
        n, graph.num_edges(), int(loops.sum()), int((loops > 0).sum()),
        torch.equal(in_edges, out_edges), DegreeHashes(*hashes),
    )  # fmt: skip


def _mix(nodes: torch.Tensor) -> torch.Tensor:
    """Compute what :func:`~.edge_kernels.mix` does, in signed integers."""
    found = (nodes + 1) * _signed(0x9E3779B97F4A7C15)
    found = (found ^ _shifted(found, 30)) * _signed(0xBF58476D1CE4E5B9)
    found = (found ^ _shifted(found, 27)) * _signed(0x94D049BB133111EB)
    return found ^ _shifted(found, 31)


def _signed(bits: int) -> int:
    """Return the signed integer of the same 64 bits."""
    return bits - MODULUS if bits >= MODULUS // 2 else bits


def _shifted(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right, with zeros from the left."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def sum_weights(weight: torch.Tensor) -> WeightSums:
    """Add up the weights of edges and their squares, in pieces."""
    total = squares = 0.0
    for piece in weight.detach().reshape(-1).split(_PIECE):
        exact = piece.to(torch.float64)
        total += float(exact.sum())
        squares += float(exact.dot(exact))
    return WeightSums(total, squares)
