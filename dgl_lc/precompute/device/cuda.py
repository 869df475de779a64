"""A GPU. The only file that calls torch.cuda: each method is a line or two.

Nothing else may, so that what is tested on the simulated device is what
reaches the GPU.
"""

from collections.abc import Callable
from typing import Any

import torch

from .memory_errors import memory_errors
from .product import product, uses_triton


def why_not(device: torch.device) -> str | None:
    """Why this GPU cannot be used; None if it can."""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch was built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no GPU, or no driver for it"
    if (device.index or 0) >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, from cuda:0 on"
    try:  # A GPU may be too old for this torch, or taken by another program.
        torch.zeros(1, device=device).add_(1).item()
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return None


class CudaDevice:
    """A GPU by its number; without one torch's current."""

    def __init__(self, index: int | None = None):
        index = torch.cuda.current_device() if index is None else index
        self._device = torch.device("cuda", index)
        self.name = str(self._device)
        self.fuses = uses_triton()

    def describe(self) -> str:
        return torch.cuda.get_device_name(self._device)

    def memory(self) -> tuple[int, int]:
        return torch.cuda.mem_get_info(self._device)

    def peak(self, work: Callable[[], Any]) -> list[int]:
        """The most bytes that work allocated, and that torch reserved."""
        self.release()
        torch.cuda.reset_peak_memory_stats(self._device)
        before = torch.cuda.memory_stats(self._device)
        work()
        after = torch.cuda.memory_stats(self._device)
        names = ("allocated_bytes.all", "reserved_bytes.all")
        return [after[f"{n}.peak"] - before[f"{n}.current"] for n in names]

    def empty(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def pinned(self, size: int) -> torch.Tensor:
        with memory_errors(), torch.device("cpu"):
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def release(self) -> None:
        torch.cuda.empty_cache()
        getattr(torch._C, "_host_emptyCache", bool)()

    def stream(self) -> Any:
        stream = torch.cuda.Stream(self._device)  # after the allocations:
        stream.wait_stream(torch.cuda.current_stream(self._device))
        return stream

    def record(self, stream: Any) -> Any:
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        stream.wait_event(event)

    def sync(self, event: Any = None) -> None:
        event.synchronize() if event else torch.cuda.synchronize(self._device)

    def copy_in(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        self.launch(stream, lambda: target.copy_(source, non_blocking=True))

    copy_out = copy_in

    def launch(self, stream: Any, work: Callable[[], Any]) -> None:
        with memory_errors(), torch.cuda.stream(stream):
            work()

    def spmm_add(self, stream: Any, *block: Any, **fused: Any) -> None:
        add = product(self.fuses)
        self.launch(stream, lambda: add(*block, **fused))
