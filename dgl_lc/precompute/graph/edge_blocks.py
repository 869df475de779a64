"""Edge blocks as graphs, and the block-wise normalisation."""

from typing import NamedTuple

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..._common.threads import ranges
from .. import checks as inputs
from .adjacency import GraphLike, as_graph, as_unweighted
from .filters import diagonals
from .in_edges import in_edges


def edge_blocks(g: GraphLike, num_blocks: int) -> list[dgl.DGLGraph]:
    """Split a graph's edges into balanced edge blocks.

    A block is a graph with all nodes of g and a contiguous range of its
    edges sorted by destination. Every edge is in one block; the blocks'
    sizes differ by at most one, whatever the degrees.

    Parameters
    ----------
    g : DGLGraph, sparse matrix or pair
        A homogeneous graph on the CPU, or one as
        :func:`dgl_lc.precompute.block_aggregate` takes it: entry (i, j) of a
        matrix is an edge from i to j.
    num_blocks : int
        How many blocks.

    Returns
    -------
    list of DGLGraph
        The blocks; ``edata[dgl.EID]`` holds the ids the edges have in g, and
        ``edata["weight"]`` the values of a matrix that are not all one.

    Examples
    --------
    >>> import dgl
    >>> from dgl_lc.precompute import edge_blocks
    >>> g = dgl.graph(([0, 1, 2, 3, 4], [2, 2, 2, 0, 0]))
    >>> first, second = edge_blocks(g, 2)
    >>> first.edges()
    (tensor([3, 4, 0]), tensor([0, 0, 2]))
    >>> second.edata[dgl.EID]
    tensor([1, 2])
    """
    g, weight = as_graph(g)
    inputs.check_graph(g)
    _check_count(num_blocks)
    edges = in_edges(g)
    order, indices = edges.order(), edges.whole().indices
    places = np.arange(len(order))
    targets = np.searchsorted(edges.indptr, places, "right") - 1
    blocks = []
    for begin, end in ranges(len(order), num_blocks):
        ends = (
            torch.from_numpy(ids[begin:end]).to(g.idtype)
            for ids in (indices, targets)
        )
        block = dgl.graph(tuple(ends), num_nodes=g.num_nodes())
        ids = torch.from_numpy(order[begin:end]).to(g.idtype)
        block.edata[dgl.EID] = ids
        if weight is not None:
            block.edata["weight"] = weight[ids.long()]
        blocks.append(block)
    return blocks


class NormalizedEdges(NamedTuple):
    """The entries of S: on the edges of the graph, and on the diagonal."""

    edge_weight: torch.Tensor
    diagonal: torch.Tensor


def normalize(
    g: GraphLike,
    *,
    norm: str = "both",
    self_loop: bool = True,
    num_blocks: int = 1,
    dtype: torch.dtype = torch.float32,
) -> NormalizedEdges:
    r"""Compute the entries of the filter S, block by block.

    :func:`dgl_lc.precompute.block_aggregate` does not need them: this is for
    those who want S as edge weights. For every X,
    ``u_mul_e_sum(g, X, edge_weight) + diagonal[:, None] * X`` is
    :math:`S X`.

    Parameters
    ----------
    g : DGLGraph, sparse matrix or pair
        A homogeneous graph on the CPU, or one as
        :func:`dgl_lc.precompute.block_aggregate` takes it, without weights.
    norm, self_loop
        As in :func:`dgl_lc.precompute.block_aggregate`. With ``self_loop``,
        the self-loops of g get weight 0: they are in the diagonal.
    num_blocks : int
        The paper's a: edges are normalised in so many blocks, which bounds
        the temporary memory.
    dtype : torch.dtype
        float32 or float64.

    Returns
    -------
    NormalizedEdges
        ``edge_weight``, in the order of g's edges, and ``diagonal``.

    Examples
    --------
    >>> import dgl
    >>> from dgl_lc.precompute import normalize
    >>> normalize(dgl.graph(([0, 1, 1], [1, 0, 1])))
    NormalizedEdges(edge_weight=tensor([0.5000, 0.5000, 0.0000]),
                    diagonal=tensor([0.5000, 0.5000]))
    """
    g = as_unweighted(g)
    inputs.check_graph(g)
    _check_count(num_blocks)
    spec = inputs.check_spec(norm, self_loop, weighted=False)
    if dtype not in (torch.float32, torch.float64):
        raise DGLError(f"dtype should be float32 or float64, got {dtype}.")
    n, m = g.num_nodes(), g.num_edges()
    array_type = np.float32 if dtype == torch.float32 else np.float64
    edges = in_edges(g)
    edges.check_edge_ids()
    left, right = diagonals(edges, spec, array_type)
    weight = np.ones(m, array_type)
    size = max(1, -(-m // num_blocks))
    for first, ids, source, target in edges.slices(size):
        block: np.ndarray = np.ones(len(source), array_type)
        if left is not None:
            block *= left[target]
        if right is not None:
            block *= right[source]
        if self_loop:
            block[source == target] = 0
        weight[slice(first, first + size) if ids is None else ids] = block
    diagonal: np.ndarray = np.zeros(n, array_type)
    if self_loop:
        diagonal[:] = 1
        for factor in (left, right):
            if factor is not None:
                diagonal *= factor
    return NormalizedEdges(torch.from_numpy(weight), torch.from_numpy(diagonal))


def _check_count(num_blocks: int) -> None:
    if isinstance(num_blocks, bool) or not isinstance(num_blocks, int):
        raise DGLError(f"num_blocks should be an integer, got {num_blocks!r}.")
    if num_blocks < 1:
        raise DGLError(f"num_blocks should be at least 1, got {num_blocks}.")
