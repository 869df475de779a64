"""Sorting edges roughly, before each one is put in its place.

Each edge goes to some place of a large array, and memory is busy with
fetching places. Of many edges, those that go to the same few places are put
there together.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._common.threads import ranges, run_parallel
from . import sort_kernels as kernels
from .sort_kernels import Pieces, Spread
from .work_space import WorkSpace, array_bytes

#: More buckets would be too many places by themselves.
_MOST_BUCKETS = 256
#: Bytes of a pair, without a weight.
PAIR_BYTES = 8


class RoughSize(NamedTuple):
    """How much a rough sort holds.

    Attributes
    ----------
    pairs : int
        Edges, counted twice if they go both ways.
    slices : int
        Slices of edges.
    threads : int
        Threads, each of which sorts a part of every slice.
    weight_size : int
        Bytes of a weight; 0 without any.
    """

    pairs: int
    slices: int
    threads: int
    weight_size: int

    def grown(self, room: int, edges: int, slice_pairs: int) -> "RoughSize":
        """The largest size for so many bytes, or this one.

        The more pairs are put in their places at a time, the more of them go
        to one place of memory. Beyond a quarter of all that gains little.

        Parameters
        ----------
        room : int
            The bytes.
        edges : int
            All pairs that will be put in their places.
        slice_pairs : int
            Pairs of a slice.
        """
        each = slice_pairs * (PAIR_BYTES + self.weight_size)
        each += 8 * self.threads * (_MOST_BUCKETS + 1)
        # The last slice may be shorter than the others, and arrays are whole
        # cache lines.
        room -= 8 * self.threads * (_MOST_BUCKETS + 1) + array_bytes(3, "V64")
        slices = min(room // each, edges // 4 // slice_pairs)
        if slices * slice_pairs <= self.pairs:
            return self
        return self._replace(pairs=slices * slice_pairs, slices=slices + 1)

    @property
    def num_bytes(self) -> int:
        begins = self.slices * self.threads * (_MOST_BUCKETS + 1)
        return (
            array_bytes(self.pairs, np.uint64)
            + array_bytes(self.pairs * self.weight_size, np.uint8)
            + array_bytes(begins, np.int64)
        )


class RoughSort:
    """Edges kept apart by ranges of their rows.

    Parameters
    ----------
    space : WorkSpace
        Where it takes its memory from.
    size : RoughSize
        How much it holds.
    low, high : int
        The rows whose edges are kept.
    back, drop_loops : bool
        As in :class:`~dgl_lc.storage.sort_kernels.Spread`.
    weight_type : numpy.dtype or None
        The type of weights that are kept with the edges; None for none.
    every : bool, optional
        Whether ``low`` to ``high`` are all rows.
    """

    def __init__(
        self,
        space: WorkSpace,
        size: RoughSize,
        low: int,
        high: int,
        back: bool,
        drop_loops: bool,
        weight_type: np.dtype | None,
        every: bool = False,
    ):
        last = high - low - 1
        shift = max(last.bit_length() - (_MOST_BUCKETS.bit_length() - 1), 0)
        self._buckets = (last >> shift) + 1
        self._spread = Spread(low, high, every, shift, back, drop_loops)
        self._ways = 2 if back else 1
        self._size = size
        self._pairs = space.array(size.pairs, np.uint64)
        self._weights = kernels.NO_WEIGHTS
        if weight_type is not None:
            self._weights = space.array(size.pairs, weight_type)
        begins = size.slices * size.threads * (_MOST_BUCKETS + 1)
        self._begins = space.array(begins, np.int64)
        self._forget()

    def _forget(self) -> None:
        self._used = 0
        self._firsts: list[int] = []

    def is_full(self, edges: int) -> bool:
        """Whether so many more edges do not fit."""
        return self._used + self._ways * edges > len(self._pairs)

    def add(
        self,
        source: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray = kernels.NO_WEIGHTS,
    ) -> None:
        """Keep the edges of a slice, and their weights if there are any."""
        parts = ranges(len(source), self._size.threads)
        firsts = [self._used + self._ways * begin for begin, _ in parts]
        begins = self._all_begins()[len(self._firsts) :]

        def scatter(_: int, part: int) -> None:
            begin, end = parts[part]
            kernels.scatter(
                source[begin:end], target[begin:end], weight[begin:end],
                self._spread, self._pairs[firsts[part] :],
                self._weights[firsts[part] :], begins[part],
            )  # fmt: skip

        run_parallel(scatter, len(parts), self._size.threads)
        self._used += self._ways * len(source)
        self._firsts += firsts

    def _all_begins(self) -> np.ndarray:
        width = self._buckets + 1
        rows = self._size.slices * self._size.threads
        return self._begins[: rows * width].reshape(rows, width)

    def empty(self, put: Callable[[Pieces, int], None]) -> None:
        """Let ``put(pieces, bucket)`` have every bucket, and forget them."""
        if not self._firsts:
            return
        firsts = np.array(self._firsts)
        begins = self._all_begins()[: len(firsts)]
        pieces = Pieces(self._pairs, self._weights, firsts, begins)
        run_parallel(
            lambda _, bucket: put(pieces, bucket),
            self._buckets,
            self._size.threads,
        )
        self._forget()
