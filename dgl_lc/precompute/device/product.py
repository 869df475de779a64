"""Which kernel multiplies on a GPU."""

import functools
import os
from collections.abc import Callable
from typing import Any

import torch

from .csr_spmm import spmm_add

#: Set to "triton" to try the other kernel; nobody has measured it yet.
KERNEL = "DGL_LC_CUDA_KERNEL"


def uses_triton() -> bool:
    """Whether the other kernel was asked for."""
    return os.environ.get(KERNEL) == "triton"


@functools.cache
def product(fuses: bool) -> Callable[..., None]:
    """``out += B x``, as :meth:`.protocol.Device.spmm_add`."""
    if not fuses:
        return spmm_add
    # Slow to import.
    from .triton_spmm import spmm_add as fused_add

    def add(
        out: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
        x: torch.Tensor,
        **fused: Any,
    ) -> None:
        given = values if len(values) else None
        fused_add(out, indptr, indices, given, x, **fused)

    return add
