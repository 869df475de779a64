"""Counting the memory that a precomputation holds."""

from collections.abc import Iterator
from contextlib import contextmanager

from dgl import DGLError

from .._common.bytes import format_bytes

#: Bytes of rows that are worked on at a time, if memory allows.
_CHUNK = 1 << 24
#: The smallest and the largest number of rows that are worked on at a time.
_FEWEST, _MOST = 64, 1 << 16
#: What Python and the C library take for small objects.
_FIXED = 1 << 21


class MemoryCount:
    """Counts bytes that are held, against a budget if there is one."""

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._held = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget."""
        return self._budget is not None

    def left(self, what: str = "the work") -> int | None:
        """Return the bytes that are left; None without a budget."""
        if self._budget is None:
            return None
        found = self._budget - self._held
        if found <= 0:
            raise self._too_small(0, what)
        return found

    def hold(self, size: int, what: str) -> None:
        """Count bytes until they are released; refuse what does not fit."""
        if self._budget is not None and self._held + size > self._budget:
            raise self._too_small(size, what)
        self._held += size

    def release(self, size: int) -> None:
        """Count bytes no longer."""
        self._held -= size

    @contextmanager
    def holding(self, size: int, what: str) -> Iterator[None]:
        """Count bytes during this block."""
        self.hold(size, what)
        try:
            yield
        finally:
            self.release(size)

    def chunk_rows(self, bytes_per_row: int, what: str) -> int:
        """Choose how many rows are worked on at a time."""
        room = _CHUNK
        left = self.left(what)
        if left is not None:
            room = min(room, left - _FIXED)
        rows = min(max(room, 0) // max(bytes_per_row, 1), _MOST)
        if rows < _FEWEST:
            if left is not None and left < _FIXED + _FEWEST * bytes_per_row:
                raise self._too_small(_FIXED + _FEWEST * bytes_per_row, what)
            rows = _FEWEST
        return rows

    def _too_small(self, size: int, what: str) -> DGLError:
        assert self._budget is not None
        enough = -(-(self._held + max(size, 1)) // 2**20)
        return DGLError(
            f"memory={format_bytes(self._budget)} is too small: {what} takes "
            f"{format_bytes(size)}, beside {format_bytes(self._held)} that "
            f"are held then. Give at least memory='{enough}MiB' (later steps "
            f"may need more), fewer nodes=, or a smaller dtype=."
        )
