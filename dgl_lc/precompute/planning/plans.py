"""A plan: how the work is cut, and what that costs."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dgl import DGLError

from ..._common.bytes import format_bytes
from .published import (
    Coefficients,
    PublishedPlan,
    Volumes,
    published_plan,
)
from .work import Work


class Item(enum.Enum):
    """What bytes of a plan are for, with the words it prints."""

    RESULT = "result"
    COLUMN_BUFFERS = "column buffers"
    EDGES = "edges by destination"
    DEGREES = "degrees, diagonals"
    SORTING = "sorting edges"
    FRONTIER = "frontier"
    CHUNKS = "chunks of work"
    COPYING = "copying"
    STORE = "store"
    FINDING = "finding the frontier"
    NODES = "nodes asked for"
    FIXED = "fixed"
    # On several ranks:
    EXCHANGE = "rows of other ranks on their way"
    ROWS = "exchanging the result"
    # On a device with memory of its own:
    DIAGONALS = "diagonals"
    ONES = "ones"
    RESULTS_MOVING = "results on their way"
    PLACES = "places of the results"
    WORKSPACE = "workspace (a model)"
    HUB_SUMS = "sums of hubs"
    EDGES_STAYING = "edges that stay"
    EDGES_MOVING = "edges on their way"
    ROUNDING = "rounding"

    @property
    def label(self) -> str:
        """The words for a person."""
        return self.value


@dataclass(frozen=True)
class Plan:
    """How the work is cut, and what that costs. Print it.

    Attributes
    ----------
    work : Work
        What is to be computed.
    device : str
        "cpu", or "cuda" for a device with memory of its own.
    budget : int
        Bytes that may be used.
    num_edge_blocks, num_column_blocks : int
        b and c of the paper. (a is 1: normalisation is folded into rows.)
    column_width : int
        Columns in a block; the last one may have fewer.
    resident : tuple of str
        What stays in memory from the first hop to the last.
    items : dict
        Bytes in use at the peak, by what they are for.
    bytes_moved : int
        "cuda": over the bus. "cpu": edges read and rows written. Rows that
        are gathered from where they are do not count: they are the same for
        every plan.
    published : PublishedPlan or None
        The published scheme on the same budget; None if nothing fits.
    """

    work: Work
    device: str
    budget: int
    num_edge_blocks: int
    num_column_blocks: int
    column_width: int
    resident: tuple[str, ...]
    items: dict[Item, int]
    bytes_moved: int
    published: PublishedPlan | None = field(default=None, compare=False)

    @property
    def peak_bytes(self) -> int:
        """All bytes in use at the peak."""
        return sum(self.items.values())

    def column_blocks(
        self, begin: int = 0, end: int | None = None
    ) -> list[tuple[int, int]]:
        """List first and last (exclusive) column of each block."""
        width = self.column_width
        total = self.work.num_feats if end is None else end
        return [
            (first, min(first + width, total))
            for first in range(begin, total, width)
        ]

    def __str__(self) -> str:
        work, other = self.work, self.published
        where = f"on {self.device}, memory {format_bytes(self.budget)}"
        lines = [
            f"plan: {work.num_nodes:,} nodes, {work.num_edges:,} edges, "
            f"{work.num_feats} columns of {work.kind}, K={work.K}, {where}",
            _row("", "dgl-lc", "published"),
            _row("objective", "fewest bytes", "fewest blocks"),
        ]

        def theirs(show: Callable[..., str], *names: str) -> str:
            values = [getattr(other, name) for name in names] if other else []
            return show(*values) if other else "does not fit"

        rows = [
            ("normalization blocks a", "folded", theirs(str, "a")),
            ("edge blocks b", str(self.num_edge_blocks), theirs(str, "b")),
            ("column blocks c", str(self.num_column_blocks),
             theirs(str, "c")),
            ("columns in a block", str(self.column_width),
             theirs(lambda c: str(-(-work.num_feats // c)), "c")),
            ("stays resident", ", ".join(self.resident) or "nothing",
             theirs(lambda: "nothing")),
            ("peak", format_bytes(self.peak_bytes),
             theirs(format_bytes, "peak_bytes")),
            ("bytes moved", format_bytes(self.bytes_moved),
             theirs(format_bytes, "bytes_moved")),
        ]  # fmt: skip
        lines += [_row(*row) for row in rows]
        lines.append("peak of dgl-lc:")
        lines += [
            f"  {item.label:<26}{format_bytes(size):>12}"
            for item, size in self.items.items()
            if size
        ]
        return "\n".join(lines)


def _row(name: str, ours: str, theirs: str) -> str:
    return f"  {name:<24}{ours:>26}{theirs:>18}".rstrip()


def beside_published(
    plan: Plan, coefficients: Coefficients | None = None
) -> Plan:
    """Add the published scheme's plan on the same budget."""
    work = plan.work
    volumes = Volumes.of(
        work.num_nodes, work.num_edges, work.num_feats, work.itemsize
    )
    try:
        other = published_plan(
            volumes, coefficients or Coefficients(), plan.budget,
            work.num_feats, work.K,
        )  # fmt: skip
    except DGLError:
        other = None
    return replace(plan, published=other)


_SIZES = ("num_nodes", "num_edges", "num_feats", "K", "kind")


def sort_room(plan: Plan) -> int:
    """Count the bytes of a plan for the CPU that sorting may take.

    Edges are sorted before there is memory for the result and the buffers.
    """
    items = (Item.RESULT, Item.COLUMN_BUFFERS, Item.SORTING)
    return sum(plan.items.get(item, 0) for item in items)


def check_sizes(plan: Plan, work: Work) -> None:
    """Refuse a plan that was made for other sizes."""
    for name in _SIZES:
        given, here = getattr(plan.work, name), getattr(work, name)
        if given != here:
            raise DGLError(
                f"plan was made for {name}={given}, but here it is {here}: "
                f"make it again with dgl_lc.precompute.plan."
            )
