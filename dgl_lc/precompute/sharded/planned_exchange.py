"""The sizes of all edge shards of a call, found without any other rank.

Exactly, by reading the edges of one shard after the other, or from the sizes
of the graph alone, with a model of where edges come from.
"""

import math
from typing import NamedTuple

import numpy as np

from ..planning.work import Work
from ..request import Request
from ..survey import Survey
from .edge_shards import EdgeShard, cut_destinations
from .row_exchange import Swap
from .shard_bytes import ShardSizes, sorted_blocks


class PlannedShards(NamedTuple):
    """The edge shards of a call.

    Attributes
    ----------
    sizes : list of ShardSizes
        Those of each shard; of one if all are alike.
    entries : list of int
        Rows that each shard gathers, of all hops.
    edge_blocks : list of int
        In how many blocks each shard's edges are sorted.
    own : int64 array of shape (shards, ranks) or None
        How many rows that a shard computes are each rank's, where ranks keep
        row shards; None where all are alike.
    most : tuple of Swap or None
        The most that can be exchanged, if ``sizes`` are a model.
    """

    sizes: list[ShardSizes]
    entries: list[int]
    edge_blocks: list[int]
    own: np.ndarray | None
    most: tuple[Swap, ...] | None

    @property
    def exact(self) -> bool:
        """Whether the shards of a real graph were looked at."""
        return self.most is None


def read_shards(
    request: Request,
    survey: Survey,
    shards: int,
    ranks: int,
    budget: int | None,
) -> PlannedShards:
    """Find the sizes of all edge shards of a graph, exactly.

    The edges of one shard are read after those of the other, so that no more
    memory is taken than a rank takes. Rows are exchanged as by
    :class:`.row_exchange.RowExchange`.
    """
    assert survey.edges is not None
    bounds = cut_destinations(survey.edges.indptr, shards)
    sizes, blocks, entries = [], [], []
    wanted: list[list[np.ndarray]] = []
    most: list[int] = []
    hops: list[int] = []
    own = np.zeros((shards, ranks), np.int64)
    for number in range(shards):
        ends = survey.edges.indptr[bounds[number : number + 2]]
        cut = sorted_blocks(survey.work, int(ends[1] - ends[0]), budget)
        shard = EdgeShard(request, survey, bounds, number, cut)
        alike: dict[int, list[int]] = {}
        for hop, foreign in shard.foreign.items():
            alike.setdefault(id(foreign), []).append(hop)
        firsts = [group[0] for group in alike.values()]
        hops = [len(group) for group in alike.values()]
        most = [
            max(len(shard.rows_of(hop, other)) for other in range(shards))
            for hop in firsts
        ]
        wanted.append([_wanted(shard, hop) for hop in firsts])
        sizes.append(ShardSizes.without_exchange(shard))
        blocks.append(cut)
        work = shard.survey.work
        entries.append(_entries(work))
        own[number] = np.bincount(
            shard.kept_places.numpy() % ranks, minlength=ranks
        )
    row_bytes = request.num_feats * request.value_type.itemsize
    swaps = tuple(
        Swap(np.stack([part[place] for part in wanted]), most[place],
             row_bytes, hops[place])
        for place in range(len(hops))
    )  # fmt: skip
    sizes = [
        shard.exchanging(swaps, number) for number, shard in enumerate(sizes)
    ]
    return PlannedShards(sizes, entries, blocks, own, None)


def _wanted(shard: EdgeShard, hop: int) -> np.ndarray:
    """Count the foreign rows of a hop that each shard has."""
    foreign = shard.foreign[hop]
    return np.diff(np.searchsorted(foreign, shard.bounds.astype(foreign.dtype)))


def model_shards(work: Work, shards: int, budget: int | None) -> PlannedShards:
    """Estimate the sizes of the edge shards of a graph that is not read.

    All shards have the same number of rows and of edges, and every edge may
    come from any row, so that a shard with e edges is expected to read
    :math:`n (1 - e^{-e / n})` of n rows. The edges of real graphs come from
    fewer: most nodes have few edges, and neighbours share them. It reads at
    most one row per edge, and at most all rows.
    """

    def part(count: int) -> int:
        return -(-count // shards)

    foreign, most = [], []
    readers = work.hop_entries[1:] if work.K else ()
    for rows, edges in zip(work.hop_rows, readers, strict=False):
        others = rows - part(rows)
        foreign.append(_expected(others, rows, part(edges)))
        most.append(min(others, part(edges)))
    held = [0]
    if work.K and not work.shares_features:
        read = _expected(work.num_nodes, work.num_nodes,
                         part(work.hop_entries[0]))  # fmt: skip
        held = [min(work.feature_rows, read + part(work.num_nodes))]
    for place, rows in enumerate(work.hop_rows):
        extra = foreign[place] if place < len(foreign) else 0
        held.append(part(rows) + extra)
    alike = work.all_rows
    own_rows = part(work.num_nodes) if alike else 0
    lists = 4 * (held[0] + own_rows + sum(foreign[:1] if alike else foreign))
    lists += 4 * sum(work.row_lists())
    edges = part(work.num_edges)
    blocks = sorted_blocks(work, edges, budget)
    sizes = ShardSizes(
        part(work.num_nodes), edges, -(-edges // blocks), tuple(held),
        part(work.kept_rows), lists, (),
    )  # fmt: skip
    return PlannedShards(
        [sizes.exchanging(_model_swaps(work, shards, foreign), 0)],
        [part(_entries(work))],
        [blocks],
        None,
        _model_swaps(work, shards, most),
    )


def largest_shard(work: Work, shards: int, budget: int | None) -> PlannedShards:
    """Give the largest edge shard that any graph of these sizes can have.

    It has all edges, as those into one hub, and all rows are read.
    """
    n, blocks = work.num_nodes, sorted_blocks(work, work.num_edges, budget)
    exchanged = max(0, work.K - 1)
    # Lists of own rows, foreign ones and those that others read.
    lists = n + n * (not work.shares_features)
    times = min(1, exchanged) if work.all_rows else exchanged
    lists += times * (n + min((shards - 1) * n, work.num_edges))
    if not work.all_rows:
        lists += n * work.K
    held = (0 if work.shares_features else n, *work.hop_rows)
    edges = -(-work.num_edges // blocks) if work.all_rows else work.num_edges
    sizes = ShardSizes(
        n, work.num_edges, edges, held, work.kept_rows, 4 * lists,
        _model_swaps(work, shards, [n] * exchanged),
    )  # fmt: skip
    return PlannedShards([sizes], [_entries(work)], [blocks], None, ())


def _expected(rows: int, spread: int, edges: int) -> int:
    """Count the rows that edges from ``spread`` rows are expected to reach."""
    if not spread:
        return 0
    return math.ceil(rows * -math.expm1(-edges / spread))


def _model_swaps(
    work: Work, shards: int, foreign: list[int]
) -> tuple[Swap, ...]:
    row_bytes = work.num_feats * work.itemsize
    hops = 1
    if work.all_rows and foreign:
        foreign, hops = foreign[:1], len(foreign)
    found = []
    for place, count in enumerate(foreign):
        wanted = np.full((shards, shards), -(-count // max(1, shards - 1)))
        np.fill_diagonal(wanted, 0)
        rows = -(-work.hop_rows[place] // shards)
        found.append(Swap(wanted, rows, row_bytes, hops))
    return tuple(found)


def _entries(work: Work) -> int:
    """Count the rows that edges and self-loops gather, of all hops."""
    return sum(work.hop_entries) + sum(work.hop_rows) * work.self_loop
