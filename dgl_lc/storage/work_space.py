"""Memory that is allocated once and cut into arrays.

The C library keeps what is freed, each thread its own share, so that arrays
which come and go take more memory than they have bytes. A budget holds if the
large arrays are cut from one piece of memory that the system gives and takes
back as a whole.
"""

import contextlib
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._common.bytes import CACHE_LINE

#: From this size on huge pages are worth asking for.
_HUGE = 4 << 20


class WorkSpace:
    """A piece of memory, cut into arrays from its beginning on.

    Parameters
    ----------
    size : int
        Its bytes, which become whole cache lines. Those that no array uses
        cost nothing.

    Examples
    --------
    >>> from dgl_lc.storage.work_space import WorkSpace
    >>> space = WorkSpace(1024)
    >>> with space.part():
    ...     space.array(100, "i8").shape, space.left
    ((100,), 192)
    >>> space.left
    1024
    """

    def __init__(self, size: int):
        self._size = max(array_bytes(size, np.uint8), CACHE_LINE)
        self._used = 0
        self._bytes = _allocate(self._size)

    @property
    def left(self) -> int:
        """Bytes that are not cut off yet."""
        return self._size - self._used

    def array(self, count: int, dtype: Any) -> np.ndarray:
        """Cut off an array, with arbitrary values, on a cache line."""
        size = array_bytes(count, dtype)
        if size > self.left:
            raise MemoryError(f"{size} bytes of {self.left} in an space")
        begin = self._used
        self._used += size
        dtype = np.dtype(dtype)
        return self._bytes[begin : begin + count * dtype.itemsize].view(dtype)

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Take arrays that are cut off inside the block back at its end."""
        used = self._used
        try:
            yield
        finally:
            self._used = used


def array_bytes(count: int, dtype: Any) -> int:
    """Bytes of an array that an space gives: whole cache lines."""
    size = count * np.dtype(dtype).itemsize
    return -(-size // CACHE_LINE) * CACHE_LINE


def _allocate(size: int) -> np.ndarray:
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return np.empty(size, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size, flags=flags)
    if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
