"""The plan for a device with memory of its own: the fewest bytes sent.

Features, graph and result are on the host. A column block of the features is
sent once and stays for all hops. Edges stay on the device as far as they fit;
the others are sent again for each hop and column block, through two slots,
one being filled while the other is read. Everything but the library's own
workspace is one allocation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dgl import DGLError

from ..._common.bytes import format_bytes
from ..._common.dtypes import type_of
from ..device.csr_spmm import workspace_bytes
from ..device.hubs import LONGEST, scratch_rows
from .plans import Item, Plan
from .work import Work

#: Allocations begin at multiples of this.
ALIGN = 512
#: Gathered rows are read by this many bytes at least.
_SECTOR = 32
#: Values in a buffer that a product through torch can be trusted with: ids
#: are of 32 bits there, and who knows whether their products are.
_MOST_VALUES = 1 << 31
#: Entries in a block, at most.
MOST_ENTRIES = tuple(1 << power for power in range(24, 7, -2))


@dataclass(frozen=True)
class DeviceSizes:
    """Sizes that no result depends on; tests make them small.

    Attributes
    ----------
    piece : int
        Bytes of features, or of results, on their way at a time.
    segment : int
        torch's allocator rounds a large allocation up to this.
    longest : int
        Rows with more entries than this are cut, on a device that fuses.
    workspace : callable
        Bytes that the library takes for a block of entries and rows.
    """

    piece: int = 1 << 25
    segment: int = 1 << 21
    longest: int = LONGEST
    workspace: Callable[[int, int], int] = workspace_bytes

    def num_tails(self, entries: int) -> int:
        """Count the most parts that hubs of a block can be cut into."""
        return scratch_rows(entries, self.longest)


def aligned(size: int) -> int:
    """Count the bytes that something takes in the allocation."""
    return -(-size // ALIGN) * ALIGN


@dataclass(frozen=True)
class Matrix:
    """Sizes of a hop's matrix, and for how many hops it serves."""

    rows: int
    entries: int
    hops: int

    def num_blocks(self, most_entries: int) -> int:
        """Count the most blocks that it can be cut into."""
        by_rows = self.rows // most_rows(most_entries)
        return -(-self.entries // most_entries) + by_rows + 1


def most_rows(most_entries: int) -> int:
    """Count the most rows of a block."""
    return max(1, most_entries // 4)


def hop_matrices(work: Work, frontier: bool) -> list[Matrix]:
    """List the matrices, with the hops that share one counted together.

    Without ``frontier`` all hops are computed at all rows.
    """
    n = work.num_nodes
    if not frontier:
        entries = work.num_edges + n * work.self_loop
        return [Matrix(n, entries, work.K)]
    found = []
    shared = 0
    before = work.feature_rows
    for rows, edges in zip(work.hop_rows, work.hop_entries, strict=True):
        if rows == before == n:
            shared += 1
        else:
            found.append(Matrix(rows, edges + rows * work.self_loop, 1))
        before = rows
    if shared:
        entries = work.num_edges + n * work.self_loop
        found.insert(0, Matrix(n, entries, shared))
    return found


@dataclass(frozen=True)
class DevicePlan(Plan):
    """A plan for a device with memory of its own.

    Attributes
    ----------
    most_entries : int
        Limit of a block of edges.
    resident_bytes : int
        How much of the device is for edges that stay.
    frontier : bool
        Whether hops are computed only where they are needed. It is not if
        the edges of the whole graph fit, and those of each hop beside each
        other do not.
    fuses : bool
        Whether the device's product takes the diagonals.
    device_kind : str
        The type of numbers on the device.
    sizes : DeviceSizes
        Of pieces and hubs.
    """

    most_entries: int = 0
    resident_bytes: int = 0
    frontier: bool = True
    fuses: bool = False
    device_kind: str = "float32"
    sizes: DeviceSizes = field(default_factory=DeviceSizes)

    @property
    def all_edges_stay(self) -> bool:
        """Whether no edges are sent twice."""
        return Item.EDGES_MOVING not in self.items

    @property
    def arena_bytes(self) -> int:
        """Bytes of the one allocation: all but the library's workspace."""
        others = (Item.WORKSPACE, Item.ROUNDING)
        return sum(
            size for item, size in self.items.items() if item not in others
        )


def device_kind(work: Work, fuses: bool, sums_bfloat16: bool = False) -> str:
    """Choose the type of numbers on the device.

    Halves are sent as float32 where the product would round sums to them
    before they are scaled: a hub's sum can be too large for a float16.
    """
    if work.itemsize > 2 or (fuses and not work.weighted):
        return work.kind
    if work.kind == "bfloat16" and sums_bfloat16 and not work.weighted:
        return work.kind
    return "float32"


@dataclass(frozen=True)
class DeviceTask:
    """What is planned: the work, and the device that is to do it.

    Attributes
    ----------
    budget : int
        Bytes that may be used on the device.
    kind : str
        The type of numbers there.
    fuses : bool
        Whether its product takes the diagonals.
    device : str
        Its name.
    """

    work: Work
    budget: int
    kind: str = "float32"
    fuses: bool = False
    device: str = "cuda"
    sizes: DeviceSizes = field(default_factory=DeviceSizes)

    @property
    def itemsize(self) -> int:
        """Bytes of a number on the device."""
        return type_of(self.kind).itemsize

    @property
    def value_size(self) -> int:
        """Bytes of the value of an edge."""
        return self.itemsize if self.work.weighted else 0

    def matrix_bytes(self, matrix: Matrix, most_entries: int) -> int:
        """Count at least the bytes of all blocks of a matrix."""
        blocks = matrix.num_blocks(most_entries)
        size = matrix.entries * (4 + self.value_size)
        size += 4 * (matrix.rows + 2 * blocks)
        if self.fuses:
            size += 12 * self.sizes.num_tails(matrix.entries)
        return size + 4 * ALIGN * blocks

    def block_bytes(self, entries: int, rows: int) -> int:
        """Count what a block of edges takes on the device."""
        tails = self.sizes.num_tails(entries) if self.fuses else 0
        return (
            aligned(4 * (rows + 1))
            + aligned(4 * entries)
            + aligned(self.value_size * entries)
            + aligned(12 * tails)
        )


@dataclass(frozen=True)
class Cut:
    """How the work is cut: columns and entries of a block, and the rows."""

    width: int
    most_entries: int
    frontier: bool


def make_device_plan(
    work: Work,
    budget: int,
    fuses: bool = False,
    sums_bfloat16: bool = False,
    device: str = "cuda",
    most_entries: int | None = None,
    sizes: DeviceSizes | None = None,
) -> DevicePlan:
    """Make the plan that sends the fewest bytes; of equal ones the widest.

    Blocks of edges are as large as they can be, or as ``most_entries``.
    """
    kind = device_kind(work, fuses, sums_bfloat16)
    task = DeviceTask(work, budget, kind, fuses, device, sizes or DeviceSizes())
    limits = MOST_ENTRIES if most_entries is None else (most_entries,)
    best = None
    for width in _widths(work.num_feats, task.itemsize):
        if width > 1 and not fuses and work.num_nodes * width >= _MOST_VALUES:
            continue
        for found in _plans(task, width, limits):
            if best is None or found.bytes_moved < best.bytes_moved:
                best = found
        if best is not None and width * task.itemsize < _SECTOR:
            # Narrower than that it would fit, and take longer.
            break
    if best is None:
        raise _too_small(task)
    return best


def _widths(num_feats: int, size: int) -> Iterator[int]:
    """All columns, then whole sectors, and last parts of one."""
    step = max(1, _SECTOR // size)
    yield num_feats
    yield from range((num_feats - 1) // step * step, 0, -step)
    while step > 1:
        step //= 2
        if step < num_feats:
            yield step


def _plans(
    task: DeviceTask, width: int, limits: tuple[int, ...]
) -> Iterator[DevicePlan]:
    for frontier in (True, False) if not task.work.all_rows else (True,):
        for most_entries in limits:
            found = plan_cut(task, Cut(width, most_entries, frontier))
            if found is not None:
                yield found


def plan_cut(task: DeviceTask, cut: Cut) -> DevicePlan | None:
    """Plan this cut with as many edges as fit staying; None if none can."""
    work, width = task.work, cut.width
    matrices = hop_matrices(work, cut.frontier)
    largest = max((m.entries for m in matrices), default=0)
    most_entries = min(cut.most_entries, max(1, largest))
    cut = Cut(width, most_entries, cut.frontier)
    tallest = min(most_rows(most_entries), max(m.rows for m in matrices))
    items = _fixed_items(task, cut, tallest)
    slots = 2 * task.block_bytes(most_entries, tallest)
    # The one allocation is rounded up.
    room = task.budget - sum(items.values()) - task.sizes.segment
    edges = sum(task.matrix_bytes(m, most_entries) for m in matrices)
    if edges <= room:
        resident, items[Item.EDGES_STAYING] = edges, edges
    else:
        resident = room - slots
        if resident < 0:
            return None
        items[Item.EDGES_STAYING] = resident
        items[Item.EDGES_MOVING] = slots
    items[Item.ROUNDING] = task.sizes.segment
    kept = resident
    columns = -(-work.num_feats // width)
    moved = _sent_once(task, cut.frontier)
    for matrix in matrices:
        # Once what stays, else for each hop and column block.
        total = task.matrix_bytes(matrix, most_entries)
        stays = min(resident, total)
        resident -= stays
        moved += stays + columns * matrix.hops * (total - stays)
    there = ["column block"]
    if edges <= room:
        there.insert(0, "edges")
    elif kept:
        there.insert(0, f"{kept / edges:.0%} of the edges")
    blocks = sum(m.num_blocks(most_entries) for m in matrices)
    return DevicePlan(
        work, task.device, task.budget, blocks, columns, width, tuple(there),
        items, moved, most_entries=most_entries, resident_bytes=kept,
        frontier=cut.frontier, fuses=task.fuses, device_kind=task.kind,
        sizes=task.sizes,
    )  # fmt: skip


def hop_rows(work: Work, frontier: bool) -> list[int]:
    """List the rows of hop 0, 1, …"""
    if not frontier:
        return [work.num_nodes] * (work.K + 1)
    return [work.feature_rows, *work.hop_rows]


def _fixed_items(task: DeviceTask, cut: Cut, tallest: int) -> dict[Item, int]:
    """All but the edges, by purpose."""
    work, size, fuses = task.work, task.itemsize, task.fuses
    width, most_entries = cut.width, cut.most_entries
    rows = hop_rows(work, cut.frontier)
    even, odd = max(rows[0::2]), max(rows[1::2], default=0)
    ones = 0 if fuses or work.weighted else aligned(most_entries * size)
    kept = len([hop for hop in work.kept_hops if hop > 0])
    piece = min(work.kept_rows * width * size, task.sizes.piece)
    places = 0 if work.all_rows else kept * aligned(4 * work.kept_rows)
    workspace = 0 if fuses else task.sizes.workspace(most_entries, tallest)
    sums = 0
    if fuses:
        tails = task.sizes.num_tails(most_entries)
        sums = aligned(tails * width * work.accumulator_size)
    return {
        Item.COLUMN_BUFFERS: aligned(even * width * size)
        + aligned(odd * width * size),
        Item.DIAGONALS: _diagonal_bytes(work, rows),
        Item.ONES: ones,
        Item.RESULTS_MOVING: 2 * aligned(max(piece, width * size)),
        Item.PLACES: places,
        Item.WORKSPACE: workspace,
        Item.HUB_SUMS: sums,
    }


def _diagonal_bytes(work: Work, rows: list[int]) -> int:
    """One vector a diagonal for all rows, and for each shorter list."""
    lists = [r for r in rows if r < work.num_nodes]
    if len(lists) < len(rows):
        lists.append(work.num_nodes)
    size = work.accumulator_size
    return work.num_diagonals * sum(aligned(size * r) for r in lists)


def _sent_once(task: DeviceTask, frontier: bool) -> int:
    work = task.work
    row = work.num_feats * task.itemsize
    rows = hop_rows(work, frontier)
    kept = len([hop for hop in work.kept_hops if hop > 0])
    moved = rows[0] * row + kept * work.kept_rows * row
    if not work.all_rows:
        moved += kept * 4 * work.kept_rows
    return moved + _diagonal_bytes(work, rows)


def _too_small(task: DeviceTask) -> DGLError:
    budget = task.budget
    low, high = budget, max(budget, 1) * 2
    while not _fits(task, high):
        low, high = high, high * 2
    while high - low > 2**20:
        middle = (low + high) // 2
        if _fits(task, middle):
            high = middle
        else:
            low = middle
    enough = -(-high // 2**20)
    return DGLError(
        f"memory={format_bytes(budget)} of {task.device} is too small: "
        f"{enough} MiB would be enough (memory='{enough}MiB'). Fewer nodes "
        f"or a smaller dtype may need less."
    )


def _fits(task: DeviceTask, budget: int) -> bool:
    """Tell whether the narrowest columns fit."""
    *_, width = _widths(task.work.num_feats, task.itemsize)
    return any(
        True for _ in _plans(replace(task, budget=budget), width, MOST_ENTRIES)
    )
