"""A GPU. The only file that calls torch.cuda: each method is a line or two.

Nothing else may, so that what is tested on the simulated device is what
reaches the GPU.
"""

import functools
import os

import torch

from ..kernels import csr_spmm

#: Set to "triton" to try the other kernel; nobody has measured it yet.
KERNEL = "DGL_LC_CUDA_KERNEL"
#: Its name before torch 2.5.
OutOfMemoryError: type[Exception] = torch.cuda.OutOfMemoryError


def why_not(device: torch.device) -> str | None:
    """Why this GPU cannot be used; None if it can."""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch was built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no GPU, or no driver for it"
    if (device.index or 0) >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, from cuda:0 on"
    return None


class CudaDevice:
    """A GPU by its number."""

    def __init__(self, index: int = 0):
        self._device = torch.device("cuda", index)
        self.name = str(self._device)
        self.fuses = os.environ.get(KERNEL) == "triton"

    def describe(self):
        return torch.cuda.get_device_name(self._device)

    def memory(self):
        return torch.cuda.mem_get_info(self._device)

    def peak(self, work):
        """The most bytes that were allocated at a time while work ran."""
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        before = torch.cuda.memory_allocated(self._device)
        work()
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device) - before

    def empty(self, size):
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def pinned(self, size):
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def release(self):
        torch.cuda.empty_cache()

    def stream(self):
        stream = torch.cuda.Stream(self._device)
        # Memory is allocated on the current stream.
        stream.wait_stream(torch.cuda.current_stream(self._device))
        return stream

    def record(self, stream):
        event = torch.cuda.Event()
        event.record(stream)
        return event

    def wait(self, stream, event):
        stream.wait_event(event)

    def sync(self, event=None):
        if event is None:
            torch.cuda.synchronize(self._device)
        else:
            event.synchronize()

    def copy_in(self, stream, target, source):
        self.launch(stream, lambda: target.copy_(source, non_blocking=True))

    copy_out = copy_in

    def launch(self, stream, work):
        with torch.cuda.stream(stream):
            work()

    def spmm_add(self, stream, out, indptr, indices, values, x, **fused):
        add = csr_spmm.spmm_add
        if self.fuses:
            from ..kernels import triton_spmm  # slow to import

            values = values if len(values) else None
            add = functools.partial(triton_spmm.spmm_add, **fused)
        self.launch(stream, lambda: add(out, indptr, indices, values, x))
