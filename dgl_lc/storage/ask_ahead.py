"""Asking the disk for parts of a mapped file before they are read.

A thread that reads a page of a map waits for the disk if the page is not in
memory. Linux reads ahead if the whole file is read in order. If some of its
pages are in memory and others are not, Linux soon reads one page of 4 KiB at
a time: 50 MB/s from a disk of 3 GB/s.
"""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
from dgl import DGLError

from .._common.file_access import open_regular
from .keys import memory_map

#: Bytes of a request. Of a longer one a system may read only the beginning.
_PIECE = 1 << 17


class AskAhead:
    """Asks for entries of an array, if it is a map of a file.

    Nothing depends on the answer: without a file, or where the system takes
    no requests, nothing is done. Close it.

    Examples
    --------
    >>> with contextlib.closing(AskAhead(np.arange(3))) as asked:
    ...     asked.ask(0, 3)
    """

    def __init__(self, array: np.ndarray):
        self._file: BinaryIO | None = None
        self._itemsize = array.itemsize
        whole = memory_map(array)
        if whole is None or not hasattr(os, "posix_fadvise"):
            return
        self._begin = whole.offset + array.ctypes.data - whole.ctypes.data
        with contextlib.suppress(OSError, DGLError):
            self._file = open_regular(Path(os.fspath(whole.filename or "")))

    def ask(self, first: int, last: int) -> None:
        """Ask for entries first to last (exclusive)."""
        file = self._file
        if file is None:
            return
        begin = self._begin + first * self._itemsize
        end = self._begin + last * self._itemsize
        # Not every file system takes requests, and a thread may still ask
        # when an interrupt has closed the file.
        with contextlib.suppress(OSError, ValueError):
            for at in range(begin, end, _PIECE):
                size = min(_PIECE, end - at)
                how = os.POSIX_FADV_WILLNEED
                os.posix_fadvise(file.fileno(), at, size, how)

    @property
    def asks(self) -> bool:
        """Whether requests reach a disk."""
        return self._file is not None

    def close(self) -> None:
        """Close the file; the map stays."""
        if self._file is not None:
            self._file.close()
            self._file = None
