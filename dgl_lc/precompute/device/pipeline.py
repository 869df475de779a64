"""A column block on a device, through all hops.

Three streams: one copies to the device, one computes, one copies back. What
goes to the device and what comes back passes through pinned memory
(:mod:`.transfers`), and edges that do not stay through slots
(:mod:`.edge_slots`). Buffers of hops belong to the computing stream alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..._common.dtypes import type_of
from ..planning.device import DevicePlan, aligned, hop_rows
from .arena import Arena
from .edge_slots import BlockSource, EdgeSlots
from .hop_matrix import Block
from .protocol import Device
from .transfers import Receiver, Sender


class Host(BlockSource, Protocol):
    """What the host gives to the device, and takes from it."""

    kept: list[int]

    def diagonal(self, side: str, hop: int) -> torch.Tensor | None:
        """Give the "left" or "right" diagonal at a hop's rows."""

    def places(self, hop: int) -> torch.Tensor | None:
        """Give the rows of a hop that are kept, int32; None for all."""

    def read(
        self, first: int, last: int, low: int, high: int, target: torch.Tensor
    ) -> None:
        """Copy columns of rows low to high of hop 0 to pinned memory."""

    def write(self, hop: int, low: int, source: torch.Tensor) -> None:
        """Take the kept rows from low on, of the columns being computed."""


@dataclass(frozen=True)
class _Constants:
    """What is sent once: by hop, or for all."""

    left: list[torch.Tensor | None]
    right: list[torch.Tensor | None]
    places: dict[int, torch.Tensor | None]
    ones: torch.Tensor
    scratch: torch.Tensor


class Pipeline:
    """Runs column blocks on a device; all memory is taken here, at once."""

    def __init__(self, device: Device, host: Host, plan: DevicePlan):
        work, kind = plan.work, type_of(plan.device_kind)
        self._device, self._host = device, host
        self._last, self._fuses = work.K, plan.fuses
        self._dtype, self._size = kind.torch, kind.itemsize
        self._rows = hop_rows(work, plan.frontier)
        self._kept_rows = work.kept_rows
        # Before the streams: these come after what the memory was before.
        self._arena = Arena(device.empty(plan.arena_bytes))
        copy, self._compute, back = (device.stream() for _ in range(3))
        width = plan.column_width
        self._buffers = [
            self._arena.take(max(self._rows[first::2]) * width, self._dtype)
            for first in (0, 1)
        ]
        row, piece = width * self._size, plan.sizes.piece
        # Features, and vectors of at most 8 bytes for each row.
        most = max(self._rows[0] * row, 8 * max(*self._rows, self._kept_rows))
        self._piece = max(row, min(most, piece))
        self._sender = Sender(device, copy, self._piece)
        out = max(row, min(self._kept_rows * row, piece))
        self._receiver = Receiver(device, self._compute, back, out, self._arena)
        self._slots = EdgeSlots(
            device, copy, self._compute, host, plan, self._dtype, self._arena
        )
        self._constants = self._send_constants(plan)

    def close(self) -> None:
        """Give the memory back, even if an error keeps this alive."""
        self._arena.close()

    def _send_constants(self, plan: DevicePlan) -> _Constants:
        """Send diagonals, places of kept rows, and ones."""
        hops, host, arena = range(self._last + 1), self._host, self._arena
        sent: dict[int, torch.Tensor] = {}

        def send(source: torch.Tensor | None) -> torch.Tensor | None:
            if source is None:
                return None
            if id(source) not in sent:
                target = arena.take(len(source), source.dtype)
                self._sender.send(target, source)
                sent[id(source)] = target
            return sent[id(source)]

        # The host's tensors are kept until all are there: their ids count.
        lefts = [host.diagonal("left", hop) if hop else None for hop in hops]
        rights = [
            host.diagonal("right", hop) if hop < self._last else None
            for hop in hops
        ]
        kept = {hop: host.places(hop) for hop in host.kept if hop}
        left = [send(source) for source in lefts]
        right = [send(source) for source in rights]
        places = {hop: send(source) for hop, source in kept.items()}
        wide = torch.promote_types(self._dtype, torch.float32)
        count = 0
        if self._fuses:
            count = plan.sizes.num_tails(plan.most_entries)
        scratch = arena.take(count * plan.column_width, wide)
        needs_ones = not (plan.work.weighted or self._fuses)
        ones = arena.take(plan.most_entries * needs_ones, self._dtype)
        if needs_ones:
            self._device.launch(self._compute, lambda: ones.fill_(1))
        self._sender.await_sent(self._compute)
        return _Constants(left, right, places, ones, scratch)

    def _load(self, first: int, last: int) -> torch.Tensor:
        """Send columns of hop 0. The buffer is free: the results are back."""
        x = self._buffer(0, last - first)
        step = max(1, self._piece // (x.shape[1] * self._size))
        for low in range(0, len(x), step):
            high = min(low + step, len(x))

            def fill(
                piece: torch.Tensor, low: int = low, high: int = high
            ) -> None:
                self._host.read(first, last, low, high, piece)

            self._sender.send_piece(x[low:high], fill)
        self._sender.await_sent(self._compute)
        return x

    def _buffer(self, hop: int, width: int) -> torch.Tensor:
        rows = self._rows[hop]
        return self._buffers[hop % 2][: rows * width].view(rows, width)

    def column_block(
        self, first: int, last: int, done: Callable[[int], object] = bool
    ) -> None:
        """Compute all hops of some columns; the host has the kept ones then.

        ``done`` is told of the entries that are on their way.
        """
        constants = self._constants
        x = self._load(first, last)
        self._scale(x, constants.right[0])
        for hop in range(1, self._last + 1):
            y = self._buffer(hop, last - first)
            self._device.launch(self._compute, y.zero_)
            for number, block in enumerate(self._host.matrix(hop).blocks):
                self._add_block(hop, number, block, x, y)
                done(block.num_entries)
            self._scale(y, constants.left[hop])
            if hop in self._host.kept:

                def take(low: int, rows: torch.Tensor, hop: int = hop) -> None:
                    self._host.write(hop, low, rows)

                self._receiver.receive(
                    y, constants.places[hop], self._kept_rows, take
                )
            self._scale(y, constants.right[hop])
            x = y
        self._receiver.take_all()

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
        slot, constants = self._slots.load(hop, number, block), self._constants
        options: dict[str, Any] = {}
        if self._fuses:
            left, count = constants.left[hop], slot.num_tails
            if left is not None:
                left = left[block.first : block.last]
            scratch = constants.scratch[: count * x.shape[1]]
            options = {
                "left": left,
                "right": constants.right[hop - 1],
                "tails": slot.tails[:count],
                "scratch": scratch.view(count, x.shape[1]),
            }
        self._device.spmm_add(
            self._compute, y[block.first : block.last], slot.indptr,
            slot.indices,
            constants.ones if slot.values is None else slot.values, x,
            **options,
        )  # fmt: skip
        self._slots.release(hop, number)


def sums_in_float32(device: Device, dtype: torch.dtype) -> bool:
    """Tell whether the device's product adds halves up in float32.

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
    there = Arena(device.empty(aligned(8) + 2 * aligned(4 * count) + 2 * 512))
    host = Arena(device.pinned(aligned(8) + aligned(4 * count) + 512))
    stream = device.stream()
    indptr, indices = (there.take(n, torch.int32) for n in (2, count))
    values, x, out = (there.take(n, dtype) for n in (count, 1, 1))
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
