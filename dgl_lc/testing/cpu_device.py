"""The host as a device: everything is done at once.

The engine (:mod:`dgl_lc.precompute.cpu.engine`) is the way to compute on the
CPU. This is for looking at the pipeline without a GPU.
"""

import psutil
import torch

from ..precompute.device.csr_spmm import spmm_add


class CpuDevice:
    """A device whose memory is the host's, and that is always done."""

    name = "cpu"
    fuses = False

    def memory(self):
        found = psutil.virtual_memory()
        return found.available, found.total

    def empty(self, size):
        return torch.empty(size, dtype=torch.uint8)

    def pinned(self, size):
        return torch.empty(size, dtype=torch.uint8)

    def release(self):
        pass

    def stream(self):
        return None

    def record(self, stream):
        return None

    def wait(self, stream, event):
        pass

    def sync(self, event=None):
        pass

    def copy_in(self, stream, target, source):
        target.copy_(source)

    def copy_out(self, stream, target, source):
        target.copy_(source)

    def launch(self, stream, work):
        work()

    def spmm_add(self, stream, out, indptr, indices, values, x, **fused):
        spmm_add(out, indptr, indices, values, x)
