"""The plan for a device with memory of its own: the fewest bytes sent.

Features, graph and result are on the host. A column block of the features is
sent once and stays for all hops. Edges stay on the device as far as they fit;
the others are sent again for each hop and column block, through two slots,
one being filled while the other is read. Everything but the library's own
workspace is one allocation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dgl import DGLError

from ..._common.bytes import format_bytes
from ..device.csr_spmm import workspace_bytes
from ..device.hubs import scratch_rows
from .cpu import Plan, Work

#: Allocations begin at multiples of this.
ALIGN = 512
#: Bytes of features, or of results, on their way at a time.
PIECE = 1 << 25
#: torch's allocator rounds a large allocation up to this.
_SEGMENT = 1 << 21
#: Gathered rows are read by this many bytes at least.
_SECTOR = 32
#: Values in a buffer that a product through torch can be trusted with: ids
#: are of 32 bits there, and who knows whether their products are.
_MOST_VALUES = 1 << 31
#: Entries in a block, at most.
_MOST_ENTRIES = tuple(1 << power for power in range(24, 7, -2))


def aligned(size: int) -> int:
    """The bytes that something takes in the allocation."""
    return -(-size // ALIGN) * ALIGN


@dataclass(frozen=True)
class Matrix:
    """Sizes of a hop's matrix, and for how many hops it serves."""

    rows: int
    entries: int
    hops: int

    def num_blocks(self, most_entries: int) -> int:
        """At most this many blocks."""
        by_rows = self.rows // most_rows(most_entries)
        return -(-self.entries // most_entries) + by_rows + 1

    def num_bytes(self, most_entries: int, value_size: int, fuses: bool) -> int:
        """At least the bytes of all blocks."""
        blocks = self.num_blocks(most_entries)
        size = self.entries * (4 + value_size) + 4 * (self.rows + 2 * blocks)
        if fuses:
            size += 12 * scratch_rows(self.entries)
        return size + 4 * ALIGN * blocks


def block_bytes(entries: int, rows: int, value_size: int, fuses: bool) -> int:
    """What a block of edges takes on the device."""
    tails = scratch_rows(entries) if fuses else 0
    return (
        aligned(4 * (rows + 1))
        + aligned(4 * entries)
        + aligned(value_size * entries)
        + aligned(12 * tails)
    )


def most_rows(most_entries: int) -> int:
    """Rows in a block, at most."""
    return max(1, most_entries // 4)


def hop_matrices(work: Work, frontier: bool) -> list[Matrix]:
    """The matrices, with the hops that share one counted together.

    Without ``frontier`` all hops are computed at all rows.
    """
    n = work.num_nodes
    if not frontier:
        entries = work.num_edges + n * work.self_loop
        return [Matrix(n, entries, work.K)]
    found = []
    shared = 0
    before = work.input_rows or n
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
    """

    most_entries: int = 0
    resident_bytes: int = 0
    frontier: bool = True
    fuses: bool = False
    device_kind: str = "float32"


def device_kind(work: Work, fuses: bool, sums_bfloat16: bool = False) -> str:
    """The type of numbers on the device.

    Halves are sent as float32 where the product would round sums to them
    before they are scaled: a hub's sum can be too large for a float16.
    """
    if work.itemsize > 2 or (fuses and not work.weighted):
        return work.kind
    if work.kind == "bfloat16" and sums_bfloat16 and not work.weighted:
        return work.kind
    return "float32"


def make_device_plan(
    work: Work,
    budget: int,
    fuses: bool = False,
    sums_bfloat16: bool = False,
    device: str = "cuda",
    most_entries: int | None = None,
) -> DevicePlan:
    """The plan that sends the fewest bytes; of equal ones the widest.

    Blocks of edges are as large as they can be, or as ``most_entries``.
    """
    sizes = _MOST_ENTRIES if most_entries is None else (most_entries,)
    best = None
    kind = device_kind(work, fuses, sums_bfloat16)
    size = replace(work, kind=kind).itemsize
    for width in _widths(work.num_feats, size):
        if width > 1 and not fuses and work.num_nodes * width >= _MOST_VALUES:
            continue
        for found in _plans(
            work, budget, width, sizes, kind, size, fuses, device
        ):
            if best is None or found.bytes_moved < best.bytes_moved:
                best = found
        if best is not None and width * size < _SECTOR:
            # Narrower than that it would fit, and take longer.
            break
    if best is None:
        raise DGLError(_too_small(work, budget, kind, size, fuses, device))
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
    work, budget, width, sizes, kind, size, fuses, device
) -> Iterator[DevicePlan]:
    for frontier in (True, False) if not work.all_rows else (True,):
        for most_entries in sizes:
            found = plan_device(
                work, budget, width, most_entries, frontier, kind, size,
                fuses, device,
            )  # fmt: skip
            if found is not None:
                yield found


def plan_device(
    work: Work,
    budget: int,
    width: int,
    most_entries: int,
    frontier: bool,
    kind: str,
    size: int,
    fuses: bool,
    device: str = "cuda",
) -> DevicePlan | None:
    """The plan with this cut, and as many edges as fit staying; or None."""
    matrices = hop_matrices(work, frontier)
    value = size if work.weighted else 0
    largest = max((m.entries for m in matrices), default=0)
    most_entries = min(most_entries, max(1, largest))
    tallest = min(most_rows(most_entries), max(m.rows for m in matrices))
    items = _fixed_items(
        work, width, most_entries, tallest, frontier, size, fuses
    )
    slots = 2 * block_bytes(most_entries, tallest, value, fuses)
    # The one allocation is rounded up.
    room = budget - sum(items.values()) - _SEGMENT
    edges = sum(m.num_bytes(most_entries, value, fuses) for m in matrices)
    if edges <= room:
        resident, items["edges that stay"] = edges, edges
    else:
        resident = room - slots
        if resident < 0:
            return None
        items["edges that stay"] = resident
        items["edges on their way"] = slots
    items["rounding"] = _SEGMENT
    kept = resident
    columns = -(-work.num_feats // width)
    moved = _sent_once(work, frontier, size)
    for matrix in matrices:
        # Once what stays, else for each hop and column block.
        total = matrix.num_bytes(most_entries, value, fuses)
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
        work, device, budget, blocks, columns, width, tuple(there), items,
        moved, most_entries=most_entries, resident_bytes=kept,
        frontier=frontier, fuses=fuses, device_kind=kind,
    )  # fmt: skip


def input_rows(work: Work, frontier: bool) -> int:
    """Rows of the features that are sent."""
    return work.input_rows if frontier and work.input_rows else work.num_nodes


def hop_rows(work: Work, frontier: bool) -> list[int]:
    """Rows of hop 0, 1, …"""
    if not frontier:
        return [work.num_nodes] * (work.K + 1)
    return [input_rows(work, True), *work.hop_rows]


def _fixed_items(
    work, width, most_entries, tallest, frontier, size, fuses
) -> dict[str, int]:
    """All but the edges, by purpose."""
    rows = hop_rows(work, frontier)
    even, odd = max(rows[0::2]), max(rows[1::2], default=0)
    ones = 0 if fuses or work.weighted else aligned(most_entries * size)
    kept = len([hop for hop in work.kept_hops if hop > 0])
    piece = min(work.kept_rows * width * size, PIECE)
    items = {
        "column buffers": aligned(even * width * size)
        + aligned(odd * width * size),
        "diagonals": _diagonal_bytes(work, rows),
        "ones": ones,
        "results on their way": 2 * aligned(max(piece, width * size)),
        "places of the results": 0
        if work.all_rows
        else kept * aligned(4 * work.kept_rows),
        "workspace (a model)": 0
        if fuses
        else workspace_bytes(most_entries, tallest),
        "sums of hubs": aligned(
            scratch_rows(most_entries) * width * work.accumulator_size
        )
        if fuses
        else 0,
    }
    return items


def _diagonal_bytes(work: Work, rows: list[int]) -> int:
    """One vector a diagonal for all rows, and for each shorter list."""
    lists = [r for r in rows if r < work.num_nodes]
    if len(lists) < len(rows):
        lists.append(work.num_nodes)
    size = work.accumulator_size
    return work.num_diagonals * sum(aligned(size * r) for r in lists)


def _sent_once(work: Work, frontier: bool, size: int) -> int:
    row = work.num_feats * size
    kept = len([hop for hop in work.kept_hops if hop > 0])
    moved = input_rows(work, frontier) * row + kept * work.kept_rows * row
    if not work.all_rows:
        moved += kept * 4 * work.kept_rows
    return moved + _diagonal_bytes(work, hop_rows(work, frontier))


def _too_small(work, budget, kind, size, fuses, device) -> str:
    low, high = budget, max(budget, 1) * 2
    while _fits(work, high, kind, size, fuses, device) is False:
        low, high = high, high * 2
    while high - low > 2**20:
        middle = (low + high) // 2
        if _fits(work, middle, kind, size, fuses, device):
            high = middle
        else:
            low = middle
    enough = -(-high // 2**20)
    return (
        f"memory={format_bytes(budget)} of {device} is too small: {enough} "
        f"MiB would be enough (memory='{enough}MiB'). Fewer nodes= or a "
        f"smaller dtype= may need less."
    )


def _fits(work, budget, kind, size, fuses, device) -> bool:
    return any(
        True
        for width in list(_widths(work.num_feats, size))[-1:]
        for _ in _plans(
            work, budget, width, _MOST_ENTRIES, kind, size, fuses, device
        )
    )
