"""Memory for batches, which is used again."""

import threading

import torch

# Counts the tensors that share a piece of memory. It is not public: if torch
# lacks it, every batch gets memory of its own.
_use_count = getattr(torch._C, "_storage_Use_Count", None)

#: Batches whose memory is kept: the one in use and its last view, two that
#: are ready, and one that is being gathered.
_KEPT = 5


class Buffers:
    """Gives memory for a batch, if possible that of an earlier batch.

    Fresh memory of the size of a batch costs more than gathering its rows.
    What :meth:`get` returns is a view. As long as this view, a view of it, or
    a graph of autograd that saved one is alive, its memory is not used again.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[torch.Tensor, int]] = []
        # Each iteration over a loader may gather in a thread of its own.
        self._lock = threading.Lock()

    def get(
        self, rows: int, columns: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        """Return an uninitialised tensor of shape (rows, *columns)."""
        with self._lock:
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
