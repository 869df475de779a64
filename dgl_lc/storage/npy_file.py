"""npy files of one layout, which are written part by part and checked.

The header has one length for every shape, so that the numbers begin at the
same place while the file still grows. Each few MiB of rows have a checksum
of their own: a reader checks what it reads, on all threads, and no more.
"""

import errno
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from dgl import DGLError

from .._common.file_access import (
    create_file,
    open_regular,
    read_parts,
    start_writing,
    write_all,
)
from .._common.threads import num_threads, run_parallel

#: Bytes before the numbers, whatever the shape.
HEADER = 128
#: Bytes of rows with a checksum of their own, about.
CHUNK = 1 << 22
#: Bytes after which the disk begins to write, long before anybody waits.
_BEHIND = 1 << 25
#: Bytes that a thread reads at a time to compare checksums: few, as they do
#: not count in anybody's budget.
_PART = 1 << 16


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of an npy file, of one length for every shape."""
    text = repr(
        {
            "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
            "fortran_order": False,
            "shape": shape,
        }
    )
    room = HEADER - 10
    return (
        b"\x93NUMPY\x01\x00"
        + room.to_bytes(2, "little")
        + text.encode().ljust(room - 1)
        + b"\n"
    )


def chunk_rows(dtype: np.dtype, row_shape: Sequence[int]) -> int:
    """How many rows share a checksum."""
    size = np.dtype(dtype).itemsize * int(np.prod(row_shape, dtype=np.int64))
    return max(1, CHUNK // max(size, 1))


@dataclass(frozen=True)
class FileEntry:
    """What a manifest says of an npy file.

    Attributes
    ----------
    checksums : tuple of int, or None
        The CRC-32 of each chunk of rows; None where rows have checksums of
        their own in another file.
    size, mtime_ns, inode : int
        The file as it was when it was finished: while these are the same,
        its content is taken to be the same.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    checksums: tuple[int, ...] | None
    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(
        cls,
        path: Path,
        dtype: np.dtype,
        shape: tuple[int, ...],
        checksums: Sequence[int] | None,
    ) -> "FileEntry":
        """The entry of a file that is finished and closed."""
        found = path.stat()
        crcs = None if checksums is None else tuple(checksums)
        times = (found.st_size, found.st_mtime_ns, found.st_ino)
        return cls(np.dtype(dtype), shape, crcs, *times)

    @property
    def chunk_rows(self) -> int:
        return chunk_rows(self.dtype, self.shape[1:])

    @property
    def num_bytes(self) -> int:
        """Bytes of the numbers."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size

    def content(self) -> dict[str, Any]:
        """What stands for the content, wherever the file lies."""
        checksums = None if self.checksums is None else list(self.checksums)
        return {
            "dtype": np.lib.format.dtype_to_descr(self.dtype),
            "shape": list(self.shape),
            "checksums": checksums,
        }

    def to_json(self) -> dict[str, Any]:
        file = {
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "inode": self.inode,
        }
        return self.content() | file

    @classmethod
    def from_json(cls, found: Any) -> "FileEntry":
        """Read an entry; ValueError for anything that is none."""
        if not isinstance(found, dict):
            raise ValueError("an entry of a file is no object")
        shape, checksums = found.get("shape"), found.get("checksums")
        if found.get("dtype") not in _DTYPES:
            raise ValueError(f"the dtype {found.get('dtype')!r} is not known")
        if not _are_counts(shape) or not shape:
            raise ValueError(f"the shape {shape!r} is none")
        if checksums is not None and not _are_counts(checksums):
            raise ValueError("its checksums are no numbers")
        numbers: list[Any] = [
            found.get(name) for name in ("size", "mtime_ns", "inode")
        ]
        if not _are_counts(numbers):
            raise ValueError("its size, time or inode is no number")
        crcs = None if checksums is None else tuple(checksums)
        entry = cls(np.dtype(found["dtype"]), tuple(shape), crcs, *numbers)
        if entry.size != HEADER + entry.num_bytes:
            raise ValueError("its size is not that of its shape")
        chunks = -(-entry.shape[0] // entry.chunk_rows)
        if crcs is not None and len(crcs) != chunks:
            raise ValueError("its checksums are too few or too many")
        return entry


_DTYPES = ("<f4", "<f8", "<f2", "<i2", "<i4", "<i8", "<u8", "|u1")


def _are_counts(found: Any) -> bool:
    return isinstance(found, list) and all(
        type(number) is int and number >= 0 for number in found
    )


class GrowingArray:
    """An npy file that grows by its first axis.

    Parameters
    ----------
    path : Path
        The file. It must not exist, unless ``count`` rows of it do.
    dtype : numpy.dtype
        The type of its numbers.
    columns : int, optional
        Numbers in a row. Default: the file has one dimension.
    count : int
        Rows that count, from an earlier run. What lies behind them is cut
        off.
    checksums : sequence of int
        The checksums of these rows.
    """

    def __init__(
        self,
        path: Path,
        dtype: Any,
        columns: int | None = None,
        count: int = 0,
        checksums: Sequence[int] = (),
    ):
        self.path = path
        self.dtype = np.dtype(dtype)
        self.columns = columns
        self.count = count
        self.checksums = list(checksums)
        more = () if columns is None else (columns,)
        self._chunk_rows = chunk_rows(self.dtype, more)
        row_bytes = self.dtype.itemsize * (1 if columns is None else columns)
        size = HEADER + count * row_bytes
        if not count:
            # Never the same file again: a reader may have mapped it.
            path.unlink(missing_ok=True)
            self._file = create_file(path)
        else:
            self._file = self._reopen(size)
        self._file.truncate(size)
        self._file.seek(size)
        self._size = self._started = size

    def _reopen(self, size: int) -> BinaryIO:
        try:
            file = open_regular(self.path, write=True)
        except OSError as error:
            raise DGLError(
                f"{self.path} cannot be opened to resume: {error.strerror}. "
                f"Write the folder again with resume=False."
            ) from None
        if os.fstat(file.fileno()).st_size < size:
            file.close()
            raise DGLError(
                f"{self.path} is shorter than the state of the run says: the "
                f"folder is damaged. Write it again with resume=False."
            )
        return file

    @property
    def shape(self) -> tuple[int, ...]:
        more = () if self.columns is None else (self.columns,)
        return (self.count, *more)

    def append(self, array: np.ndarray) -> None:
        """Write rows behind those that exist."""
        rows = np.ascontiguousarray(array, dtype=self.dtype)
        begin = 0
        while begin < len(rows):
            place = self.count % self._chunk_rows
            if place == 0:
                self.checksums.append(0)
            end = min(begin + self._chunk_rows - place, len(rows))
            data = rows[begin:end].reshape(-1).view(np.uint8).data
            self.checksums[-1] = zlib.crc32(data, self.checksums[-1])
            write_all(self._file, data)
            self.count += end - begin
            self._size += len(data)
            begin = end
            if self._size - self._started >= _BEHIND:
                start_writing(self._file, self._started, self._size)
                self._started = self._size

    def verify(self) -> None:
        """Read the rows back; an error if they are not what was written."""
        entry = FileEntry.of(self.path, self.dtype, self.shape, self.checksums)
        check_chunks(self.path, entry, range(len(self.checksums)))

    def sync(self) -> None:
        """Have what was written reach the disk."""
        os.fsync(self._file.fileno())

    def seal(self) -> FileEntry:
        """Write the header, now that the shape is known, and close."""
        self._file.seek(0)
        write_all(self._file, npy_header(self.dtype, self.shape))
        self.sync()
        self.close()
        return FileEntry.of(self.path, self.dtype, self.shape, self.checksums)

    def close(self) -> None:
        self._file.close()


def save_array(path: Path, array: np.ndarray) -> FileEntry:
    """Write a whole array to a new file."""
    columns = None if array.ndim == 1 else array.shape[1]
    file = GrowingArray(path, array.dtype, columns)
    try:
        file.append(array)
        return file.seal()
    finally:
        file.close()


def map_file(path: Path, entry: FileEntry, mode: str = "r") -> np.ndarray:
    """Map the numbers of a file into memory.

    With mode "c" they may be written to, which stays in memory.
    """
    check_size(path, entry)
    if 0 in entry.shape:
        return np.empty(entry.shape, entry.dtype)

    def mapped(mode: Any) -> np.memmap:
        # The header is not read here: verify_files checks it.
        return np.memmap(
            path, dtype=entry.dtype, mode=mode, offset=HEADER,
            shape=entry.shape,
        )  # fmt: skip

    return map_within_memory(mapped, mode)


def map_within_memory(
    mapped: Callable[[Any], np.memmap], mode: str
) -> np.memmap:
    """Map a file; one that is larger than memory only to be read.

    With mode "c" what is written stays in memory, and a system may refuse
    to promise so much.
    """
    try:
        return mapped(mode)
    except OSError as error:
        if mode != "c" or error.errno != errno.ENOMEM:
            raise
        return mapped("r")


def check_size(path: Path, entry: FileEntry) -> None:
    """Refuse a file that is not as long as it was when it was written."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DGLError(
            f"{path} cannot be opened: {error.strerror}. The folder is "
            f"damaged; write it again."
        ) from None
    if size != entry.size:
        raise DGLError(
            f"{path} has {size} bytes, but it was written with {entry.size}: "
            f"the folder is damaged; write it again."
        )


def is_unchanged(path: Path, entry: FileEntry) -> bool:
    """Whether nobody has written to a file since it was finished."""
    found = path.stat()
    now = (found.st_size, found.st_mtime_ns, found.st_ino)
    return now == (entry.size, entry.mtime_ns, entry.inode)


def check_chunks(path: Path, entry: FileEntry, chunks: Sequence[int]) -> None:
    """Read chunks of a file on all threads and compare their checksums."""
    checksums = entry.checksums
    if checksums is None or not len(chunks):
        return
    workers = min(num_threads(), len(chunks))
    buffers = [bytearray(_PART) for _ in range(workers)]
    row_bytes = entry.num_bytes // max(entry.shape[0], 1)
    files = [open_regular(path) for _ in range(workers)]

    def check(worker: int, item: int) -> None:
        number = chunks[item]
        first = number * entry.chunk_rows
        rows = min(entry.chunk_rows, entry.shape[0] - first)
        begin, crc = HEADER + first * row_bytes, 0
        for part in read_parts(
            files[worker], begin, rows * row_bytes, buffers[worker]
        ):
            crc = zlib.crc32(part, crc)
        if crc != checksums[number]:
            raise _damaged(path, "a checksum")

    try:
        run_parallel(check, len(chunks), workers)
    except (EOFError, OSError) as error:
        raise DGLError(f"{path} cannot be read: {error}.") from None
    finally:
        for file in files:
            file.close()


def verify_file(path: Path, entry: FileEntry) -> None:
    """Read a whole file; an error if it is not as it was written."""
    check_size(path, entry)
    with open_regular(path) as file:
        if file.read(HEADER) != npy_header(entry.dtype, entry.shape):
            raise _damaged(path, "its header")
    if entry.checksums is not None:
        check_chunks(path, entry, range(len(entry.checksums)))


def _damaged(path: Path, what: str) -> DGLError:
    return DGLError(
        f"{path} is damaged: {what} is not that of the manifest. Write the "
        f"folder again."
    )


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """A tensor of an array, which may be read-only."""
    with warnings.catch_warnings():
        # It is never written to here.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(np.asarray(array))
