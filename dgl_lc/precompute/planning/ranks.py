"""Planning for many ranks: which of them computes what.

Ranks share the columns, the edges, or both
(:class:`..sharded.layout.RankLayout`).
The plan is the split that is estimated to take the least time, of those whose
peak fits every rank. Splits of about the same time are decided by the fewest
edge shards: columns need no network, and give the bits of one process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dgl import DGLError

from ..._common.bytes import format_bytes
from ..sharded.layout import RankLayout, check_split
from ..sharded.planned_exchange import PlannedShards, model_shards
from .cpu import MemoryTooSmall
from .rank_modes import Mode, column_mode, edge_mode
from .rank_traffic import Machines, RankResult
from .work import Work

#: What a split with more edge shards has to save: a share, and seconds. Rates
#: are guesses, and edge shards depend on more of them.
_SHARE, _SECONDS = 0.25, 1.0
#: The most ranks that are planned for.
MOST_RANKS = 4096
#: How many splits are printed.
_SHOWN = 4

#: Gives the edge shards of a graph, by their number.
ShardsOf = Callable[[int], PlannedShards]


@dataclass(frozen=True)
class RanksPlan:
    """How ranks share the work, and what that costs. Print it.

    Attributes
    ----------
    work : Work
        What is to be computed.
    machines : Machines
        The ranks, their memory, and what hosts are assumed to do.
    result : RankResult
        Where the result goes.
    modes : tuple of Mode
        All splits, with the fewest edge shards first.
    chosen : Mode
        The one to use.
    exact : bool
        Whether the graph was read, so that bytes over the network are exact;
        else they are a model.
    """

    work: Work
    machines: Machines
    result: RankResult
    modes: tuple[Mode, ...]
    chosen: Mode
    exact: bool

    @property
    def split(self) -> str | tuple[int, int]:
        """What to give to ``block_aggregate`` as ``split``."""
        return split_of(self.chosen.layout)

    @property
    def peak_bytes(self) -> int:
        """Bytes in use at the peak of the rank that takes the most."""
        return self.chosen.peak_bytes

    @property
    def sent_bytes(self) -> tuple[int, ...]:
        """Bytes that each rank hands to collectives for other ranks."""
        return self.chosen.sent_bytes

    @property
    def seconds(self) -> float:
        """The estimated time."""
        return self.chosen.seconds

    def __str__(self) -> str:
        work, machines = self.work, self.machines
        where = "one store that all hosts see"
        if self.result.in_rows:
            where = "rows of each rank, " + (
                "in a store of its own" if self.result.stored else "in memory"
            )
        lines = [
            f"plan: {work.num_nodes:,} nodes, {work.num_edges:,} edges, "
            f"{work.num_feats} columns of {work.kind}, K={work.K}",
            f"on {_many(machines.ranks, 'rank')} of "
            f"{_many(machines.hosts, 'host')}, memory "
            f"{format_bytes(machines.budget)} per rank",
            f"result: {where}",
            f"assumed per host: {machines.rates}",
        ]
        shown = self._shown()
        lines += _table(shown, self.chosen, self.exact)
        lines.append(f"* chosen: split={self.split!r}")
        if not self.exact and machines.ranks > 1 and work.K > 1:
            lines.append(
                "sent: a model (edges from any node, shards alike); the graph "
                "was not read"
            )
        lines.append("times are estimates: bytes divided by assumed rates")
        lines.append("peak of a rank:")
        lines += [
            f"  {item.label:<34}{format_bytes(size):>12}"
            for item, size in self.chosen.items.items()
            if size
        ]
        return "\n".join(lines)

    def _shown(self) -> list[Mode]:
        """Choose what is printed: columns, edges, and the best of others."""
        wanted = [self.chosen, self.modes[0], self.modes[-1]]
        wanted += sorted(self.modes, key=_order)
        shown: list[Mode] = []
        for mode in wanted:
            if mode not in shown and len(shown) < _SHOWN:
                shown.append(mode)
        return sorted(shown, key=lambda mode: mode.layout.edges)


def split_of(layout: RankLayout) -> str | tuple[int, int]:
    """Name a layout as users do."""
    if layout.edges == 1:
        return "columns"
    return "edges" if layout.columns == 1 else (layout.columns, layout.edges)


def make_ranks_plan(
    work: Work,
    machines: Machines,
    result: RankResult,
    split: Any = None,
    shards_of: ShardsOf | None = None,
) -> RanksPlan:
    """Make the plan for many ranks.

    Parameters
    ----------
    work : Work
        What is to be computed, with ``stored=True``: the result is counted
        apart.
    machines : Machines
        Where.
    result : RankResult
        Where to.
    split
        As in :func:`dgl_lc.precompute.block_aggregate`: the split to use.
    shards_of : callable, optional
        Gives the edge shards of a real graph. Default: a model.
    """
    assert work.stored
    given = check_split(split, machines.ranks)
    modes = tuple(list_modes(work, machines, result, shards_of))
    usable = list(modes)
    if given is not None and work.K:
        usable = [mode for mode in modes if mode.layout == given]
    fitting = [mode for mode in usable if mode.fits]
    if not fitting:
        raise _nothing_fits(machines, usable)
    chosen = choose_mode(fitting)
    exact = shards_of is not None
    return RanksPlan(work, machines, result, modes, chosen, exact)


def list_modes(
    work: Work,
    machines: Machines,
    result: RankResult,
    shards_of: ShardsOf | None = None,
) -> list[Mode]:
    """Count what every split costs, with the fewest edge shards first."""
    modes = [column_mode(work, machines, result)]
    if work.K == 0:
        # There are no edges to share.
        return modes
    for edges in range(2, machines.ranks + 1):
        if machines.ranks % edges:
            continue
        if shards_of is None:
            shards = model_shards(work, edges, machines.limit)
        else:
            shards = shards_of(edges)
        layout = RankLayout(machines.ranks // edges, edges)
        modes.append(edge_mode(work, machines, result, layout, shards))
    return modes


def check_machines(
    ranks: Any, hosts: Any, prefix: str = "", most: int = MOST_RANKS
) -> None:
    """Refuse numbers of ranks and hosts that cannot be."""
    for name, value in (("ranks", ranks), ("hosts", hosts)):
        sign = " " if prefix else "="
        if type(value) is not int or not 1 <= value <= most:
            raise DGLError(
                f"{prefix}{name}{sign}{str(value)[:40]} should be an integer "
                f"from 1 to {most}."
            )
    if hosts > ranks:
        raise DGLError(
            f"{prefix}hosts is {hosts}, more than the {ranks} ranks: every "
            f"host has at least one."
        )


def choose_mode(modes: list[Mode]) -> Mode:
    """Choose the fastest; of nearly the same time, the fewest edge shards."""
    best = modes[0]
    for mode in modes[1:]:
        saved = best.seconds - mode.seconds
        if saved > _SECONDS and saved > _SHARE * best.seconds:
            best = mode
    return best


def _order(mode: Mode) -> tuple[bool, float]:
    return not mode.fits, mode.seconds


def _nothing_fits(machines: Machines, modes: list[Mode]) -> DGLError:
    reachable = [mode for mode in modes if not mode.exceeds_disk]
    if not reachable:
        return DGLError(
            f"host_disk={format_bytes(machines.host_disk or 0)} is too small "
            f"for the edges that a host reads: use more hosts."
        )
    best = min(reachable, key=lambda mode: mode.least_bytes)
    enough = -(-best.least_bytes // 2**20)
    return MemoryTooSmall(
        f"memory={format_bytes(machines.budget)} per rank is too small: "
        f"{enough} MiB would be enough with split={split_of(best.layout)!r} "
        f"(memory='{enough}MiB'). More ranks take less each where they share "
        f"the edges.",
        enough << 20,
    )


def _many(count: int, word: str) -> str:
    return f"{count} {word}" + "s" * (count > 1)


def _table(modes: list[Mode], chosen: Mode, exact: bool) -> list[str]:
    def row(name: str, show: Callable[[Mode], str]) -> str:
        cells = "".join(f"{show(mode):>13}" for mode in modes)
        return f"  {name:<25}{cells}".rstrip()

    def size(name: str) -> Callable[[Mode], str]:
        return lambda mode: format_bytes(getattr(mode, name))

    def time(name: str) -> Callable[[Mode], str]:
        return lambda mode: format_time(getattr(mode.times, name))

    def label(mode: Mode) -> str:
        split = split_of(mode.layout)
        text = split if isinstance(split, str) else f"{split[0]} x {split[1]}"
        return f"{text} *" if mode is chosen else text

    def most(mode: Mode) -> str:
        return "" if mode.most_sent is None else format_bytes(mode.most_sent)

    lines = [
        row("split", label),
        row("groups x edge shards", lambda mode:
            f"{mode.layout.columns} x {mode.layout.edges}"),
        row("columns of a unit", lambda mode: str(mode.width)),
        row("column units", lambda mode: str(mode.units)),
        row("edge blocks", lambda mode: str(mode.edge_blocks)),
        "of the rank with the most:",
        row("peak", size("peak_bytes")),
        row("fits", lambda mode: "yes" if mode.fits else "no"),
        row("sent over the network", lambda mode:
            format_bytes(max(mode.sent_bytes))),
    ]  # fmt: skip
    if not exact:
        lines.append(row("sent, at most", most))
    lines += [
        row("edges read", size("edge_bytes")),
        row("features read", size("feature_bytes")),
        row("store written and read", size("written_bytes")),
        row("time: gathering rows", time("gathering")),
        row("time: reading files", time("reading")),
        row("time: network", time("network")),
        row("time: store", time("writing")),
        row("time", lambda mode: format_time(mode.seconds)),
    ]
    return lines


def format_time(seconds: float) -> str:
    """Print a time for a person.

    >>> format_time(0.25), format_time(600), format_time(3 * 86400)
    ('0.25 s', '10 min', '3.0 d')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"
