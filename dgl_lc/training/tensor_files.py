"""Files of tensors and plain values: written in one step, read with care.

A file is what ``torch.save`` writes, so that ``torch.load`` reads it with
``weights_only=True``, and after it one line with the number of the format and
a digest of all bytes before. Neither torch's zip reader nor its unpickler
gets to see bytes that do not have this digest, except from files of format 1,
which have none.
"""

import contextlib
import errno
import io
import os
import re
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from dgl import DGLError

from .._common.digest import digest
from .._common.file_access import open_regular, replace_file, write_all
from ..storage.manifest import check_outside

try:
    import fcntl
except ImportError:  # only on Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 2
_LAST_LINE = re.compile(rb"dgl-lc format (\d+) checksum ([0-9a-f]{32})\n\Z")
_LAST_LINE_BYTES = 100
#: File systems without locks answer with one of these.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def write_file(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Write a file in one step: after any error the earlier file is intact.

    The file that exists is replaced if dgl-lc or torch wrote it. Every
    failure is a DGLError.
    """
    check_replaceable(path, kind)
    try:
        buffer = io.BytesIO()
        head = {"kind": kind, "format": FORMAT}
        torch.save({**head, **plain_copy(content, kind)}, buffer)
        data = buffer.getbuffer()
        checksum = digest(np.frombuffer(data, np.uint8))
        line = f"dgl-lc format {FORMAT} checksum {checksum}\n"
        path.parent.mkdir(parents=True, exist_ok=True)

        def write(file: BinaryIO) -> None:
            write_all(file, data)
            write_all(file, line.encode())

        replace_file(path, write)
    except (OSError, MemoryError, RuntimeError) as error:
        raise DGLError(f"{path} could not be written: {error}.") from error


def read_file(path: Path, kind: str, advice: str) -> dict[str, Any]:
    """Read what :func:`write_file` wrote; nothing in the file is executed.

    Files of format 1, which have no checksum, are read as well: the caller
    looks at ``content["format"]``. Every failure is a DGLError that ends with
    the advice.
    """

    def refuse(reason: str) -> DGLError:
        return DGLError(f"{path} can't be read as a {kind}: {reason}. {advice}")

    try:
        data = _read(path)
    except FileNotFoundError:
        raise DGLError(f"{path} does not exist.") from None
    except (OSError, MemoryError) as error:
        raise refuse(str(error) or "it does not fit in memory") from None
    if not _is_torch_file(data):
        raise refuse("neither dgl-lc nor torch wrote it, or it is damaged")
    end = _LAST_LINE.search(data, max(0, len(data) - _LAST_LINE_BYTES))
    number = int(end[1]) if end else 1
    if number > FORMAT:
        raise refuse(
            f"it has format {number}, and this version of dgl-lc reads "
            f"formats up to {FORMAT}"
        )
    if end:
        data = data[: end.start()]
        if digest(np.frombuffer(data, np.uint8)) != end[2].decode():
            raise refuse("it is damaged (its checksum is another)")
    try:
        content = torch.load(
            io.BytesIO(data), map_location="cpu", weights_only=True
        )
    except Exception as error:
        # Whatever torch's reader stumbles over, the file is not one of ours.
        # Its message is left out: it advises to execute what is in the file.
        raise refuse(
            f"it is damaged, or holds more than tensors and plain values "
            f"({type(error).__name__})"
        ) from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise refuse(f"it is not a {kind} of dgl-lc")
    found = content.get("format")
    if type(found) is not int or found != number:
        raise refuse("it is damaged (its checksum is missing)")
    return content


def _is_torch_file(data: bytes) -> bool:
    """Tell whether bytes begin like a file of torch.save, which is a zip."""
    return data[:4] == b"PK\x03\x04" and b"/data.pkl" in data[:256]


def check_replaceable(path: Path, kind: str) -> None:
    """Refuse a path whose file is not one that dgl-lc wrote, of this kind.

    A damaged file of ours may be replaced, and so may an empty one.
    """
    if not path.name:
        raise DGLError(f"{path} is not the name of a file.")
    check_outside(path)
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise DGLError(
                f"{path} is a link: name the file that it points to."
            )
        data = _read(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DGLError(f"{path} could not be written: {error}.") from None
    if data and not _is_ours(data, kind):
        raise DGLError(
            f"{path} exists, and is not a {kind} that dgl-lc wrote: name "
            f"another file, or remove this one."
        )


def _is_ours(data: bytes, kind: str) -> bool:
    """Tell whether we wrote a file, of this kind if that can be read."""
    marked = _LAST_LINE.search(data, max(0, len(data) - _LAST_LINE_BYTES))
    if not _is_torch_file(data):
        return marked is not None
    try:
        content = torch.load(
            io.BytesIO(data), map_location="cpu", weights_only=True
        )
    except Exception:
        # Damaged, or somebody else's: only the last line tells.
        return marked is not None
    return isinstance(content, dict) and content.get("kind") == kind


def _read(path: Path, most: int | None = None) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        return file.read(size if most is None else min(size, most))


def in_one_line(error: Exception) -> str:
    """Format an error of torch, which may have many lines, for a message."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")


def plain_copy(value: Any, place: str) -> Any:
    """Copy nested containers and tensors; refuse what a file can't hold.

    ``place`` is the name of the value in error messages.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {
            plain_copy(key, place): plain_copy(item, f"{place}[{key!r}]")
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [plain_copy(v, f"{place}[{i}]") for i, v in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    raise DGLError(
        f"{place} is a {type(value).__name__}, which a file can't hold: only "
        f"tensors, numbers, strings and containers of these are read again."
    )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other runs from using the same file; a killed run leaves no lock.

    The lock is on an empty file beside it, because the file itself is
    replaced by every write.
    """
    if fcntl is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = _take_lock(lock, path)
    except OSError as error:
        raise DGLError(f"{path} can't be written: {error}.") from None
    try:
        yield
    finally:
        # Nobody else can hold the lock now, so that removing it is safe.
        with contextlib.suppress(OSError):
            if os.fstat(taken).st_size == 0:
                lock.unlink()
        # A forked process may have the file open as well: closing it here
        # would not give back the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(taken, fcntl.LOCK_UN)
        os.close(taken)


def _take_lock(lock: Path, path: Path) -> int:
    """Open and lock a file; return its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        found = os.open(lock, flags | os.O_CLOEXEC, 0o666)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            # Such as a pipe of the user's, which would be deleted later.
            os.close(found)
            raise DGLError(
                f"{lock} is not a regular file: remove it, or name another "
                f"file than {path}."
            )
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(found)
            raise DGLError(
                f"{path} is used by another run: wait for it, or name another "
                f"file."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(found)
                raise
            warnings.warn(
                f"{path} can't be locked ({error}): do not start another run "
                f"with the same file.",
                stacklevel=5,
            )
            return found
        # Whoever had the lock may have removed the file in between.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(found), os.stat(lock)):
                return found
        os.close(found)
