"""Two buffers in which hops that are not kept alternate."""

import torch

from ..._common.bytes import row_stride
from ..._common.rows import empty, empty_bytes


class ColumnBuffers:
    """Memory for a column block of two hops.

    Parameters
    ----------
    num_rows : tuple of int
        The most rows of even and of odd hops.
    width : int
        The most columns.
    """

    def __init__(
        self, num_rows: tuple[int, int], width: int, dtype: torch.dtype
    ):
        stride = row_stride(width, dtype.itemsize)
        self._buffers = [empty(rows, stride, dtype) for rows in num_rows]

    def rows(self, hop: int, num_rows: int, width: int) -> torch.Tensor:
        """Give room for a hop; that of the hop before stays as it is."""
        return self._buffers[hop % 2][:num_rows, :width]


def buffer_bytes(num_rows: tuple[int, int], width: int, itemsize: int) -> int:
    """Count the bytes of :class:`ColumnBuffers`."""
    stride = row_stride(width, itemsize)
    return sum(empty_bytes(rows, stride, itemsize) for rows in num_rows)
