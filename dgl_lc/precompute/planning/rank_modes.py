"""What a split of the work between ranks costs.

Bytes and peaks are counted by the functions that the ranks themselves use.
Times are these bytes divided by assumed rates (:mod:`.rank_rates`).
"""

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

from ..._common.bytes import CACHE_LINE, row_stride
from ..sharded.layout import RankLayout, cut_columns
from ..sharded.planned_exchange import PlannedShards
from ..sharded.shard_bytes import ShardSizes, rank_bytes, sorted_blocks
from .cost import cost_of
from .cpu import (
    MemoryTooSmall,
    fewest_edge_blocks,
    least_bytes,
    make_plan,
)
from .plans import Item
from .rank_traffic import Machines, RankResult, seconds_sending, sent_bytes
from .work import Work


class Times(NamedTuple):
    """Seconds of the slowest rank."""

    gathering: float
    reading: float
    network: float
    writing: float


@dataclass(frozen=True)
class Mode:
    """A split of the work, and what it costs.

    Attributes
    ----------
    layout : RankLayout
        Groups of ranks that take columns, and edge shards in each.
    width, units : int
        Columns that a group claims at a time, and how often.
    edge_blocks : int
        The most edge blocks of a rank.
    items : dict
        Bytes at the peak of the rank that takes the most, by purpose.
    sent_bytes : tuple of int
        Bytes that each rank hands to collectives for others.
    most_sent : int or None
        What no rank can exceed, if ``sent_bytes`` are a model.
    edge_bytes, feature_bytes, written_bytes : int
        Of the slowest rank: edges and features read, result written.
    times : Times
        The estimated time.
    least_bytes : int
        Bytes of memory that would be enough, if it does not fit; else 0.
    exceeds_disk : bool
        Whether the edges that a host reads exceed its disk.
    """

    layout: RankLayout
    width: int
    units: int
    edge_blocks: int
    items: dict[Item, int]
    sent_bytes: tuple[int, ...]
    most_sent: int | None
    edge_bytes: int
    feature_bytes: int
    written_bytes: int
    times: Times
    least_bytes: int
    exceeds_disk: bool

    @property
    def fits(self) -> bool:
        """Whether it can be used on these machines."""
        return not (self.least_bytes or self.exceeds_disk)

    @property
    def peak_bytes(self) -> int:
        """All bytes in use at the peak of a rank."""
        return sum(self.items.values())

    @property
    def seconds(self) -> float:
        """The estimated time."""
        return sum(self.times)


def column_mode(work: Work, machines: Machines, result: RankResult) -> Mode:
    """Count what a split into columns costs. ``work`` is stored."""
    ranks, budget = machines.ranks, machines.budget

    def extra(width: int) -> int:
        return sum(result.extra_bytes(work, width, ranks).values())

    if not machines.given:
        # As in a run: no more than it needs.
        with contextlib.suppress(MemoryTooSmall):
            own = make_plan(work, None, None, budget)
            budget = own.budget + extra(own.column_width)

    def blocks_of(width: int) -> int | None:
        return fewest_edge_blocks(work, width, budget - extra(width))

    widest = max(filter(blocks_of, work.widths()), default=0)
    units = _cut(work, widest or min(work.widths()), ranks)
    width = units[0][1] - units[0][0]
    blocks = blocks_of(width)
    least = 0
    if not widest or blocks is None:
        least = least_bytes(work) + min(map(extra, work.widths()))
    items = cost_of(work, blocks or 1, width).items | result.extra_bytes(
        work, width, ranks
    )
    shards = PlannedShards([], [_gathered_rows(work)], [blocks or 1], None,
                           ())  # fmt: skip
    return _mode(work, machines, result, RankLayout(ranks, 1), units, items,
                 shards, least)  # fmt: skip


def edge_mode(
    work: Work,
    machines: Machines,
    result: RankResult,
    layout: RankLayout,
    shards: PlannedShards,
) -> Mode:
    """Count what a split with several edge shards costs."""
    ranks = machines.ranks

    def items_of(width: int) -> dict[Item, int]:
        every = [
            rank_bytes(work, sizes, width, blocks)
            | result.extra_bytes(work, width, ranks)
            for sizes, blocks in zip(
                shards.sizes, shards.edge_blocks, strict=True
            )
        ]
        return max(every, key=lambda items: sum(items.values()))

    fitting = [
        width
        for width in work.widths()
        if sum(items_of(width).values()) <= machines.budget
    ]
    least = 0
    if not fitting:
        least = _enough(work, result, ranks, shards)
    widest = max(fitting, default=min(work.widths()))
    units = _cut(work, widest, layout.columns)
    items = items_of(units[0][1] - units[0][0])
    return _mode(work, machines, result, layout, units, items, shards, least)


def _enough(
    work: Work, result: RankResult, ranks: int, shards: PlannedShards
) -> int:
    """Find how much memory would be enough for edge shards.

    In how many blocks edges are sorted depends on the memory.
    """

    def peak(sizes: ShardSizes, width: int, budget: int) -> int:
        blocks = sorted_blocks(work, sizes.edges, budget)
        held = -(-sizes.edges // blocks)
        if not work.all_rows:
            # With more memory all edges are sorted to find the frontier.
            held = work.num_edges
        sizes = sizes._replace(held_edges=held)
        return sum(rank_bytes(work, sizes, width, blocks).values())

    def needed(budget: int) -> int:
        return min(
            max(peak(sizes, width, budget) for sizes in shards.sizes)
            + sum(result.extra_bytes(work, width, ranks).values())
            for width in work.widths()
        )

    if not work.owned:
        return needed(1)
    budget = needed(1 << 60) // 8
    while needed(budget) > budget:
        budget += budget // 16 + 1
    return budget


def _cut(work: Work, widest: int, groups: int) -> list[tuple[int, int]]:
    return cut_columns(work.num_feats, work.itemsize, widest, groups)


def _gathered_rows(work: Work) -> int:
    return sum(work.hop_entries) + sum(work.hop_rows) * work.self_loop


def _mode(
    work: Work,
    machines: Machines,
    result: RankResult,
    layout: RankLayout,
    units: list[tuple[int, int]],
    items: dict[Item, int],
    shards: PlannedShards,
    least: int,
) -> Mode:
    widths = [last - first for first, last in units]
    groups = [widths[group :: layout.columns] for group in
              range(layout.columns)]  # fmt: skip
    columns = [sum(own) for own in groups]
    sent = sent_bytes(work, machines, result, layout, shards, columns)
    most = None
    if shards.most is not None:
        bound = shards._replace(
            sizes=[s._replace(swaps=shards.most) for s in shards.sizes]
        )
        bounded = sent_bytes(work, machines, result, layout, bound, columns)
        # In a mesh the way of exchange is chosen for all columns.
        most = max(*sent, *bounded)
    blocks = max(shards.edge_blocks)
    edges = _edges_read(work, layout, max(map(len, groups)), blocks)
    # Every rank of a group reads the features of nearly all rows.
    features = 0
    if not work.shares_features:
        features = work.feature_rows * max(columns) * work.input_size
    written = 0
    if result.stored:
        row = work.num_feats * work.itemsize * len(work.kept_hops)
        written = -(-work.kept_rows * row // machines.ranks)
        # Parts are written, read, and put together.
        written *= 1 if result.in_rows else 3
    held = _edges_of_host(work, layout, machines)
    disk = machines.host_disk
    exceeds = disk is not None and work.mapped and held > disk
    one_store = RankResult(stored=True, shared=True)
    hops = max(sent_bytes(work, machines, one_store, layout, shards, columns))
    peak = sum(items.values())
    times = Times(
        _gathering(work, machines, shards, groups),
        _reading(work, machines, edges, features, held, peak),
        seconds_sending(machines, layout, shards, max(map(len, groups)), hops,
                 max(sent) - hops),
        written * _writing(machines, result),
    )  # fmt: skip
    return Mode(
        layout, widths[0], len(units), blocks, items, sent, most, edges,
        features, written, times, least, exceeds,
    )  # fmt: skip


def _edges_read(work: Work, layout: RankLayout, units: int, blocks: int) -> int:
    """Count the bytes of edges that a rank reads."""
    weight = work.accumulator_size if work.weighted else 0
    index = 4 if work.owned else work.index_size
    found = sum(
        (index + weight) * entries + 8 * rows
        for rows, entries in zip(work.hop_rows, work.hop_entries, strict=True)
    )
    found = -(-found * units // layout.edges)
    if work.owned and blocks > 1:
        # Each block is made from all edges.
        read = (2 * work.index_size + weight) * work.num_edges
        found += units * work.K * blocks * read
    return found


def _edges_of_host(work: Work, layout: RankLayout, machines: Machines) -> int:
    """Count the bytes of edges that the ranks of a host read between them."""
    weight = work.accumulator_size if work.weighted else 0
    size = (work.index_size + weight) * work.num_edges + 8 * work.num_nodes
    shards = min(layout.edges, machines.ranks_of_host)
    return -(-size * shards // layout.edges)


def _gathering(
    work: Work,
    machines: Machines,
    shards: PlannedShards,
    groups: list[list[int]],
) -> float:
    """Estimate the time of gathering rows: whole cache lines are read."""
    size = max(
        sum(_line_bytes(width, work.itemsize) for width in own)
        for own in groups
    )
    rate = machines.rates.gather / machines.ranks_of_host
    return max(shards.entries) * size / rate


def _line_bytes(width: int, itemsize: int) -> int:
    return max(CACHE_LINE, row_stride(width, itemsize) * itemsize)


def _reading(
    work: Work,
    machines: Machines,
    edges: int,
    features: int,
    held: int,
    peak: int,
) -> float:
    """Estimate the time of reading edges and features.

    Files that fit into what is free of a host's memory are read once.
    """
    rates, sharing = machines.rates, machines.ranks_of_host
    from_memory = sharing * edges / rates.gather
    if not work.mapped:
        return from_memory
    files = sharing * features / rates.disk
    memory = machines.host_memory
    if memory is None:
        memory = sharing * machines.budget
    if held <= memory - sharing * peak:
        return files + from_memory + held / rates.disk
    return files + sharing * edges / rates.disk


def _writing(machines: Machines, result: RankResult) -> float:
    """Estimate the seconds of a byte that a rank writes."""
    rate = machines.rates.disk
    if machines.hosts > 1 and not result.in_rows:
        # A file system that hosts share is reached over the network.
        rate = min(rate, machines.rates.network)
    return machines.ranks_of_host / rate
