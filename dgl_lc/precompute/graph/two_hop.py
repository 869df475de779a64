"""Exact neighbourhoods: nodes at distance one, and at distance two."""

from itertools import pairwise

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..._common.bytes import format_bytes, parse_bytes
from .in_edges import in_edges

#: Paths of two edges that are looked at at a time.
PATHS = 1 << 22


def one_hop_graph(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    """The graph without self-loops and multi-edges.

    >>> g = dgl.graph(([0, 0, 1, 1], [1, 1, 1, 2]))
    >>> one_hop_graph(g).edges()
    (tensor([0, 1]), tensor([1, 2]))
    """
    n = graph.num_nodes()
    edges = in_edges(graph)
    source = edges.load()
    target = np.repeat(np.arange(n), np.diff(edges.indptr))
    different = source != target
    return _graph(np.unique((target * n + source)[different]), graph)


def two_hop_graph(
    graph: dgl.DGLGraph,
    memory: int | str | None = None,
    *,
    paths_at_once: int = PATHS,
) -> dgl.DGLGraph:
    """Edges from every node to those exactly two steps away.

    On a graph with hubs these are very many. Their number is bounded before
    anything is made, by the paths of two edges.

    Parameters
    ----------
    graph : DGLGraph
        A graph without self-loops and multi-edges (:func:`one_hop_graph`).
    memory : int or str, optional
        Bytes the edges may take, such as "4GiB". Default: "4GiB".
    paths_at_once : int
        Paths of two edges that are looked at at a time, at least.

    Examples
    --------
    >>> g = dgl.graph(([0, 1, 2, 0], [1, 2, 3, 3]))
    >>> two_hop_graph(g).edges()
    (tensor([0, 1]), tensor([2, 3]))
    """
    limit = parse_bytes("4GiB" if memory is None else memory)
    n = graph.num_nodes()
    edges = in_edges(graph)
    indptr, sources = edges.indptr, edges.load()
    degrees = np.diff(indptr)
    # Paths u -> v -> w that end in w, for every w.
    paths = np.zeros(n, np.int64)
    np.add.at(paths, np.repeat(np.arange(n), degrees), degrees[sources])
    total = int(paths.sum())
    # Sources and targets, and once more while they are put together.
    size = 32 * total
    if size > limit:
        raise DGLError(
            f"the graph has {total:,} paths of two edges, so that its exact "
            f"2-hop neighbourhoods may take {format_bytes(size)}, more than "
            f"memory={format_bytes(limit)}. Give more memory=, or use a "
            f"model that needs powers of one filter."
        )
    bounds = [0]
    ends = np.cumsum(paths)
    while bounds[-1] < n:
        done = ends[bounds[-1] - 1] if bounds[-1] else 0
        upto = int(np.searchsorted(ends, done + paths_at_once, "right"))
        bounds.append(min(max(upto, bounds[-1] + 1), n))
    found = [
        _two_steps(indptr, sources, degrees, first, last, n)
        for first, last in pairwise(bounds)
    ]
    keys = np.concatenate(found) if found else np.empty(0, np.int64)
    return _graph(keys, graph)


def _graph(keys: np.ndarray, like: dgl.DGLGraph) -> dgl.DGLGraph:
    """The graph with edges ``target * n + source``."""
    n = like.num_nodes()
    return dgl.graph(
        (torch.from_numpy(keys % n), torch.from_numpy(keys // n)),
        num_nodes=n, idtype=like.idtype,
    )  # fmt: skip


def _two_steps(
    indptr: np.ndarray,
    sources: np.ndarray,
    degrees: np.ndarray,
    first: int,
    last: int,
    n: int,
) -> np.ndarray:
    """Keys ``w * n + u`` of pairs two steps apart, for w in a range."""
    begin, end = int(indptr[first]), int(indptr[last])
    middle = sources[begin:end].astype(np.int64)
    target = np.repeat(np.arange(first, last), degrees[first:last])
    count = degrees[middle]
    # Place of each path's first edge: the middle's edges, counted up.
    starts = np.repeat(indptr[middle] - (np.cumsum(count) - count), count)
    reached = sources[starts + np.arange(len(starts))].astype(np.int64)
    far = np.repeat(target, count)
    keys = np.unique((far * n + reached)[far != reached])
    near = target * n + middle
    return keys[~np.isin(keys, near)]
