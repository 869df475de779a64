"""Measure how fast a disk writes and reads a large file from end to end.

    python benchmarks/disk_rate.py --folder path/to/a/folder

Writing goes through the page cache as the library writes, and ends when all
bytes have reached the disk (fsync). Before it is read, the file is dropped
from the page cache. A virtual machine's disk may be cached by its host: the
rates are then those that a program on this machine can get, not those of the
device.
"""

import argparse
import contextlib
import os
import shutil
import time
from pathlib import Path

import numpy as np

from dgl_lc._common.bytes import format_bytes, parse_bytes
from dgl_lc._common.file_access import create_file, start_writing, write_all

_PIECE = 4 << 20
_NAME = "disk_rate.bin"


def measure_disk(folder, num_bytes, runs=2):
    """Return the bytes per second of writing and of reading, best of runs."""
    path = Path(folder) / _NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    # Never more than a quarter of what is free.
    num_bytes = min(num_bytes, shutil.disk_usage(path.parent).free // 4)
    pieces = max(1, num_bytes // _PIECE)
    # Random bytes: a disk that compresses would store others faster.
    data = np.random.default_rng(0).bytes(_PIECE)
    found = {"write": 0.0, "read": 0.0}
    try:
        for _ in range(runs):
            path.unlink(missing_ok=True)
            rates = {
                "write": pieces * _PIECE / _write(path, data, pieces),
                "read": pieces * _PIECE / _read(path),
            }
            found = {name: max(found[name], rates[name]) for name in found}
    finally:
        path.unlink(missing_ok=True)
    return {f"{name}_rate": rate for name, rate in found.items()}


def _write(path, data, pieces):
    start = time.perf_counter()
    with create_file(path) as file:
        for piece in range(pieces):
            write_all(file, data)
            start_writing(file, piece * _PIECE, (piece + 1) * _PIECE)
        os.fsync(file.fileno())
    return time.perf_counter() - start


def _read(path):
    drop_from_cache(path)
    buffer = memoryview(bytearray(_PIECE))
    start = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - start


def drop_from_cache(path):
    """Drop a file from the page cache, where the system can do that."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file, contextlib.suppress(OSError):
            # Only what has reached the disk can be dropped.
            os.fsync(file.fileno())
            how = os.POSIX_FADV_DONTNEED
            os.posix_fadvise(file.fileno(), 0, 0, how)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=".",
        help="where to write the file (default: here)")  # fmt: skip
    parser.add_argument("--size", default="2GiB",
        help="size of the file, at most a quarter of what is free "
        "(default: %(default)s)")  # fmt: skip
    args = parser.parse_args()
    for name, rate in measure_disk(args.folder, parse_bytes(args.size)).items():
        print(f"{name}: {format_bytes(int(rate))}/s")


if __name__ == "__main__":
    main()
