"""Updating a hop store, after its graph or its features changed."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.dtypes import bits_of, type_of
from .._common.rows import COPY_ROWS
from ..hops import FilterSpec
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.hop_store import StoredHops
from ..storage.keys import array_key
from . import checks
from .extend import (
    all_nodes,
    check_same_graph,
    compute,
    match_weight,
    open_extendable,
    place_rows,
    write_or_replace,
    write_rows,
)
from .graph.adjacency import GraphLike
from .graph.changes import changed_filter_rows, changed_hop_rows
from .graph.in_edges import InEdges, in_edges
from .request import Request

#: Where more than this share of the rows changes, all are computed: the hops
#: that these depend on are then needed at nearly all rows anyway.
MOST = 0.5


@dataclass(frozen=True)
class Reach:
    """How far a change of a graph or its features reaches.

    Attributes
    ----------
    num_nodes, new_nodes : int
        Nodes of the new graph, and how many of them are new.
    changed_features : int
        Rows of the features that changed or are new.
    changed_filter : int
        Rows of the filter that changed or are new.
    hop_rows : tuple of int
        Rows of hop 0, 1, … that change or are new.
    changed : bool array
        A mark for each node with such a row, in any hop that is kept.
    """

    num_nodes: int
    new_nodes: int
    changed_features: int
    changed_filter: int
    hop_rows: tuple[int, ...]
    changed: np.ndarray

    @property
    def share(self) -> float:
        """The share of the nodes whose rows change, in any hop."""
        return float(self.changed.mean())

    def __str__(self) -> str:
        shares = ", ".join(
            f"{rows / self.num_nodes:.2%} of hop {hop}"
            for hop, rows in enumerate(self.hop_rows)
        )
        return (
            f"{self.new_nodes:,} new nodes, {self.changed_features:,} rows of "
            f"features and {self.changed_filter:,} rows of the filter changed "
            f"or new; rows that change: {shares}"
        )


def find_reach(
    old_graph: GraphLike,
    g: GraphLike,
    hops: Sequence[int],
    spec: FilterSpec,
    *,
    old_edge_weight: Any = None,
    edge_weight: Any = None,
    changed_features: np.ndarray | None = None,
    weight_type: torch.dtype = torch.float64,
) -> Reach:
    """Find the rows of hop features that change with the graph.

    Parameters
    ----------
    old_graph, g : DGLGraph, DiskGraph, sparse matrix or pair
        The graph before and after. New nodes come last.
    hops : sequence of int
        The hops that are kept, ascending.
    spec : FilterSpec
        The filter.
    old_edge_weight, edge_weight : optional
        The weights of a weighted filter, before and after, as for
        :func:`dgl_lc.block_aggregate`.
    changed_features : bool array, optional
        A mark for each old node whose features changed. Default: none did.
    weight_type : torch.dtype
        The type in which weights are compared.
    """
    old, old_weight = _edges_of(old_graph, old_edge_weight, spec, weight_type)
    new, weight = _edges_of(g, edge_weight, spec, weight_type)
    n = old.num_nodes
    feature_rows = np.ones(new.num_nodes, bool)
    feature_rows[:n] = False if changed_features is None else changed_features
    filter_rows = np.zeros(new.num_nodes, bool)
    if hops[-1] > 0:
        filter_rows = changed_filter_rows(
            old, new, spec, old_weight, weight, type_of(weight_type).sums
        )
    changed = np.zeros(new.num_nodes, bool)
    counts = []
    for hop, marked in enumerate(
        changed_hop_rows(
            new, filter_rows, feature_rows, hops[-1], spec.self_loop
        )
    ):
        counts.append(int(np.count_nonzero(marked)))
        if hop in hops:
            changed |= marked
    return Reach(
        new.num_nodes, new.num_nodes - n, int(feature_rows.sum()),
        int(filter_rows.sum()), tuple(counts), changed,
    )  # fmt: skip


def _edges_of(
    g: GraphLike, weight: Any, spec: FilterSpec, dtype: torch.dtype
) -> tuple[InEdges, np.ndarray | None]:
    """Give the edges of a graph, and the weights that a filter uses."""
    graph, given = checks.take_graph(g, None, weight)
    if not spec.weighted:
        return in_edges(graph), None
    found = checks.check_weight(graph, given)
    if found is None:
        raise DGLError("the filter is weighted: give the weights of all edges.")
    if not isinstance(graph, DiskGraph):
        # Those on disk are mapped, and converted as they are read.
        found = found.to(dtype).contiguous()
    return in_edges(graph), found.numpy()


def update_store(
    store: StoredHops | str | os.PathLike,
    old_graph: GraphLike,
    g: GraphLike,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    *,
    old_feat: torch.Tensor | np.ndarray | DiskFeatures | None = None,
    old_edge_weight: Any = None,
    edge_weight: Any = None,
    nodes: torch.Tensor | Sequence[int] | None = None,
    out: str | os.PathLike | None = None,
    memory: int | str | None = None,
    resume: bool = True,
    progress: bool | None = None,
    on_reach: Callable[[Reach], object] = bool,
    **options: Any,
) -> StoredHops:
    """Update a hop store, after its graph or its features changed.

    Nodes may have been added (behind the old ones), edges added or removed,
    and features and weights changed. The rows that change are found exactly,
    degrees included, and only they are computed. The others are copied, and
    compared with their checksums. Where more than half of the rows change,
    all are computed, with a warning: on graphs with hubs a few edges change
    most rows after two or three hops (:func:`find_reach`).

    The result is the store that :func:`dgl_lc.block_aggregate` writes for the
    new graph. Rows that were copied are equal to it bit for bit if the edges
    into each node are in the same order as before; otherwise they are
    rounded as sums in another order are.

    Parameters
    ----------
    store : StoredHops or path
        The store. It stays as it is until the new one is finished.
    old_graph : DGLGraph or DiskGraph
        The graph that the store was made of: its key is compared.
    g : DGLGraph or DiskGraph
        The new graph. The nodes of the old one are its first ones.
    feat : Tensor, numpy.ndarray or DiskFeatures
        The features of all nodes of the new graph.
    old_feat : Tensor, numpy.ndarray or DiskFeatures, optional
        The features that the store was made of. Default: hop 0 of a store
        with the rows of all nodes; otherwise the features of the old nodes
        have to be the same as then.
    old_edge_weight, edge_weight : optional
        The edge weights of the old and of the new graph, of a store whose
        filter is weighted, as for :func:`dgl_lc.block_aggregate`.
    nodes : Tensor or sequence, optional
        Ids or a mask of nodes whose rows are added to a store of some nodes.
        A store of all nodes gets the rows of all nodes of the new graph.
    out : path, optional
        The folder of the new store. Default: it replaces the old one, as in
        :func:`extend_store`.
    memory : int or str, optional
        Bytes that may be allocated to compute the rows, as for
        :func:`dgl_lc.block_aggregate`. Comparing the graphs takes the sorted
        edges of both, for graphs in memory, and some 100 MiB.
    on_reach : callable
        Is given the :class:`Reach` before any row is computed.
    resume, progress, **options
        As for :func:`extend_store`.

    Returns
    -------
    StoredHops
        The new store.

    Examples
    --------
    >>> import dgl, tempfile, torch
    >>> from dgl_lc.precompute import block_aggregate, update_store
    >>> g, x = dgl.rand_graph(100, 500), torch.ones(100, 3)
    >>> more = dgl.add_edges(dgl.add_nodes(g, 1), [0], [100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/hops"
    ...     _ = block_aggregate(g, x, K=1, out=path)
    ...     update_store(path, g, more, torch.ones(101, 3)).shape
    torch.Size([101, 3])
    """
    old = open_extendable(store)
    graph, weight = checks.take_graph(g, feat, edge_weight)
    before, old_weight = checks.take_graph(old_graph, old_feat, old_edge_weight)
    _check_sizes(before, graph)
    weight = match_weight(old, graph, weight)
    old_weight = match_weight(old, before, old_weight, "old_edge_weight")
    request = Request.of(
        graph, feat, old.K, old.filter.norm, old.filter.self_loop, weight,
        all_nodes(old, graph, nodes), old.hops, old.dtype,
    )  # fmt: skip
    check_same_graph(
        old, before, checks.check_weight(before, old_weight), "old_graph"
    )
    head = request.store_head()
    given = {**options, "resume": resume, "progress": progress}

    def write(path: Path) -> None:
        reach = find_reach(
            before, graph, old.hops, old.filter,
            old_edge_weight=old_weight, edge_weight=weight,
            changed_features=_changed_features(old, before, request, old_feat),
            weight_type=request.value_type.torch_sums,
        )  # fmt: skip
        on_reach(reach)
        found = place_rows(old, request, reach.changed)
        share = len(found[1]) / request.kept_rows
        if share > MOST:
            warnings.warn(
                f"{share:.0%} of the rows change: all are computed ({reach}).",
                DGLWarning,
                stacklevel=4,
            )
            compute(request, path, memory=memory, **given)
        else:
            write_rows(path, old, request, head, found, memory, given)

    return write_or_replace(old, head, out, resume, write)


def _check_sizes(
    old: dgl.DGLGraph | DiskGraph, new: dgl.DGLGraph | DiskGraph
) -> None:
    if new.num_nodes() < old.num_nodes():
        raise DGLError(
            f"the new graph has {new.num_nodes():,} nodes, fewer than the old "
            f"one, which has {old.num_nodes():,}: nodes can be added, not "
            f"removed. Remove the edges of such nodes instead."
        )


def _changed_features(
    old: StoredHops,
    old_graph: dgl.DGLGraph | DiskGraph,
    request: Request,
    old_feat: torch.Tensor | np.ndarray | DiskFeatures | None,
) -> np.ndarray:
    """Mark the old nodes whose features are not what they were."""
    n, key = old_graph.num_nodes(), old.head.made_from.get("features")
    if old_feat is None and old.nodes is None and 0 in old.hops:
        return _different_rows(_features(old_graph, old[0], old), request, n)
    if old_feat is not None:
        before = _features(old_graph, old_feat, old)
        if array_key(old_feat) != key:
            raise DGLError(
                f"old_feat is not what {old.folder} was made of: their keys "
                f"differ. Give the same features, or precompute again."
            )
        return _different_rows(before, request, n)
    same = isinstance(request.feat, torch.Tensor) and (
        array_key(request.feat[:n]) == key
    )
    if same:
        return np.zeros(n, bool)
    raise DGLError(
        f"feat: whether the features of old nodes changed can't be seen from "
        f"{old.folder}, which does not have hop 0 of all nodes. Give old_feat, "
        f"the features that it was made of."
    )


def _features(
    graph: dgl.DGLGraph | DiskGraph,
    feat: torch.Tensor | np.ndarray | DiskFeatures,
    old: StoredHops,
) -> Request:
    """Features of the old graph, checked, in the type of the store."""
    try:
        return Request.of(graph, feat, 0, dtype=old.dtype)
    except DGLError as error:
        raise DGLError(f"old_feat: {error}") from None


def _different_rows(
    before: Request, after: Request, num_rows: int
) -> np.ndarray:
    """Mark the rows that differ, in the type that hops are stored in."""
    columns = after.num_feats
    if before.num_feats != columns:
        raise DGLError(
            f"feat has {columns} columns, and the store was made of "
            f"{before.num_feats}: precompute again."
        )
    changed = np.zeros(num_rows, bool)
    size = columns * after.dtype.itemsize
    piece = max(1, min(COPY_ROWS, (1 << 24) // size))
    values = [torch.empty(piece, columns, dtype=after.dtype) for _ in range(2)]
    for first in range(0, num_rows, piece):
        rows = torch.arange(first, min(first + piece, num_rows))
        parts = [part[: len(rows)] for part in values]
        for request, part in zip((before, after), parts, strict=True):
            request.copy_columns(0, columns, rows, part)
        one, other = map(bits_of, parts)
        changed[first : first + len(rows)] = (one != other).any(axis=1)
    return changed
