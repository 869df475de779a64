"""The machines of many ranks, and what goes over the network between them."""

from dataclasses import dataclass

import numpy as np

from ..sharded.layout import RankLayout
from ..sharded.planned_exchange import PlannedShards
from ..sharded.row_exchange import PIECE_BYTES, Swap
from ..sharded.row_shards import exchange_bytes
from .plans import Item
from .rank_rates import Rates
from .work import Work

#: Seconds of a collective, however few bytes it has.
_LATENCY = 1e-3


@dataclass(frozen=True)
class Machines:
    """The ranks, and what each of their hosts has.

    Attributes
    ----------
    ranks, hosts : int
        How many.
    budget : int
        Bytes of memory of a rank.
    rates : Rates
        What a host does in a second.
    given : bool
        Whether the user gave the budget; else it is what a host has.
    host_memory, host_disk : int or None
        Bytes of a host. The first is what ranks may take, if not given; the
        second is not limited.
    """

    ranks: int
    hosts: int
    budget: int
    rates: Rates
    given: bool = True
    host_memory: int | None = None
    host_disk: int | None = None

    @property
    def limit(self) -> int | None:
        """The budget, if the user gave one."""
        return self.budget if self.given else None

    @property
    def ranks_of_host(self) -> int:
        """The most ranks of a host."""
        return -(-self.ranks // self.hosts)


@dataclass(frozen=True)
class RankResult:
    """Where the result goes.

    Attributes
    ----------
    stored : bool
        Whether it goes to disk.
    shared : bool
        Whether it is one store; else each rank has its rows.
    """

    stored: bool
    shared: bool

    @property
    def in_rows(self) -> bool:
        """Whether each rank ends with its own rows."""
        return not (self.stored and self.shared)

    def extra_bytes(self, work: Work, width: int, ranks: int) -> dict:
        """Count what a rank takes beside the executor, by purpose."""
        if not self.in_rows:
            return {}
        kept, size = work.kept_rows, work.itemsize
        found = {
            Item.ROWS: exchange_bytes(kept, width, size, ranks, self.stored)
        }
        if not self.stored:
            share = -(-kept // ranks)
            row = work.num_feats * size * len(work.kept_hops)
            found[Item.RESULT] = share * row
        return found


def sent_bytes(
    work: Work,
    machines: Machines,
    result: RankResult,
    layout: RankLayout,
    shards: PlannedShards,
    columns: list[int],
) -> tuple[int, ...]:
    """Count the bytes that each rank hands to collectives for others."""
    fixed, rows = _exchanged(layout, shards)
    if result.in_rows:
        kept_hops = sum(hop > 0 for hop in work.kept_hops)
        given = _given_away(work, machines.ranks, layout, shards)
        rows = rows + kept_hops * given
        if layout.edges > 1:
            # The places of these rows.
            fixed = fixed + 8 * given
    value = work.itemsize
    return tuple(
        int(fixed[group, shard] + rows[group, shard] * value * columns[group])
        for group in range(layout.columns)
        for shard in range(layout.edges)
    )


def _exchanged(
    layout: RankLayout, shards: PlannedShards
) -> tuple[np.ndarray, np.ndarray]:
    """Count bytes of ids and counts, and rows of all hops, of each rank."""
    shape = (layout.columns, layout.edges)
    fixed, rows = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if layout.edges == 1:
        return fixed, rows
    for number in range(layout.edges):
        if number >= len(shards.sizes):
            # All are like the first.
            fixed[:, number], rows[:, number] = fixed[:, 0], rows[:, 0]
            continue
        swaps = shards.sizes[number].swaps
        counts = 8 * layout.edges * (layout.edges - 1) * len(swaps)
        fixed[:, number] = counts + sum(s.id_bytes(number) for s in swaps)
        rows[:, number] = sum(s.hops * s.sent_rows(number) for s in swaps)
    return fixed, rows


def _given_away(
    work: Work, ranks: int, layout: RankLayout, shards: PlannedShards
) -> np.ndarray:
    """Count the rows of the result that each rank computes for others."""
    shape = (layout.columns, layout.edges)
    if layout.edges == 1:
        own = [len(range(rank, work.kept_rows, ranks)) for rank in range(ranks)]
        return work.kept_rows - np.array(own, np.int64).reshape(shape)
    if shards.own is None:
        part = -(-work.kept_rows // layout.edges)
        return np.full(shape, part - part // ranks, np.int64)
    numbers = np.arange(ranks).reshape(shape)
    shard = numbers % layout.edges
    return shards.own.sum(axis=1)[shard] - shards.own[shard, numbers]


def seconds_sending(
    machines: Machines,
    layout: RankLayout,
    shards: PlannedShards,
    units: int,
    hops: int,
    rows: int,
) -> float:
    """Estimate the time of sending bytes of hops, and of the result's rows.

    The first go to the ranks of a group, the second to all.
    """
    rates, sharing, seconds = machines.rates, machines.ranks_of_host, 0.0
    for size, members in ((hops, layout.edges), (rows, machines.ranks)):
        outside = _outside(members, sharing, machines.ranks)
        seconds += (
            sharing
            * size
            * (outside / rates.network + (1 - outside) / rates.local)
        )
    swaps: tuple[Swap, ...] = shards.sizes[0].swaps if shards.sizes else ()
    collectives = sum(swap.hops for swap in swaps) * units
    collectives += (hops + rows) // PIECE_BYTES
    return seconds + _LATENCY * collectives


def _outside(members: int, sharing: int, ranks: int) -> float:
    """Give the share of a rank's group that is on other hosts, at the most.

    Ranks of a host follow each other, as do those of a group.
    """
    if members == 1:
        return 0.0
    least = members
    for rank in range(ranks):
        begin = rank // members * members
        first = rank // sharing * sharing
        here = min(begin + members, first + sharing) - max(begin, first)
        least = min(least, here)
    return (members - least) / (members - 1)
