"""Edge shards: each rank has the edges of some destinations.

The destinations of a shard are a contiguous range of node ids. A rank computes
each hop at the rows of its range, with the edges into them, and for that reads
rows of the hop before: its own ones, and *foreign* ones that other ranks have
computed (:mod:`.row_exchange`). The features are read by every rank itself.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from ..._common.bytes import zeros
from ..._common.threads import num_threads, ranges, run_parallel
from ..graph.edge_kernels import list_marked, mark_sources
from ..graph.filters import Filter
from ..planning.cpu import too_small
from ..request import Request
from ..survey import DoesNotFit, Survey, most_work, survey

#: Nodes that are looked at together.
_NODES = 1 << 16


def cut_destinations(indptr: np.ndarray, shards: int) -> np.ndarray:
    """Cut the destinations into ranges with balanced work.

    The work of a row is its number of edges and one for itself. The edges of
    one destination are never split: a hub with more edges than a share makes
    its shard larger, and the others share what remains. No other cut has a
    largest shard that is smaller. Shards may be empty. The same arguments
    give the same cut on every rank.

    Parameters
    ----------
    indptr : integer array
        Where the edges of each destination begin.
    shards : int
        The number of ranges.

    Returns
    -------
    int64 array
        The first destination of each shard, and the number of nodes.

    Examples
    --------
    >>> cut_destinations(np.array([0, 1, 2, 9, 10, 11]), 2)
    array([0, 3, 5])
    """
    work = _WorkBefore(indptr)
    # The smallest limit within which shards that are as large as it allows
    # have all rows.
    low, high = -(-work.total // shards), work.total
    while low < high:
        middle = (low + high) // 2
        if work.fits(0, shards, middle):
            high = middle
        else:
            low = middle + 1
    limit = high
    bounds = np.zeros(shards + 1, np.int64)
    row = 0
    for shard in range(shards):
        left, begin = shards - shard, work(row)
        most = work.last_row(begin + limit)
        # An equal share of what remains, or a little more.
        share = begin - (begin - work.total) // left
        row = min(most, work.first_row(share))
        if not work.fits(row, left - 1, limit):
            row = most
        bounds[shard + 1] = row
    return bounds


class _WorkBefore:
    """The work of all rows before a row, as a function of it."""

    def __init__(self, indptr: np.ndarray):
        self._indptr = indptr
        self._rows = len(indptr) - 1
        self.total = self(self._rows)

    def __call__(self, row: int) -> int:
        return int(self._indptr[row]) + row

    def first_row(self, amount: int) -> int:
        """Find the first row with at least so much work before it."""
        low, high = 0, self._rows
        while low < high:
            middle = (low + high) // 2
            if self(middle) < amount:
                low = middle + 1
            else:
                high = middle
        return low

    def last_row(self, amount: int) -> int:
        """Find the last row with at most so much work before it."""
        # Each row has some work of its own.
        row = self.first_row(amount)
        return row if self(row) <= amount else row - 1

    def fits(self, row: int, shards: int, limit: int) -> bool:
        """Tell whether the rows from this one on fit into shards."""
        for _ in range(shards):
            if row == self._rows:
                break
            row = self.last_row(self(row) + limit)
        return row == self._rows


def survey_shards(request: Request, budget: int | None) -> Survey:
    """Survey a call that edge shards compute.

    Only finding the rows has to fit the budget: what one process would take
    for the hops is shared.
    """
    try:
        return survey(request, budget, stored=True)
    except DoesNotFit:
        assert budget is not None
        work = most_work(request, stored=True)
        raise too_small(work, budget) from None


class EdgeShard:
    """The part of a call that one rank computes, and the rows that it reads.

    The shard's own edges are read here, and no others.

    Parameters
    ----------
    request : Request
        The call, with at least one hop to compute.
    survey : Survey
        At which rows each hop is computed, by all ranks together.
    bounds : int64 array
        The first destination of each shard (:func:`cut_destinations`).
    number : int
        Which shard this is.
    edge_blocks : int
        In how many blocks the shard's edges are sorted, where they have to
        be. More than one takes less memory and more time.

    Attributes
    ----------
    low, high : int
        The first destination and the last one (exclusive).
    filter : Filter
        The filter, with the shard's edges.
    rows : list of int32 array
        For hop 1, 2, …, the rows that the shard computes, ascending; nothing
        for hop 0.
    foreign : dict of int32 array
        For hop 1 to K - 1, the rows of other shards that the next hop reads,
        ascending. Hops that are read at the same rows have the same array.
    feature_rows : int32 array or None
        The rows of the features that are needed, ascending; None where the
        kernels read the features in place.
    all_rows : list of int32 array or None
        For each hop the rows that all shards together compute; None for all.
    survey : Survey
        The same call as this shard computes it: its rows and its sizes.
    """

    def __init__(
        self,
        request: Request,
        survey: Survey,
        bounds: np.ndarray,
        number: int,
        edge_blocks: int = 1,
    ):
        assert survey.edges is not None
        edges = survey.edges
        self.request, self.bounds, self.number = request, bounds, number
        self.low, self.high = (int(at) for at in bounds[number : number + 2])
        self.all_rows = survey.rows
        self.edge_blocks = edge_blocks
        places = (int(edges.indptr[self.low]), int(edges.indptr[self.high]))
        #: How many edges the shard has.
        self.num_edges = places[1] - places[0]
        self.filter = Filter(
            edges, request.spec, request.value_type.sums,
            request.kernel_weight(), edge_blocks, places,
        )  # fmt: skip
        self.rows = self._own_rows()
        self.foreign, self.feature_rows = self._read_rows()
        self.survey = Survey(
            edges,
            [None, *self.rows[1:]],
            replace(
                survey.work,
                hop_rows=tuple(len(rows) for rows in self.rows[1:]),
                hop_entries=tuple(
                    edges.count_edges(rows) for rows in self.rows[1:]
                ),
            ),
        )

    def rows_of(self, hop: int, shard: int) -> np.ndarray | range:
        """Give the rows of a hop that a shard computes."""
        return cut_rows(self.all_rows[hop], self.bounds, shard)

    def _own_rows(self) -> list[np.ndarray]:
        found = [np.empty(0, np.int32)]
        whole = None
        for hop in range(1, self.request.last + 1):
            rows = self.rows_of(hop, self.number)
            if isinstance(rows, range):
                # The same array, so that hops share what is made from it.
                if whole is None:
                    whole = np.arange(self.low, self.high, dtype=np.int32)
                rows = whole
            found.append(rows)
        return found

    def _read_rows(self) -> tuple[dict[int, np.ndarray], np.ndarray | None]:
        """Find the foreign rows of each hop, and the rows of the features."""
        found: dict[int, np.ndarray] = {}
        known: dict[int, np.ndarray] = {}
        marks = zeros(self.request.graph.num_nodes(), np.uint8)
        for hop in range(1, self.request.last):
            # Hop K - 1 is read at the rows of hop K.
            reader = self.rows[hop + 1]
            if id(reader) not in known:
                marks[:] = 0
                self._mark_sources(reader, marks)
                marks[self.low : self.high] = 0
                known[id(reader)] = _list(marks)
            found[hop] = known[id(reader)]
        if self.request.shares_features:
            return found, None
        marks[:] = 0
        self._mark_sources(self.rows[1], marks)
        if self.request.spec.self_loop:
            for low in range(0, len(self.rows[1]), _NODES):
                marks[self.rows[1][low : low + _NODES]] = 1
        if 0 in self.request.kept:
            if self.request.nodes is None:
                marks[self.low : self.high] = 1
            else:
                for low in range(0, len(self.kept_places), _NODES):
                    marks[self.kept_nodes(low, low + _NODES)] = 1
        return found, _list(marks)

    def _mark_sources(self, rows: np.ndarray, marks: np.ndarray) -> None:
        indptr = self.filter.edges.indptr
        parts = ranges(len(rows), 8 * num_threads())
        for block in self.filter.blocks():
            # Two threads may set the same mark: both write 1.
            def mark(
                _: int,
                part: int,
                indices: np.ndarray = block.indices,
                base: int = block.begin,
            ) -> None:
                mark_sources(rows, *parts[part], indptr, indices, base, marks)

            run_parallel(mark, len(parts))

    @cached_property
    def kept_places(self) -> torch.Tensor:
        """The places in the result of the rows that this shard keeps.

        Ascending int64: positions in ``request.nodes``, or ids of nodes where
        all rows are kept. Each place of the result is one shard's.
        """
        nodes = self.request.nodes
        if nodes is None:
            return torch.arange(self.low, self.high)
        found = []
        for low in range(0, len(nodes), _NODES):
            part = nodes[low : low + _NODES]
            mine = (part >= self.low) & (part < self.high)
            found.append(low + mine.nonzero().squeeze(1))
        return torch.cat(found) if found else torch.empty(0, dtype=torch.long)

    @property
    def num_kept(self) -> int:
        """How many rows of the result this shard keeps."""
        if self.request.nodes is None:
            return self.high - self.low
        return len(self.kept_places)

    def list_bytes(self) -> int:
        """Count the bytes of own lists of rows, but for those it reads."""
        own = {id(rows): rows.nbytes for rows in self.rows if rows.base is None}
        return sum(own.values())

    def kept_nodes(self, begin: int, end: int) -> np.ndarray:
        """Give the nodes at some of the places, where nodes were asked for."""
        assert self.request.nodes is not None
        return self.request.nodes[self.kept_places[begin:end]].numpy()


def cut_rows(
    rows: np.ndarray | None, bounds: np.ndarray, shard: int
) -> np.ndarray | range:
    """Give the rows of one shard, of a list of rows or of all (None)."""
    ends = np.asarray(bounds[shard : shard + 2])
    if rows is None:
        return range(int(ends[0]), int(ends[1]))
    # Ends of another type would have NumPy convert all rows.
    begin, end = np.searchsorted(rows, ends.astype(rows.dtype))
    return rows[begin:end]


def _list(marks: np.ndarray) -> np.ndarray:
    found = zeros(int(np.count_nonzero(marks)), np.int32)
    list_marked(marks, found)
    return found
