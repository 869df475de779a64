"""Exchanging two folders, to replace one by another that is finished."""

import ctypes
import os
import sys
from pathlib import Path

from .folder import disk_errors


def exchange_folders(one: Path, other: Path) -> None:
    """Exchange two folders, in a single step where the system has one.

    Where it has none, there is a moment without the folder ``other``: it is
    then called ``<other>.replaced``.
    """
    with disk_errors(other):
        if not _exchange_at_once(one, other):
            aside = other.with_name(f"{other.name}.replaced")
            other.rename(aside)
            one.rename(other)
            aside.rename(one)
        for parent in {one.absolute().parent, other.absolute().parent}:
            _sync_folder(parent)


def _exchange_at_once(one: Path, other: Path) -> bool:
    """Exchange two folders with Linux's call, if this system has it."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    paths = [os.fsencode(path.absolute()) for path in (one, other)]
    return (
        call is not None and call(here, paths[0], here, paths[1], exchange) == 0
    )


def _sync_folder(path: Path) -> None:
    """Have the names in a folder reach the disk."""
    if sys.platform == "win32":  # a folder can't be opened there
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
