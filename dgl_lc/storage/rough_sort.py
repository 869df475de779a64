"""Sorting edges roughly, before each one is put in its place."""

from collections.abc import Callable

import numpy as np

from .._common.threads import ranges, run_parallel
from . import sort_kernels as kernels


class RoughSort:
    """Edges kept apart by ranges of their rows.

    Each edge goes to some place of a large array, and memory is busy with
    fetching places. Of many edges, those that go to the same few places are
    put there together.
    """

    def __init__(
        self,
        room: int,
        low: int,
        high: int,
        back: bool,
        drop_loops: bool,
        threads: int,
    ):
        # At most 256 buckets: more would be too many places by themselves.
        shift = max((high - low - 1).bit_length() - 8, 0)
        self._buckets = ((high - low - 1) >> shift) + 1
        self._how = (low, high, shift, back, drop_loops)
        self._ways = 2 if back else 1
        self._threads = threads
        self._pairs = np.empty((room, 2), np.int32)
        self._forget()

    def _forget(self) -> None:
        self._used = 0
        self._firsts: list[int] = []
        self._begins: list[np.ndarray] = []

    def is_full(self, edges: int) -> bool:
        return self._used + self._ways * edges > len(self._pairs)

    def add(self, source: np.ndarray, target: np.ndarray) -> None:
        parts = ranges(len(source), self._threads)
        firsts = [self._used + self._ways * begin for begin, _ in parts]
        begins = [np.empty(self._buckets + 1, np.int64) for _ in parts]

        def scatter(_, part):
            begin, end = parts[part]
            kernels.scatter(
                source[begin:end], target[begin:end], *self._how,
                self._pairs[firsts[part] :], begins[part],
            )  # fmt: skip

        run_parallel(scatter, len(parts))
        self._used += self._ways * len(source)
        self._firsts += firsts
        self._begins += begins

    def empty(self, put: Callable) -> None:
        """Let ``put(pairs, firsts, begins, bucket)`` have every bucket."""
        if not self._firsts:
            return
        firsts = np.array(self._firsts)
        begins = np.stack(self._begins)
        run_parallel(
            lambda _, bucket: put(self._pairs, firsts, begins, bucket),
            self._buckets,
        )
        self._forget()
