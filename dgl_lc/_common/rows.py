"""Tensors of rows: allocating, copying, and passing them to kernels."""

import numpy as np
import torch

from .bytes import CACHE_LINE, empty_rows
from .dtypes import type_of
from .pages import PAGE, touch
from .threads import num_threads, ranges, run_parallel

#: Rows that are copied at a time.
COPY_ROWS = 4096
#: Tensors smaller than this stay in the cache for the next hop.
_STREAM_BYTES = 1 << 25


def empty(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Allocate a tensor that begins on a cache line, with arbitrary values.

    Large ones are touched at once, by all threads: where memory is short the
    work ends before it began, and finding pages does not slow down the hops.
    """
    width = columns * type_of(dtype).itemsize
    raw = empty_rows(rows, width, np.dtype(np.uint8))
    if raw.size >= _STREAM_BYTES:
        data = raw.reshape(-1)
        parts = ranges(-(-data.size // PAGE), 8 * num_threads())
        run_parallel(lambda _, part: touch(data, *parts[part]), len(parts))
    return torch.from_numpy(raw).view(dtype)


def empty_bytes(rows: int, columns: int, itemsize: int) -> int:
    """Count the bytes that :func:`empty` allocates."""
    return rows * columns * itemsize + CACHE_LINE


def bits(tensor: torch.Tensor) -> np.ndarray:
    """Give the tensor as the kernels take it: halves as int16."""
    if type_of(tensor.dtype).itemsize == 2:
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def whole_lines(tensor: torch.Tensor, column: int, width: int) -> bool:
    """Tell whether a tile's rows are made of whole cache lines."""
    size = tensor.element_size()
    lengths = (
        width * size,
        tensor.stride(0) * size,
        tensor.data_ptr() + column * size,
    )
    return all(length % CACHE_LINE == 0 for length in lengths)


def streams(target: torch.Tensor, column: int, width: int) -> bool:
    """Tell whether a tile of the target should be written past the cache.

    It can be if it is made of whole cache lines, and it should be if it is
    too large to be found there by the next hop.
    """
    size = len(target) * target.stride(0) * target.element_size()
    return size >= _STREAM_BYTES and whole_lines(target, column, width)


def copy_rows(
    source: torch.Tensor, rows: torch.Tensor | None, target: torch.Tensor
) -> None:
    """Copy ``source[rows]`` to the target, a few rows at a time.

    None stands for all rows.
    """
    for first in range(0, len(target), COPY_ROWS):
        part = slice(first, first + COPY_ROWS)
        if rows is None:
            target[part] = source[part]
        else:
            # A third of the time of source[rows].
            target[part] = source.index_select(0, rows[part])


def copy_bytes(columns: int, itemsize: int) -> int:
    """Count the bytes that :func:`copy_rows` takes for itself.

    These are a few gathered rows of the source, and their ids.
    """
    return COPY_ROWS * (columns * itemsize + 2 * 8) + 2**16
