"""Keys: short names that stand for the content of what a result depends on.

An array in memory is read whole, at the speed of memory. Our own folders have
a key in their manifest, which counts as long as nobody has written to their
files since. A memory map of a foreign file is known by the file's size, time
and inode alone: whoever uses a result again on the strength of such a key has
to say so.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._common.digest import digest
from .disk_features import DiskFeatures
from .made_columns import MadeColumns

#: What a key of a file that nobody has read begins with.
_UNREAD = "unread"


def array_key(
    array: torch.Tensor | np.ndarray | DiskFeatures | MadeColumns,
) -> str:
    """The key of features, weights or ids."""
    if isinstance(array, DiskFeatures):
        return array.check_key()
    if isinstance(array, MadeColumns):
        return array.key
    if isinstance(array, np.ndarray):
        mapped = memory_map(array)
        if mapped is not None:
            return _file_key(mapped, array)
    return digest(array)


def is_unread(key: Any) -> bool:
    """Whether a key is of a file that was not read."""
    return isinstance(key, str) and key.startswith(_UNREAD)


def memory_map(array: Any) -> np.memmap | None:
    """The whole memory map that an array is a part of, if it is one."""
    found = None
    while isinstance(array, np.ndarray):
        # A part of a map is a map too, and says that it begins where the
        # whole does: the last one is the whole.
        if isinstance(array, np.memmap) and array.filename is not None:
            found = array
        array = array.base
    return found


def _file_key(mapped: np.memmap, array: np.ndarray) -> str:
    path = Path(os.fspath(mapped.filename or ""))
    found = path.stat()
    begin = array.ctypes.data - mapped.ctypes.data + mapped.offset
    parts = (
        path.name, found.st_size, found.st_mtime_ns, found.st_ino, begin,
        array.shape, array.strides, array.dtype.str,
    )  # fmt: skip
    return f"{_UNREAD} {parts!r}"


def file_stamp(path: Path) -> dict[str, Any]:
    """What stands for a file's content, without reading it."""
    found = path.stat()
    return {
        "file": path.name,
        "bytes": found.st_size,
        "modified": found.st_mtime_ns,
        "inode": found.st_ino,
    }
