"""The host as a device: everything is done at once.

The engine (:mod:`dgl_lc.precompute.cpu.engine`) is the way to compute on the
CPU. This is for looking at the pipeline without a GPU.
"""

from collections.abc import Callable
from typing import Any

import psutil
import torch

from ..precompute.device.csr_spmm import spmm_add


class CpuDevice:
    """A device whose memory is the host's, and that is always done."""

    name = "cpu"
    fuses = False

    def memory(self) -> tuple[int, int]:
        found = psutil.virtual_memory()
        return found.available, found.total

    def empty(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8)

    def pinned(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8)

    def release(self) -> None:
        pass

    def stream(self) -> Any:
        return None

    def record(self, stream: Any) -> Any:
        return None

    def wait(self, stream: Any, event: Any) -> None:
        pass

    def sync(self, event: Any = None) -> None:
        pass

    def copy_in(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        target.copy_(source)

    def copy_out(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        target.copy_(source)

    def launch(self, stream: Any, work: Callable[[], Any]) -> None:
        work()

    def spmm_add(
        self,
        stream: Any,
        out: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
        x: torch.Tensor,
        **fused: Any,
    ) -> None:
        spmm_add(out, indptr, indices, values, x)
