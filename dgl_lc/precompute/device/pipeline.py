"""A column block on a device, through all hops.

Three streams: one copies to the device, one computes, one copies back. What
goes to the device passes through two pieces of pinned memory, and edges that
do not stay there through two slots on the device, so that the next is being
filled while the last is in use. The host waits where it would overwrite
pinned memory that is still being copied; a stream waits where it would read
what is not there yet, or overwrite what is still being read. Buffers of
hops belong to the computing stream alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..planning.device import (
    PIECE,
    DevicePlan,
    aligned,
    block_bytes,
    hop_rows,
    most_rows,
)
from .hop_matrix import Block, HopMatrix
from .hubs import hub_tails, scratch_rows
from .protocol import Device

_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Host(Protocol):
    """What the host gives to the device, and takes from it."""

    kept: list[int]

    def matrix(self, hop: int) -> HopMatrix:
        """The matrix of a hop; the same object where it is the same."""

    def fill(
        self,
        hop: int,
        block: Block,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Write a block of a hop's matrix to pinned memory."""

    def diagonal(self, side: str, hop: int) -> torch.Tensor | None:
        """The "left" or "right" diagonal at a hop's rows; None for ones."""

    def places(self, hop: int) -> torch.Tensor | None:
        """Rows of a hop that are kept, int32; None for all."""

    def read(
        self, first: int, last: int, low: int, high: int, target: torch.Tensor
    ) -> None:
        """Copy columns of rows low to high of hop 0 to pinned memory."""

    def write(
        self, hop: int, first: int, last: int, low: int, source: torch.Tensor
    ) -> None:
        """Take columns of the kept rows from low on."""


@dataclass
class _Slot:
    """Where a block of edges goes: on the device, or pinned."""

    indptr: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor
    #: Parts of hubs, where the device fuses.
    tails: torch.Tensor

    def cut(self, block: Block) -> "_Slot":
        return _Slot(
            self.indptr[: block.num_rows + 1],
            self.indices[: block.num_entries],
            self.values[: block.num_entries],
            self.tails,
        )


class _Room:
    """Tensors cut from one allocation."""

    def __init__(self, raw: torch.Tensor):
        self._raw, self._used = raw, 0

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        size = count * torch.empty(0, dtype=dtype).element_size()
        begin = self._used
        self._used += aligned(size)
        assert self._used <= len(self._raw), "more is taken than was planned"
        return self._raw[begin : begin + size].view(dtype)

    def take_slot(self, entries, rows, weighted, dtype, fuses) -> _Slot:
        tails = scratch_rows(entries) * fuses
        return _Slot(
            self.take(rows + 1, torch.int32),
            self.take(entries, torch.int32),
            self.take(entries * weighted, dtype),
            self.take(3 * tails, torch.int32).view(tails, 3),
        )


class Pipeline:
    """Runs column blocks on a device; all memory is taken here, at once."""

    def __init__(self, device: Device, host: Host, plan: DevicePlan):
        work = plan.work
        self._device, self._host, self._plan = device, host, plan
        self._last = work.K
        self._weighted, self._fuses = work.weighted, plan.fuses
        self._dtype = _DTYPES[plan.device_kind]
        self._size = torch.empty(0, dtype=self._dtype).element_size()
        self._rows = hop_rows(work, plan.frontier)
        self._kept_rows = work.kept_rows
        # Before the streams: these come after what the memory was before.
        self._arena = device.empty(_arena_bytes(plan))
        room = _Room(self._arena)
        self._copy, self._compute, self._back = (
            device.stream() for _ in range(3)
        )
        width = plan.column_width
        self._buffers = [
            room.take(max(self._rows[first::2]) * width, self._dtype)
            for first in (0, 1)
        ]
        self._take_staging(room)
        self._take_slots(room)
        self._take_constants(room)

    def close(self) -> None:
        """Give the memory back, even if an error keeps this alive."""
        self._arena.untyped_storage().resize_(0)

    # Memory

    def _take_staging(self, room: _Room) -> None:
        """Two pieces each: pinned for both ways, and on the device."""
        plan, pinned = self._plan, self._device.pinned
        row = plan.column_width * self._size
        out = max(row, min(self._kept_rows * row, PIECE))
        # Features, and vectors of at most 8 bytes for each row.
        most = max(self._rows[0] * row, 8 * max(*self._rows, self._kept_rows))
        size = max(row, min(most, PIECE))
        self._pieces_in = [pinned(size) for _ in range(2)]
        self._copied_in: list[Any] = [None, None]
        self._sent = 0
        self._pieces_out = [pinned(out) for _ in range(2)]
        self._picked = [room.take(out, torch.uint8) for _ in range(2)]
        self._copied_out: list[Any] = [None, None]
        self._pending: list[Callable[[], None] | None] = [None, None]
        self._returned = 0

    def _take_slots(self, room: _Room) -> None:
        """Slots of the blocks that stay, and two for the others."""
        plan, host = self._plan, self._host
        entries = plan.most_entries
        rows = min(most_rows(entries), max(self._rows))
        value = self._size * self._weighted
        options = (self._weighted, self._dtype, self._fuses)
        left = plan.resident_bytes
        self._resident: dict[tuple[int, int], _Slot] = {}
        self._loaded: set[tuple[int, int]] = set()
        everything = "edges on their way" not in plan.items
        matrices = {
            id(host.matrix(hop)): host.matrix(hop)
            for hop in range(1, self._last + 1)
        }
        # Those first that serve the most hops.
        uses = [id(host.matrix(hop)) for hop in range(1, self._last + 1)]
        for key in sorted(matrices, key=uses.count, reverse=True):
            for number, block in enumerate(matrices[key].blocks):
                needed = block_bytes(
                    block.num_entries, block.num_rows, value, self._fuses
                )
                if needed > left:
                    break
                left -= needed
                self._resident[key, number] = room.take_slot(
                    block.num_entries, block.num_rows, *options
                )
        size = block_bytes(entries, rows, value, self._fuses)
        self._staging = [
            _Room(self._device.pinned(size)).take_slot(entries, rows, *options)
            for _ in range(2)
        ]
        self._slots = []
        if not everything:
            self._slots = [
                room.take_slot(entries, rows, *options) for _ in range(2)
            ]
        self._num_tails: dict[tuple[int, int], int] = {}
        self._copied: list[Any] = [None, None]
        self._used: list[Any] = [None, None]
        self._filled = 0

    def _take_constants(self, room: _Room) -> None:
        """Diagonals, places of kept rows, and ones, sent once."""
        hops, host = range(self._last + 1), self._host
        sent: dict[int, torch.Tensor] = {}

        def send(source):
            if source is None:
                return None
            if id(source) not in sent:
                target = room.take(len(source), source.dtype)
                self._send(target, source)
                sent[id(source)] = target
            return sent[id(source)]

        # The host's tensors are kept until all are there: their ids count.
        lefts = [host.diagonal("left", hop) if hop else None for hop in hops]
        rights = [
            host.diagonal("right", hop) if hop < self._last else None
            for hop in hops
        ]
        kept = {hop: host.places(hop) for hop in host.kept if hop}
        self._left = [send(source) for source in lefts]
        self._right = [send(source) for source in rights]
        self._places = {hop: send(source) for hop, source in kept.items()}
        wide = torch.promote_types(self._dtype, torch.float32)
        count = scratch_rows(self._plan.most_entries) * self._fuses
        self._scratch = room.take(count * self._plan.column_width, wide)
        self._ones = room.take(0, self._dtype)
        if not (self._weighted or self._fuses):
            ones = room.take(self._plan.most_entries, self._dtype)
            self._device.launch(self._compute, lambda: ones.fill_(1))
            self._ones = ones
        self._await_sent()

    # To the device

    def _send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Send a vector, piece by piece."""
        step = PIECE // source.element_size()
        for low in range(0, len(source), step):
            part = source[low : low + step]
            self._send_piece(target[low : low + step], _copier(part))

    def _send_piece(
        self, target: torch.Tensor, fill: Callable[[torch.Tensor], None]
    ) -> None:
        """Have pinned memory filled, and copied to the target."""
        device, number = self._device, self._sent % 2
        if self._copied_in[number] is not None:
            device.sync(self._copied_in[number])
        piece = self._pieces_in[number][: target.nbytes].view(target.dtype)
        piece = piece.view(target.shape)
        fill(piece)
        device.copy_in(self._copy, target, piece)
        self._copied_in[number] = device.record(self._copy)
        self._sent += 1

    def _await_sent(self) -> None:
        """What is computed from now on comes after what was sent."""
        if self._sent:
            last = self._copied_in[(self._sent - 1) % 2]
            self._device.wait(self._compute, last)

    def _load(self, first: int, last: int) -> torch.Tensor:
        """Send columns of hop 0. The buffer is free: the results are back."""
        x = self._buffer(0, last - first)
        step = max(1, PIECE // (x.shape[1] * self._size))
        for low in range(0, len(x), step):
            high = min(low + step, len(x))

            def fill(piece, low=low, high=high):
                self._host.read(first, last, low, high, piece)

            self._send_piece(x[low:high], fill)
        self._await_sent()
        return x

    # On the device

    def _buffer(self, hop: int, width: int) -> torch.Tensor:
        rows = self._rows[hop]
        return self._buffers[hop % 2][: rows * width].view(rows, width)

    def column_block(
        self, first: int, last: int, done: Callable[[int], Any] = bool
    ) -> None:
        """All hops of some columns; the kept ones are with the host then.

        ``done`` is told of the entries that are on their way.
        """
        x = self._load(first, last)
        self._scale(x, self._right[0])
        for hop in range(1, self._last + 1):
            y = self._buffer(hop, last - first)
            self._device.launch(self._compute, y.zero_)
            for number, block in enumerate(self._host.matrix(hop).blocks):
                self._add_block(hop, number, block, x, y)
                done(block.num_entries)
            self._scale(y, self._left[hop])
            if hop in self._host.kept:
                self._give_back(hop, first, last, y)
            self._scale(y, self._right[hop])
            x = y
        for number in range(2):
            self._take_back(number)

    def _scale(self, rows: torch.Tensor, diagonal: torch.Tensor | None) -> None:
        if diagonal is not None and not self._fuses:
            factor = diagonal.unsqueeze(1)
            self._device.launch(self._compute, lambda: rows.mul_(factor))

    def _add_block(
        self,
        hop: int,
        number: int,
        block: Block,
        x: torch.Tensor,
        y: torch.Tensor,
    ) -> None:
        device = self._device
        key = (id(self._host.matrix(hop)), number)
        resident = self._resident.get(key)
        place = self._filled % 2
        slot = resident or self._slots[place].cut(block)
        if key not in self._loaded:
            count = self._fill_slot(hop, block, slot, place, resident is None)
            self._num_tails[key] = count
        options = {}
        if self._fuses:
            left, count = self._left[hop], self._num_tails[key]
            if left is not None:
                left = left[block.first : block.last]
            scratch = self._scratch[: count * x.shape[1]]
            options = {
                "left": left,
                "right": self._right[hop - 1],
                "tails": slot.tails[:count],
                "scratch": scratch.view(count, x.shape[1]),
            }
        device.spmm_add(
            self._compute, y[block.first : block.last], slot.indptr,
            slot.indices, slot.values if self._weighted else self._ones, x,
            **options,
        )  # fmt: skip
        if resident is not None:
            self._loaded.add(key)
        else:
            self._used[place] = device.record(self._compute)

    def _fill_slot(
        self, hop: int, block: Block, slot: _Slot, place: int, is_reused: bool
    ) -> int:
        """Send a block of edges to its slot; how many tails it has."""
        device = self._device
        if self._copied[place] is not None:
            device.sync(self._copied[place])
        staging = self._staging[place].cut(block)
        self._host.fill(
            hop, block, staging.indptr, staging.indices, staging.values
        )
        if is_reused and self._used[place] is not None:
            device.wait(self._copy, self._used[place])
        device.copy_in(self._copy, slot.indptr, staging.indptr)
        device.copy_in(self._copy, slot.indices, staging.indices)
        if self._weighted:
            device.copy_in(self._copy, slot.values, staging.values)
        count = 0
        if self._fuses:
            tails = hub_tails(staging.indptr)
            count = len(tails)
        if count:
            staging.tails[:count] = tails
            device.copy_in(
                self._copy, slot.tails[:count], staging.tails[:count]
            )
        self._copied[place] = device.record(self._copy)
        device.wait(self._compute, self._copied[place])
        self._filled += 1
        return count

    # Back to the host

    def _give_back(
        self, hop: int, first: int, last: int, y: torch.Tensor
    ) -> None:
        """Pick the kept rows, and copy them to the host piece by piece."""
        device, places = self._device, self._places[hop]
        width = last - first
        step = max(1, len(self._picked[0]) // (width * self._size))
        for low in range(0, self._kept_rows, step):
            rows = min(step, self._kept_rows - low)
            number = self._returned % 2
            # The host has it then: both pieces of this number are free.
            self._take_back(number)
            size = rows * width * self._size
            picked = self._picked[number][:size].view(self._dtype)
            picked = picked.view(rows, width)
            device.launch(self._compute, _picker(y, places, low, rows, picked))
            device.wait(self._back, device.record(self._compute))
            piece = self._pieces_out[number][:size].view(self._dtype)
            piece = piece.view(rows, width)
            device.copy_out(self._back, piece, picked)
            self._copied_out[number] = device.record(self._back)

            def take(low=low, piece=piece):
                self._host.write(hop, first, last, low, piece)

            self._pending[number] = take
            self._returned += 1

    def _take_back(self, number: int) -> None:
        """Wait for a piece of the results, and hand it over."""
        take = self._pending[number]
        if take is not None:
            self._device.sync(self._copied_out[number])
            take()
            self._pending[number] = None


def _arena_bytes(plan: DevicePlan) -> int:
    others = ("workspace (a model)", "rounding")
    return sum(size for name, size in plan.items.items() if name not in others)


def _copier(source: torch.Tensor) -> Callable[[torch.Tensor], None]:
    def fill(piece):
        piece.copy_(source)

    return fill


def _picker(y, places, low, rows, picked) -> Callable[[], Any]:
    if places is None:
        return lambda: picked.copy_(y[low : low + rows])
    own = places[low : low + rows]
    return lambda: torch.index_select(y, 0, own, out=picked)


def sums_in_float32(device: Device, dtype: torch.dtype) -> bool:
    """Whether the device's product adds halves up in float32.

    A row of 4096 ones sums to 4096; in a bfloat16 it stops at 256.
    """
    try:
        return _sum_of_ones(device, dtype) == 4096
    except RuntimeError:
        # Older GPUs have no product of bfloat16; or there is no memory.
        return False
    finally:
        device.sync()


def _sum_of_ones(
    device: Device, dtype: torch.dtype, count: int = 4096
) -> float:
    room = _Room(device.empty(aligned(8) + 2 * aligned(4 * count) + 2 * 512))
    host = _Room(device.pinned(aligned(8) + aligned(4 * count) + 512))
    stream = device.stream()
    indptr, indices = (room.take(n, torch.int32) for n in (2, count))
    values, x, out = (room.take(n, dtype) for n in (count, 1, 1))
    bounds, zeros = (host.take(n, torch.int32) for n in (2, count))
    result = host.take(1, dtype)
    bounds.copy_(torch.tensor([0, count]))
    zeros.zero_()
    device.copy_in(stream, indptr, bounds)
    device.copy_in(stream, indices, zeros)
    for tensor, value in ((values, 1), (x, 1), (out, 0)):
        device.launch(stream, _filler(tensor, value))
    device.spmm_add(
        stream, out.view(1, 1), indptr, indices, values, x.view(1, 1)
    )
    device.copy_out(stream, result, out)
    device.sync()
    return float(result)


def _filler(tensor: torch.Tensor, value: float) -> Callable[[], Any]:
    return lambda: tensor.fill_(value)
