"""Bytes: reading, printing and allocating them."""

import contextlib
import mmap
import re

import numpy as np
import psutil
from dgl import DGLError

_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50,
}  # fmt: skip

#: No machine has so many.
_TOO_MANY = 2**60
#: Bytes in a cache line.
CACHE_LINE = 64
#: Arrays of at least this many bytes get pages of their own.
_OWN_PAGES = 1 << 18


def parse_bytes(size: int | str, argument: str = "memory") -> int:
    """Read a number of bytes, such as ``24 * 2**30`` or ``"24GiB"``.

    >>> parse_bytes("1.5GiB")
    1610612736
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", size)
        try:
            if match is None:
                raise ValueError
            number = float(match[1]) * _UNITS[match[2].upper()]
        except (KeyError, ValueError):
            raise DGLError(
                f"{argument}={_shorten(size)} is not a number of bytes: write "
                f"for "
                f"example '24GiB', '800MB' or an integer."
            ) from None
    elif isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise DGLError(
            f"{argument} should be an integer or a string such as '24GiB', "
            f"got {size!r}."
        )
    else:
        number = size
    if not 1 <= number < _TOO_MANY:
        raise DGLError(
            f"{argument}={_shorten(size)} should be at least one byte and "
            f"less than {format_bytes(_TOO_MANY)}."
        )
    return int(number)


def _shorten(size: int | str) -> str:
    try:
        text = repr(size)
    except ValueError:  # Python does not print integers of 5000 digits
        return "a very large number"
    return text if len(text) <= 40 else f"{text[:40]}…"


def format_bytes(size: float) -> str:
    """Print a number of bytes for a person.

    >>> format_bytes(1610612736)
    '1.5 GiB'
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while round(abs(size)) >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    # Three digits, but never as a power of ten.
    whole = units[0] == "B" or abs(size) >= 100
    return f"{size:.0f} {units[0]}" if whole else f"{size:.3g} {units[0]}"


def require_memory(size: int, subject: str, remedy: str) -> None:
    """Raise an error if this machine has less memory available.

    An allocation that is too large need not fail: the system may give the
    memory and end the process when it is used.

    Parameters
    ----------
    size : int
        Bytes, at least, that will be allocated.
    subject : str
        What needs them, with the argument that it depends on.
    remedy : str
        What to do about it.
    """
    available = psutil.virtual_memory().available
    if size > available:
        raise DGLError(
            f"{subject} needs at least {format_bytes(size)} of memory, and "
            f"{format_bytes(available)} are available: {remedy}."
        )


def row_stride(width: int, itemsize: int) -> int:
    """Values from a row to the next, so that few rows lie on two lines.

    Whole cache lines, or a half or a quarter of one.

    >>> row_stride(128, 4), row_stride(17, 4), row_stride(8, 4)
    (128, 32, 8)
    """
    line = CACHE_LINE // itemsize
    for part in (line // 4, line // 2):
        if width <= part:
            return part
    return -(-width // line) * line


def zeros(count: int, dtype: np.dtype | type) -> np.ndarray:
    """Allocate an array of zeros whose memory is given back when it is freed.

    The C library keeps freed memory of up to 32 MiB for later, so that a
    process can hold far more than is in use. A large array therefore has
    pages of its own: huge ones where the system has them, which are three
    times faster to fill.

    >>> zeros(3, np.int32)
    array([0, 0, 0], dtype=int32)
    """
    dtype = np.dtype(dtype)
    size = count * dtype.itemsize
    if size < _OWN_PAGES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(count, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        pages = mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        raise MemoryError(
            f"{format_bytes(size)} could not be allocated: {error}"
        ) from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A system without huge pages has ordinary ones.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype, count)


def empty_rows(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """Allocate a row-major array that begins on a cache line.

    NumPy's own arrays begin 16 bytes into a page, so that a row of 512 bytes
    would lie on nine cache lines instead of eight.
    """
    dtype = np.dtype(dtype)
    size = rows * columns * dtype.itemsize
    raw = zeros(size + CACHE_LINE, np.uint8)
    offset = -raw.ctypes.data % CACHE_LINE
    return raw[offset : offset + size].view(dtype).reshape(rows, columns)
