"""Opening NumPy's files: their header, and one error for damaged ones.

These files come from elsewhere and may hold anything. Whatever NumPy, zipfile
or pandas raise while they read one becomes a DGLError that names the file.
"""

import io
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from dgl import DGLError

from .._common.file_access import open_regular

#: What libraries raise when they read bytes that are damaged.
UNREADABLE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
#: Booleans, numbers and text; no structures, dates or Python objects.
_KINDS = "biufcSU"
#: A longer header is refused by NumPy as well.
HEADER_BYTES = 1 << 14
#: What every version of NumPy can have.
_MOST_DIMENSIONS = 32
#: More bytes than any file has.
_MOST_BYTES = 2**62


class NpyHeader(NamedTuple):
    """The header of an npy file.

    Attributes
    ----------
    shape, dtype
        The shape and the type of the array.
    fortran : bool
        Whether columns lie behind each other in the file, not rows.
    size : int
        Bytes before the numbers.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    size: int

    @property
    def num_values(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def num_bytes(self) -> int:
        """Bytes of the numbers."""
        return self.num_values * self.dtype.itemsize

    @classmethod
    def parse(cls, head: bytes) -> "NpyHeader":
        """Read a header from the first bytes of a file.

        Raises one of :data:`UNREADABLE` if it is none, or describes an array
        that no file can hold.
        """
        file = io.BytesIO(head)
        version = np.lib.format.read_magic(file)
        with warnings.catch_warnings():
            # NumPy warns of headers that Python 2 wrote, and reads them.
            warnings.simplefilter("ignore")
            if version == (1, 0):
                found = np.lib.format.read_array_header_1_0(file)
            elif version == (2, 0):
                found = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(f"version {version} of the npy format")
        shape, fortran, dtype = found
        if dtype.hasobject:
            raise ValueError("pickled Python objects")
        if dtype.kind not in _KINDS:
            raise ValueError(f"it holds {dtype}, which are no plain numbers")
        lengths = all(type(length) is int and length >= 0 for length in shape)
        if not lengths or len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"its shape is {shape}")
        header = cls(shape, fortran, dtype, file.tell())
        if max(header.num_values, header.num_bytes) > _MOST_BYTES:
            raise ValueError(f"its shape, {shape}, is too large")
        return header


def unreadable(what: str, error: Exception) -> DGLError:
    """The error that says that a file, or an array in it, can't be read."""
    if "pickle" in str(error):
        return DGLError(
            f"{what} is not a plain array but pickled Python objects, which "
            f"are never loaded, because they can run any code: save it with a "
            f"number type."
        )
    text = str(error) or type(error).__name__
    return DGLError(f"{what} cannot be read: {text.rstrip('.')}.")


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Open a regular file to read it; an error names one that can't be."""
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise DGLError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise unreadable(str(path), error) from None


def read_into(file: BinaryIO, view: memoryview) -> None:
    """Fill a buffer from where a file is; EOFError if it ends before."""
    while len(view):
        count = file.readinto(view)  # type: ignore[attr-defined]
        if not count:
            raise EOFError("the file is too short")
        view = view[count:]


def as_bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, to be read into."""
    return array.reshape(-1).view(np.uint8).data


def file_size(path: Path) -> int:
    """How long a regular file is."""
    with open_file(path) as file:
        return os.fstat(file.fileno()).st_size
