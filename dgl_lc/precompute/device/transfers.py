"""Copying to a device and back, through pinned memory.

Each way has two pieces, so that one is being filled while the other is being
copied. The host waits where it would overwrite a piece that is still being
copied, or read one that has not arrived yet.
"""

from collections.abc import Callable
from typing import Any

import torch

from .arena import Arena
from .protocol import Device


class Sender:
    """Copies to the device, piece by piece.

    Parameters
    ----------
    stream
        The stream that copies.
    size : int
        Bytes of a piece.
    """

    def __init__(self, device: Device, stream: Any, size: int):
        self._device, self._stream, self._size = device, stream, size
        self._pieces = [device.pinned(size) for _ in range(2)]
        self._copied: list[Any] = [None, None]
        self._count = 0

    def send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Send a vector."""
        step = self._size // source.element_size()
        for low in range(0, len(source), step):
            part = source[low : low + step]
            self.send_piece(target[low : low + step], _copier(part))

    def send_piece(
        self, target: torch.Tensor, fill: Callable[[torch.Tensor], None]
    ) -> None:
        """Have pinned memory filled, and copied to the target."""
        device, number = self._device, self._count % 2
        if self._copied[number] is not None:
            device.sync(self._copied[number])
        piece = self._pieces[number][: target.nbytes].view(target.dtype)
        piece = piece.view(target.shape)
        fill(piece)
        device.copy_in(self._stream, target, piece)
        self._copied[number] = device.record(self._stream)
        self._count += 1

    def await_sent(self, stream: Any) -> None:
        """What this stream is given from now on comes after what was sent."""
        if self._count:
            last = self._copied[(self._count - 1) % 2]
            self._device.wait(stream, last)


class Receiver:
    """Copies rows back to the host, piece by piece.

    Parameters
    ----------
    compute, back
        The stream that picks the rows, and the one that copies them.
    size : int
        Bytes of a piece.
    """

    def __init__(
        self, device: Device, compute: Any, back: Any, size: int, arena: Arena
    ):
        self._device, self._compute, self._back = device, compute, back
        self._size = size
        self._pieces = [device.pinned(size) for _ in range(2)]
        self._picked = [arena.take(size, torch.uint8) for _ in range(2)]
        self._copied: list[Any] = [None, None]
        self._pending: list[Callable[[], None] | None] = [None, None]
        self._count = 0

    def receive(
        self,
        rows: torch.Tensor,
        places: torch.Tensor | None,
        count: int,
        take: Callable[[int, torch.Tensor], None],
    ) -> None:
        """Pick ``count`` rows, by their places or for None the first ones.

        ``take`` is called later with the number of the first and the rows.
        """
        device, width = self._device, rows.shape[1]
        step = max(1, self._size // (width * rows.element_size()))
        for low in range(0, count, step):
            high = min(low + step, count)
            number = self._count % 2
            # The host has it then: both pieces of this number are free.
            self._take(number)
            size = (high - low) * width * rows.element_size()
            picked, piece = (
                pieces[number][:size].view(rows.dtype).view(high - low, width)
                for pieces in (self._picked, self._pieces)
            )
            device.launch(
                self._compute, _picker(rows, places, low, high, picked)
            )
            device.wait(self._back, device.record(self._compute))
            device.copy_out(self._back, piece, picked)
            self._copied[number] = device.record(self._back)

            def hand_over(low: int = low, piece: torch.Tensor = piece) -> None:
                take(low, piece)

            self._pending[number] = hand_over
            self._count += 1

    def take_all(self) -> None:
        """Wait for everything, and hand it over."""
        for number in range(2):
            self._take(number)

    def _take(self, number: int) -> None:
        hand_over = self._pending[number]
        if hand_over is not None:
            self._device.sync(self._copied[number])
            hand_over()
            self._pending[number] = None


def _copier(source: torch.Tensor) -> Callable[[torch.Tensor], None]:
    def fill(piece: torch.Tensor) -> None:
        piece.copy_(source)

    return fill


def _picker(
    rows: torch.Tensor,
    places: torch.Tensor | None,
    low: int,
    high: int,
    picked: torch.Tensor,
) -> Callable[[], Any]:
    if places is None:
        return lambda: picked.copy_(rows[low:high])
    own = places[low:high]
    return lambda: torch.index_select(rows, 0, own, out=picked)
