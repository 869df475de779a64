"""Memory for batches that is used again."""

import torch

# How many tensors share a piece of memory. It is not public: where torch
# does not have it, every batch gets memory of its own.
_use_count = getattr(torch._C, "_storage_Use_Count", None)

#: Batches whose memory is kept.
_KEPT = 3


class Buffers:
    """Gives memory for a batch, used before where nobody holds it any more.

    Fresh memory of the size of a batch costs more than gathering its rows.
    What is handed out is a view: as long as it, a view of it, or a graph of
    autograd that saved one is alive, its memory is not given again.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[torch.Tensor, int]] = []

    def get(self, rows: int, columns: tuple, dtype: torch.dtype):
        """An uninitialised tensor of shape (rows, *columns), on the CPU."""
        for base, alone in self._kept:
            fits = base.shape[1:] == columns and base.dtype == dtype
            if fits and len(base) >= rows and _count(base) == alone:
                return base[:rows]
        base = torch.empty((rows, *columns), dtype=dtype)
        if _use_count is not None and len(self._kept) < _KEPT:
            self._kept.append((base, _count(base)))
        return base[:rows]


def _count(tensor: torch.Tensor) -> int:
    assert _use_count is not None
    return _use_count(tensor.untyped_storage()._cdata)
