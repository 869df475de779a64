"""What a device has to be able to do.

The pipeline (:mod:`.pipeline`) knows streams, events and memory by these
few calls alone. So what runs on a GPU is what is tested on the CPU and on a
simulated device that does everything late and in a random order.

Work that is given to a stream is done in its order, at some later time.
Streams know nothing of each other: what one does with the outcome of
another, or over its input, has to ``wait`` for an event.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch


class Device(Protocol):
    """A device that computes, with streams and memory of its own.

    Attributes
    ----------
    name : str
        As torch names it.
    fuses : bool
        Whether ``spmm_add`` takes the diagonals. It then scales sums before
        they are rounded, and no ones are needed for value-free edges.
    """

    name: str
    fuses: bool

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all bytes."""

    def empty(self, size: int) -> torch.Tensor:
        """That many bytes on the device, or OutOfMemoryError."""

    def pinned(self, size: int) -> torch.Tensor:
        """That many bytes on the host that the device can copy by itself."""

    def release(self) -> None:
        """Give unused memory back."""

    def stream(self) -> Any:
        """A new stream."""

    def record(self, stream: Any) -> Any:
        """An event: all that the stream was given so far is done."""

    def wait(self, stream: Any, event: Any) -> None:
        """What the stream is given from now on comes after the event."""

    def sync(self, event: Any = None) -> None:
        """The host waits for an event, or for everything."""

    def copy_in(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        """Copy from pinned memory to the device."""

    def copy_out(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        """Copy from the device to pinned memory."""

    def launch(self, stream: Any, work: Callable[[], Any]) -> None:
        """Torch operations on the device that allocate nothing."""

    def spmm_add(
        self,
        stream: Any,
        out: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
        x: torch.Tensor,
        **fused: torch.Tensor | None,
    ) -> None:
        """``out += B x`` for a block B of edges.

        ``values`` has at least as many elements as there are edges.

        A device that fuses is given the diagonals, ``out += diag(left) B
        diag(right) x``, and ``tails`` and ``scratch`` of
        :func:`.triton_spmm.spmm_add`; its ``values`` is empty where
        the edges have none.
        """
