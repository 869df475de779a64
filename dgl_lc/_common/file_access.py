"""Opening, creating and replacing files without surprises.

Only regular files are opened: reading from a pipe or a device could wait for
ever. New files never follow a link that lies in their place, and a file is
replaced in one step, so that a reader sees the old content or the new one.
"""

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dgl import DGLError

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def open_regular(path: str | os.PathLike, *, write: bool = False) -> BinaryIO:
    """Open a regular file, unbuffered; anything else is an error.

    Files that are opened to be written are ours, so they are no links.
    """
    # Opening a device can have effects, so the kind of file is looked at
    # before, and again after, when nobody can exchange it any more.
    _check_regular(path, os.stat(path))
    flags = _BINARY | _NONBLOCK
    flags |= os.O_RDWR | _NOFOLLOW if write else os.O_RDONLY
    number = os.open(path, flags)
    try:
        _check_regular(path, os.fstat(number))
        return os.fdopen(number, "r+b" if write else "rb", buffering=0)
    except BaseException:
        os.close(number)
        raise


def _check_regular(path: str | os.PathLike, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise DGLError(f"{path} is not a regular file.")


def create_file(path: str | os.PathLike) -> BinaryIO:
    """Create a file that does not exist yet, not even as a link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
    return os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all bytes: an unbuffered file may take only some at a time."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[file.write(rest) :]


def start_writing(file: BinaryIO, begin: int, end: int) -> None:
    """Have a part of a file begin its way to the disk, without waiting.

    What is being written cannot be dropped from the page cache, so Linux
    only begins to write it. Elsewhere nothing happens, or as much.
    """
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            how = os.POSIX_FADV_DONTNEED
            os.posix_fadvise(file.fileno(), begin, end - begin, how)


def replace_file(
    path: Path, write: Callable[[BinaryIO], None], temporary: Path | None = None
) -> None:
    """Write a file in one step: it is there whole, or as it was before.

    Parameters
    ----------
    path : Path
        The file.
    write : callable
        Writes the content to an open file.
    temporary : Path, optional
        Where it is written first, in the same folder; what lies there is
        replaced. Default: a new name.
    """
    if temporary is None:
        name = f".{path.name}.{secrets.token_hex(8)}.part"
        temporary = path.with_name(name)
    else:
        temporary.unlink(missing_ok=True)
    file = create_file(temporary)
    try:
        with file:
            write(file)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_buffered(
    path: Path, write: Callable[[BinaryIO], None], temporary: Path | None = None
) -> None:
    """As :func:`replace_file`, for libraries that expect a buffered file.

    They do not look how much of what they write an unbuffered file takes.
    """

    def write_buffered(file: BinaryIO) -> None:
        buffered = io.BufferedWriter(file)  # type: ignore[type-var]
        write(buffered)
        buffered.detach()

    replace_file(path, write_buffered, temporary)


def sync_folder(path: Path) -> None:
    """Have the names in a folder reach the disk as well."""
    with contextlib.suppress(PermissionError):  # Windows
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read_parts(
    file: BinaryIO, begin: int, size: int, buffer: bytearray
) -> Iterator[memoryview]:
    """Bytes of a file from a place on, as much at a time as the buffer holds.

    Read, not mapped: a file that another process makes shorter is an error
    here, where a map would end the process.
    """
    view = memoryview(buffer)
    file.seek(begin)
    while size > 0:
        room = view[: min(len(view), size)]
        count = file.readinto(room)  # type: ignore[attr-defined]
        if not count:
            raise EOFError("the file is shorter than it should be")
        yield room[:count]
        size -= count
