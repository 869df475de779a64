"""Space on the disk: whether there is enough, and giving some back."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

from dgl import DGLError

from .._common.bytes import format_bytes

_PAGE = 4096
#: Flags of Linux' fallocate: keep the file's length, and make a hole.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def check_free(path: Path, needed: int, what: str) -> None:
    """Refuse a disk that has no room for so many bytes."""
    free = shutil.disk_usage(path).free
    if free < needed:
        raise DGLError(
            f"{path}: {what} needs {format_bytes(needed)} of disk, but only "
            f"{format_bytes(free)} are free."
        )


def disk_of(folder: Path) -> int:
    """Count the bytes of disk that the files of a folder take."""
    if not folder.is_dir():
        return 0
    # The system counts in blocks of 512 bytes, whatever those of the disk.
    return sum(
        512 * entry.stat().st_blocks
        for entry in os.scandir(folder)
        if entry.is_file()
    )


def free_range(path: Path, begin: int, end: int) -> bool:
    """Free bytes begin to end of a file, which are zeros from then on.

    Only whole pages are freed. Where the system can't do so, nothing happens
    and the result is False.
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
