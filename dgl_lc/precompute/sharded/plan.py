"""Planning a call for many ranks: on paper, and when they make it."""

from typing import Any

import psutil
import torch
import torch.distributed as dist
from dgl import DGLError

from ...ranks.call import RankCall
from ..planning.rank_modes import edge_mode
from ..planning.rank_rates import Rates, rates_with
from ..planning.rank_traffic import Machines, RankResult
from ..planning.ranks import (
    RanksPlan,
    check_machines,
    choose_mode,
    list_modes,
    make_ranks_plan,
)
from ..request import Request
from ..survey import work_at_all_rows
from .edge_shards import survey_shards
from .layout import RankLayout, check_split
from .planned_exchange import PlannedShards, largest_shard, read_shards


def check_ranks(
    ranks: Any, hosts: Any, split: Any, network: Any, device: Any
) -> None:
    """Refuse a call of :func:`plan_on_ranks` before anything is read."""
    check_machines(ranks, hosts)
    check_split(split, ranks)
    rates_with(network)
    if device is not None and torch.device(device).type != "cpu":
        raise DGLError(
            f"ranks= plans for CPUs, not for device={str(device)!r}: omit one "
            f"of them. On GPUs the ranks share the columns."
        )


def plan_on_ranks(
    request: Request,
    ranks: int,
    hosts: int,
    budget: int | None,
    result: RankResult,
    split: Any,
    network: Any,
) -> RanksPlan:
    """Plan a call for many ranks, with the bytes that they would send."""
    found = survey_shards(request, budget)
    given = [] if budget is None else [budget]
    memory = psutil.virtual_memory().available
    machines = Machines(
        ranks, hosts, _own_budget(given, -(-ranks // hosts), memory),
        rates_with(network), bool(given),
    )  # fmt: skip

    def shards_of(shards: int) -> PlannedShards:
        return read_shards(request, found, shards, ranks, budget)

    return make_ranks_plan(found.work, machines, result, split, shards_of)


def _own_budget(budgets: list[int], sharing: int, memory: int) -> int:
    """Give the memory of each rank: the least that was given, or a share."""
    return min(budgets) if budgets else memory // sharing


def choose_layout(
    call: RankCall,
    request: Request,
    on_device: bool,
    result: RankResult,
    budget: int | None,
) -> RankLayout:
    """Choose how the ranks of a call share it, the same on all of them.

    From sizes alone: the graph is not read. The memory is the least that any
    rank was given, or all of rank 0's host, which is the same when a run is
    started again.
    """
    size = call.ranks.size
    found = call.gather([budget, on_device])
    if request.last == 0 or any(device for _, device in found):
        # Devices compute columns.
        return RankLayout(size, 1)
    known = [own for own, _ in found if own is not None]
    hosts = len(set(call.hosts))
    memory = psutil.virtual_memory().total
    machines = Machines(
        size, hosts, _own_budget(known, -(-size // hosts), memory), Rates(),
        bool(known),
    )  # fmt: skip
    work = work_at_all_rows(request, stored=True)
    whole = call.ranks.group is dist.group.WORLD
    columns, *others = list_modes(work, machines, result)
    if columns.fits:
        # A split that is faster must not need more memory than there is.
        others = [
            mode
            for mode in others
            if edge_mode(
                work, machines, result, mode.layout,
                largest_shard(work, mode.layout.edges, machines.limit),
            ).fits
        ]  # fmt: skip
    modes = [
        mode
        for mode in (columns, *others)
        if mode.fits and (whole or not mode.layout.is_mesh)
    ]
    # Where nothing fits, the split into columns says what would be enough.
    own = choose_mode(modes).layout if modes else columns.layout
    # Memory may differ between hosts.
    return RankLayout(*call.gather([own.columns, own.edges])[0])
