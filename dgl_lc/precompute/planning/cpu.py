"""The plan: how the work is cut, and what that costs.

The default plan moves the fewest bytes within the memory. Column blocks are
outside, hops inside: a column block stays where it is for all hops, so that
features are read once. Edges are read once for each hop and column block.
:mod:`.device` is for a device with memory of its own.
"""

from dataclasses import dataclass, field, replace

from dgl import DGLError

from ..._common.bytes import CACHE_LINE, format_bytes, row_stride
from ..._common.rows import COPY_ROWS
from ..cpu.chunks import CAPACITY
from ..cpu.gather import max_width
from ..graph.in_edges import SLICE
from .published import (
    Coefficients,
    PublishedPlan,
    Volumes,
    published_plan,
)

#: Work space that is taken without being asked for.
_SPACE = 1 << 27


@dataclass(frozen=True)
class Work:
    """The sizes of what is to be computed: all that a plan depends on.

    Attributes
    ----------
    num_nodes, num_edges, num_feats : int
        The graph and its features.
    kind : str
        The type in which hop features are stored, such as "float32".
    hop_rows, hop_entries : tuple of int
        For hop 1, 2, …: the rows that are computed, and their edges.
    kept_rows : int
        Rows of a hop in the result.
    kept_hops : tuple of int
        The hops in the result.
    all_rows : bool
        Whether the result has every node's row: no frontier.
    shares_features : bool
        Whether the features can be read where they are.
    input_rows : int
        Rows of the features that are needed, where they have to be copied.
    input_size : int
        Bytes of a value of the features.
    num_diagonals : int
        How many diagonals the filter has.
    weighted : bool
        Whether the filter has edge weights.
    copies_weight : bool
        Whether these have to be converted.
    owned : bool
        Whether the edges have to be sorted by destination first.
    index_size : int
        Bytes of a node id in the graph.
    threads : int
        Threads that compute.
    stored : bool
        Whether the result goes to disk.
    mapped : bool
        Whether the graph is on disk, degrees included.
    self_loop : bool
        Whether the filter gives every node a self-loop.
    """

    num_nodes: int
    num_edges: int
    num_feats: int
    kind: str
    hop_rows: tuple[int, ...]
    hop_entries: tuple[int, ...]
    kept_rows: int
    kept_hops: tuple[int, ...]
    all_rows: bool = True
    shares_features: bool = True
    input_rows: int = 0
    input_size: int = 4
    num_diagonals: int = 2
    weighted: bool = False
    copies_weight: bool = False
    owned: bool = True
    index_size: int = 8
    threads: int = 1
    stored: bool = False
    mapped: bool = False
    self_loop: bool = True

    @property
    def itemsize(self) -> int:
        return {"float64": 8, "float32": 4}.get(self.kind, 2)

    @property
    def accumulator_size(self) -> int:
        return max(4, self.itemsize)

    @property
    def K(self) -> int:
        return len(self.hop_rows)

    @property
    def result_bytes(self) -> int:
        """Bytes of the hop features that are given back, in memory."""
        if self.stored:
            return 0
        shared = self.all_rows and self.shares_features and self.kept_hops[0:1]
        hops = len(self.kept_hops) - (shared == (0,))
        return hops * self.kept_rows * self.num_feats * self.itemsize

    def buffered_rows(self) -> tuple[int, int]:
        """Rows of the buffers for even and for odd hops.

        A hop that is kept at all rows is written to the result at once; the
        others alternate between two buffers.
        """
        rows = [0, 0]
        for hop in range(self.K + 1):
            if self.all_rows and hop in self.kept_hops and not self.stored:
                continue
            if hop == 0:
                needed = 0 if self.shares_features else self.input_rows
            else:
                needed = self.hop_rows[hop - 1]
            rows[hop % 2] = max(rows[hop % 2], needed)
        return rows[0], rows[1]

    def widths(self) -> list[int]:
        """Sensible widths of a column block, widest first.

        All columns (of what the kernel takes), or rows of two cache lines
        or of one. Four lines are no faster than eight: the processor's own
        prefetching takes them for the begin of a longer row and reads on.
        Less than a line wastes the rest of it, but may be all that fits.
        """
        widest = min(self.num_feats, max_width(self.kind))
        narrow = [size // self.itemsize for size in (128, 64, 32, 16)]
        return [widest] + [width for width in narrow if width < widest]


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
    items: dict[str, int]
    bytes_moved: int
    published: PublishedPlan | None = field(default=None, compare=False)

    @property
    def peak_bytes(self) -> int:
        """All bytes in use at the peak."""
        return sum(self.items.values())

    def column_blocks(self, begin: int = 0) -> list[tuple[int, int]]:
        """First and last (exclusive) column of each block, from begin on."""
        total, width = self.work.num_feats, self.column_width
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

        def theirs(show, *names):
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
            f"  {name:<26}{format_bytes(size):>12}"
            for name, size in self.items.items()
            if size
        ]
        return "\n".join(lines)


def _row(name: str, ours: str, theirs: str) -> str:
    return f"  {name:<24}{ours:>26}{theirs:>18}".rstrip()


def make_plan(
    work: Work,
    budget: int | None = None,
    coefficients: Coefficients | None = None,
    available: int | None = None,
) -> Plan:
    """The plan for the CPU that moves the fewest bytes within the budget.

    All widths are tried, each with the fewest edge blocks that fit; of equal
    bytes moved the fewest column blocks win. Without a budget the work space
    is kept to 5/4 of the size of the features (or 128 MiB), or to what is
    ``available`` if that is less.
    """
    if budget is None:
        budget = _default_budget(work)
        if available is not None:
            budget = min(budget, available)
    best = None
    for width in work.widths():
        blocks = _fewest_edge_blocks(work, width, budget)
        if blocks is None:
            continue
        found = plan_for(work, blocks, width, budget)
        if best is None or found.bytes_moved < best.bytes_moved:
            best = found
    if best is None:
        raise DGLError(_too_small(work, budget))
    return beside_published(best, coefficients)


def beside_published(
    plan: Plan, coefficients: Coefficients | None = None
) -> Plan:
    """The plan, with the published scheme's on the same budget."""
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


def plan_for(work: Work, blocks: int, width: int, budget: int) -> Plan:
    """The plan for the CPU with given edge blocks and column width."""
    items, moved, resident = _cost(work, blocks, width)
    columns = -(-work.num_feats // width)
    return Plan(
        work, "cpu", budget, blocks, columns, width, resident, items, moved
    )


#: Edge blocks smaller than this would spend their time on overhead.
_LEAST_BLOCK = 1 << 16


def _most_edge_blocks(work: Work) -> int:
    return max(1, work.num_edges // _LEAST_BLOCK)


def _fewest_edge_blocks(work, width, budget) -> int | None:
    """The smallest b that fits: peak bytes do not grow with it."""

    def peak(blocks):
        return sum(_cost(work, blocks, width)[0].values())

    low, high = 1, _most_edge_blocks(work)
    if peak(high) > budget and peak(low) > budget:
        return None
    if peak(low) <= budget:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        if peak(middle) <= budget:
            high = middle
        else:
            low = middle
    return high


def _default_budget(work: Work) -> int:
    features = work.num_nodes * work.num_feats * work.itemsize
    # Enough to hold the rows of hop 1 whole, and the few of hop 2, where a
    # percent of the nodes is asked for.
    space = max(features * 5 // 4, _SPACE)
    peaks = []
    for width in work.widths():
        items, _, _ = _cost(work, 1, width)
        rest = sum(items.values()) - items["column buffers"]
        peaks.append((sum(items.values()), rest + space))
    return max(min(most for most, _ in peaks), max(cap for _, cap in peaks))


def _too_small(work: Work, budget: int) -> str:
    most = _most_edge_blocks(work)
    least = min(
        sum(_cost(work, blocks, width)[0].values())
        for width in work.widths()
        for blocks in {1, most}
    )
    # Rounded up, so that what is said is really enough.
    enough = -(-least // 2**20)
    result = work.result_bytes
    return (
        f"memory={format_bytes(budget)} is too small: {enough} MiB would be "
        f"enough (memory='{enough}MiB'). The result takes "
        f"{format_bytes(result)} of that; fewer nodes=, fewer hops= or a "
        f"smaller dtype= make it smaller."
    )


def _column_buffers(work: Work, width: int) -> int:
    stride = row_stride(width, work.itemsize)
    rows = work.buffered_rows()
    return sum(r * stride * work.itemsize + CACHE_LINE for r in rows)


def _cost(work: Work, blocks: int, width: int):
    """Peak bytes by purpose, bytes moved, and what stays resident."""
    n, m, acc = work.num_nodes, work.num_edges, work.accumulator_size
    stays = blocks == 1 or not work.owned
    block_edges = m if stays else -(-m // blocks)
    hops = max(work.K, 1)

    edges = 0
    if work.owned:
        edges = block_edges * (4 + acc * work.weighted)
    if work.copies_weight:
        edges += m * acc
    # Sorting reads slices of edges (twice: the next one is made while the
    # last is still there) and counts where each row's next edge goes.
    sorting = 0
    if work.owned:
        sorting = 8 * n + 6 * 8 * min(SLICE, m)
    entries = m + n
    tables = 1 if work.all_rows else hops
    chunks = 80 * (8 * (entries // CAPACITY + 1) + 4 * blocks + 16) * tables
    buffers = min(CAPACITY, entries) + 1
    slots = 2 * (m // (CAPACITY - 1)) + 2 * (blocks - 1)
    items = {
        "result": work.result_bytes,
        "column buffers": _column_buffers(work, width),
        "edges by destination": edges,
        "degrees, diagonals": (8 * (n + 1) if work.owned else 0)
        + (0 if work.mapped else 8 * n)
        + work.num_diagonals * acc * n,
        "sorting edges": sorting,
        "frontier": 0 if work.all_rows else _frontier_bytes(work),
        "chunks of work": chunks
        + work.threads * buffers * (12 + 2 * acc)
        + slots * width * acc,
        "copying": COPY_ROWS * width * (work.input_size + 16) + 2**16,
    }
    if work.stored:
        # Sums of rows, before and after a column block; places of the rows.
        items["store"] = 32 * work.kept_rows + (
            work.threads * COPY_ROWS * width * 2 * work.itemsize
        )
    # These come before the result and the buffers are allocated.
    later = items["result"] + items["column buffers"]
    if stays:
        items["sorting edges"] = max(0, sorting - later)
    if not work.all_rows:
        items["finding the frontier"] = max(0, 12 * n - later)
    columns = -(-work.num_feats // width)
    index_size = 4 if work.owned else work.index_size
    moved = columns * sum(
        index_size * entries + 8 * rows
        for rows, entries in zip(work.hop_rows, work.hop_entries, strict=True)
    )
    row_bytes = work.num_feats * work.itemsize
    moved += row_bytes * sum(work.hop_rows)
    if not work.shares_features:
        moved += row_bytes * work.input_rows
    if not stays:
        moved += columns * work.K * blocks * 2 * work.index_size * m
    resident = ("edges", "column block") if stays else ("column block",)
    return items, moved, resident


def _frontier_bytes(work: Work) -> int:
    """Row lists, and places of rows."""
    n = work.num_nodes
    lists = sum(r for r in (*work.hop_rows, work.input_rows) if r < n)
    return 4 * (lists + n)
