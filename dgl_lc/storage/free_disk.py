"""Giving parts of a file back to the disk."""

import ctypes
import os
import sys
from pathlib import Path

_PAGE = 4096
#: Of Linux' fallocate: keep the file's length, and make a hole.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def free_range(path: Path, begin: int, end: int) -> bool:
    """Free bytes begin to end of a file, which are zeros from then on.

    Only whole pages, and only where the system can: False where it cannot,
    and then nothing happens.
    """
    begin = -(-begin // _PAGE) * _PAGE
    end = end // _PAGE * _PAGE
    if not sys.platform.startswith("linux") or end <= begin:
        return False
    fallocate = ctypes.CDLL(None).fallocate
    fallocate.argtypes = [
        ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64
    ]  # fmt: skip
    file = os.open(path, os.O_RDWR)
    try:
        how = _KEEP_SIZE | _PUNCH_HOLE
        return fallocate(file, how, begin, end - begin) == 0
    finally:
        os.close(file)
