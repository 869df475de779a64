"""Tensors of rows: allocating, copying, and passing them to kernels."""

import functools
from collections.abc import Sequence

import numpy as np
import torch

from .kernels.gather import accumulator, sum_rows, tiles
from .kernels.pages import PAGE, touch
from .memory import CACHE_LINE, empty_rows
from .threads import num_threads, ranges, run_parallel

#: Rows that are copied at a time.
COPY_ROWS = 4096
#: Tensors smaller than this stay in the cache for the next hop.
_STREAM_BYTES = 1 << 25
#: What is smaller is gathered by one thread.
_PARALLEL_BYTES = 1 << 23
_HALVES = (torch.float16, torch.bfloat16)


def empty(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor that begins on a cache line, with arbitrary values.

    Large ones are touched at once, by all threads: where memory is short the
    work ends before it began, and finding pages does not slow down the hops.
    """
    size = torch.empty(0, dtype=dtype).element_size()
    raw = empty_rows(rows, columns * size, np.dtype(np.uint8))
    if raw.size >= _STREAM_BYTES:
        data = raw.reshape(-1)
        parts = ranges(-(-data.size // PAGE), 8 * num_threads())
        run_parallel(lambda _, part: touch(data, *parts[part]), len(parts))
    return torch.from_numpy(raw).view(dtype)


def bits(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as the kernels take it: halves as int16."""
    if tensor.dtype in _HALVES:
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def streams(target: torch.Tensor, column: int, width: int) -> bool:
    """Whether a tile of the target should be written past the cache.

    It can be if it is made of whole cache lines, and it should be if it is
    too large to be found there by the next hop.
    """
    size = target.element_size()
    row = target.stride(0) * size
    begin = target.data_ptr() + column * size
    whole_lines = all(
        length % CACHE_LINE == 0 for length in (width * size, row, begin)
    )
    return whole_lines and len(target) * row >= _STREAM_BYTES


def copy_rows(
    source: torch.Tensor, rows: torch.Tensor | None, target: torch.Tensor
) -> None:
    """``target = source[rows]``, a few rows at a time; all rows for None."""
    for first in range(0, len(target), COPY_ROWS):
        part = slice(first, first + COPY_ROWS)
        target[part] = source[part] if rows is None else source[rows[part]]


def gather_rows(
    sources: Sequence[torch.Tensor], rows: torch.Tensor, out: torch.Tensor
) -> None:
    """Write ``source[rows]`` of each source to ``out``, one after the other.

    Rows that lie anywhere are waited for; the gather-sum, here of one entry
    a row, asks for them ahead.
    """
    count = len(rows)
    entries = rows.to(torch.int32).numpy()
    kind = str(out.dtype).removeprefix("torch.")
    offsets, ones = _one_entry_rows(count, kind)

    def gather(_, number):
        x = bits(sources[number])
        part = bits(out[number * count : (number + 1) * count])
        for column, width in tiles(x.shape[1], kind):
            kernel = sum_rows(width, kind, kind, False)
            kernel(offsets, entries, ones, ones, x, column, part, 0)

    # Starting threads takes as long as copying a megabyte.
    large = out.numel() * out.element_size() >= _PARALLEL_BYTES
    run_parallel(gather, len(sources), None if large else 1)


@functools.lru_cache(4)
def _one_entry_rows(count: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and weights of rows that have one entry each."""
    return np.arange(count + 1), np.ones(count, accumulator(kind))


def can_gather(tensor: torch.Tensor) -> bool:
    """Whether :func:`gather_rows` takes the tensor."""
    return (
        tensor.device.type == "cpu"
        and tensor.dim() == 2
        and tensor.shape[1] > 0
        and tensor.stride(1) == 1
        and len(tensor) < 2**31
        and tensor.dtype in (torch.float32, torch.float64, *_HALVES)
    )
