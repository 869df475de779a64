"""The sizes of a request's work, and the rows at which hops are needed."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from .._common.threads import num_threads
from ..storage.disk_graph import DiskGraph
from .graph.bucket_sort import bucket_sort_bytes
from .graph.edge_reader import slice_bytes
from .graph.frontier import frontier, list_bytes, mark_bytes
from .graph.in_edges import InEdges, count_bytes, in_edges
from .graph.sort_space import sort_bytes
from .planning.cost import cost_of
from .planning.work import Work
from .request import Request

#: Rows whose loops are counted at a time.
_ROWS = 1 << 14


class DoesNotFit(Exception):
    """Finding the rows that are needed takes more than the budget."""


@dataclass(frozen=True)
class Survey:
    """The graph's edges, and at which rows each hop is computed.

    Attributes
    ----------
    edges : InEdges or None
        None where no hop has to be computed.
    rows : list of int32 array or None
        For hop 0, 1, …: ascending row ids; None for all.
    work : Work
        The sizes.
    """

    edges: InEdges | None
    rows: list[np.ndarray | None]
    work: Work

    def gathered_bytes(self) -> int:
        """Count the bytes of all rows that edges and self-loops gather.

        A self-loop of the filter takes the place of a node's own loops.
        """
        work = self.work
        entries = sum(work.hop_entries)
        if self.edges is not None and work.self_loop:
            loops = self.edges.loops
            for rows in self.rows[1:]:
                entries += work.num_nodes if rows is None else len(rows)
                entries -= _count_loops(loops, rows)
        return work.num_feats * work.itemsize * entries


def _count_loops(loops: np.ndarray, rows: np.ndarray | None) -> int:
    """Count the edges of some rows, or of all, that are loops."""
    if rows is None:
        return int(loops.sum(dtype=np.int64))
    # In pieces, because the budget has no room for a copy of all of them.
    return sum(
        int(loops[rows[low : low + _ROWS]].sum(dtype=np.int64))
        for low in range(0, len(rows), _ROWS)
    )


def survey(
    request: Request,
    budget: int | None = None,
    stored: bool = False,
    in_buckets: bool = False,
) -> Survey:
    """Find out how much is to be computed.

    The graph is read only to find the frontier, where some nodes were asked
    for. DoesNotFit is raised before that takes more than the budget. With
    ``in_buckets`` edges are then sorted in buckets, if it surely has room.
    """
    edges = in_edges(request.graph) if request.last else None
    work = work_at_all_rows(request, stored)
    rows: list[np.ndarray | None] = [None] * (request.last + 1)
    if edges is None or request.nodes is None:
        return Survey(edges, rows, work)
    taken = _bytes_before(edges, work)
    _check(taken, budget)
    # The frontier is found faster in sorted edges, if these fit as well.
    loading = 4 * work.num_edges + _sorting(work)
    if request.last > 1 and (budget is None or taken + loading <= budget):
        in_buckets = in_buckets and _fits_buckets(request, budget, stored)
        work = replace(work, bucket_sorted=in_buckets)
        room = 0
        if in_buckets:
            room = bucket_sort_bytes(
                work.num_nodes, work.num_edges, work.threads
            )
        edges.load(room)
        taken += 4 * work.num_edges if edges.owned else 0

    def before_list(length: int) -> None:
        nonlocal taken
        taken += list_bytes(length)
        _check(taken, budget)

    rows = frontier(
        edges, request.nodes.numpy(), request.kept, request.spec.self_loop,
        first=int(request.shares_features), before_list=before_list,
    )  # fmt: skip
    lengths = [None if own is None else len(own) for own in rows]
    work = replace(
        work,
        hop_rows=tuple(
            work.num_nodes if length is None else length
            for length in lengths[1:]
        ),
        hop_entries=tuple(edges.count_edges(own) for own in rows[1:]),
        input_rows=lengths[0],
    )
    return Survey(edges, rows, work)


def work_at_all_rows(request: Request, stored: bool) -> Work:
    """Give the sizes if every hop were computed at all rows."""
    graph, last = request.graph, request.last
    edges = in_edges(graph) if last else None
    n, m = graph.num_nodes(), graph.num_edges() if last else 0
    return Work(
        num_nodes=n,
        num_edges=m,
        num_feats=request.num_feats,
        kind=request.kind,
        hop_rows=(n,) * last,
        hop_entries=(m,) * last,
        kept_rows=request.kept_rows,
        kept_hops=tuple(request.kept),
        all_rows=request.nodes is None,
        shares_features=request.shares_features,
        input_size=request.feat.dtype.itemsize,
        num_diagonals=request.spec.num_diagonals,
        weighted=request.weight is not None,
        copies_weight=request.copies_weight,
        copies_nodes=request.copies_nodes,
        owned=edges is not None and edges.owned,
        expands=edges is not None and edges.expands,
        index_size=4 if graph.idtype == torch.int32 else 8,
        threads=num_threads(),
        stored=stored,
        mapped=isinstance(graph, DiskGraph),
        self_loop=request.spec.self_loop,
    )


def least_work(request: Request, stored: bool) -> list[Work]:
    """List works of which one is no more than the real one, without reading.

    Where some nodes were asked for, either hops are needed at a few rows,
    which are listed, or at all of them, and there are no lists.
    """
    work = work_at_all_rows(request, stored)
    if work.all_rows or not work.K:
        return [work]
    none = (0,) * work.K
    return [
        work, replace(work, hop_rows=none, hop_entries=none, input_rows=0)
    ]  # fmt: skip


def most_work(request: Request, stored: bool) -> Work:
    """Give a work that is no less than the real one, without reading."""
    work = work_at_all_rows(request, stored)
    if work.all_rows or not work.K:
        return work
    # One row less than all, so that it has to be listed.
    listed = max(0, work.num_nodes - 1)
    return replace(work, hop_rows=(listed,) * work.K, input_rows=listed)


def _fits_buckets(request: Request, budget: int | None, stored: bool) -> bool:
    """Whether sorting in buckets leaves a plan, whatever is needed."""
    if budget is None:
        return True
    most = replace(most_work(request, stored), bucket_sorted=True)
    return any(
        cost_of(most, 1, width).peak_bytes <= budget for width in most.widths()
    )


def _bytes_before(edges: InEdges, work: Work) -> int:
    """Count what finding the frontier takes, without the lists."""
    expanded = 0
    if edges.owned:
        expanded = slice_bytes(work.num_edges, work.index_size, work.expands)
    return (
        count_bytes(work.num_nodes, work.owned, work.mapped)
        + max(_sorting(work), mark_bytes(work.num_nodes) + expanded)
        + 8 * work.kept_rows * work.copies_nodes
    )


def _sorting(work: Work) -> int:
    if not work.owned:
        return 0
    return sort_bytes(
        work.num_nodes, work.num_edges, work.index_size, work.expands,
        work.threads,
    )  # fmt: skip


def _check(needed: int, budget: int | None) -> None:
    if budget is not None and needed > budget:
        raise DoesNotFit
