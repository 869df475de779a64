"""Tensors cut from one allocation."""

import torch

from ..planning.device import aligned


class Arena:
    """Hands out tensors of one allocation of bytes, one after the other."""

    def __init__(self, raw: torch.Tensor):
        self._raw, self._used = raw, 0

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Give room for so many numbers."""
        size = count * dtype.itemsize
        begin = self._used
        self._used += aligned(size)
        assert self._used <= len(self._raw), "more is taken than was planned"
        return self._raw[begin : begin + size].view(dtype)

    def close(self) -> None:
        """Give the memory back, even if an error keeps tensors alive."""
        self._raw.untyped_storage().resize_(0)
