"""The number of edges of each row, counted before and read back in pieces."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from dgl import DGLError

from .npy_file import HEADER, GrowingArray, chunk_rows
from .npy_header import as_bytes, open_file, read_into

#: Numbers that are read at a time.
_PIECE = 1 << 15


class EdgeCounts:
    """Reads a file of int32 that has a number for each row.

    Parameters
    ----------
    path : Path
        The file.
    num_rows : int
        How many rows there are.
    """

    def __init__(self, path: Path, num_rows: int):
        self._path = path
        self._num_rows = num_rows
        self._scratch = np.empty(_PIECE, np.int32)

    def read(self, low: int, out: np.ndarray) -> None:
        """Read the numbers of the rows from ``low`` on."""
        with open_file(self._path) as file:
            file.seek(HEADER + 4 * low)
            read_into(file, as_bytes(out))

    def pieces(self, low: int, high: int | None = None) -> Iterator[np.ndarray]:
        """Read those of rows low to high, or to the last one.

        A piece is overwritten by the next one.
        """
        high = self._num_rows if high is None else high
        for begin in range(low, high, _PIECE):
            part = self._scratch[: high - begin]
            self.read(begin, part)
            yield part

    def pieces_from(
        self, low: int, high: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Read rows low to high; where each piece begins, counted from low."""
        at = 0
        for part in self.pieces(low, high):
            yield at, part
            at += len(part)

    def add_up(self, file: GrowingArray) -> int:
        """Add up all numbers, after a comparison with their checksums.

        They may be from an earlier run, and the kernels trust them.
        """
        size = chunk_rows(np.dtype(np.int32), ())
        total = 0
        for place, begin in enumerate(range(0, self._num_rows, size)):
            crc = 0
            for part in self.pieces(begin, min(begin + size, self._num_rows)):
                crc = zlib.crc32(part.data, crc)
                total += int(part.sum(dtype=np.int64))
            if crc != file.checksums[place]:
                raise DGLError(
                    f"{self._path} is damaged: write the folder again with "
                    f"resume=False."
                )
        return total
