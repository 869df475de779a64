"""Reading NumPy's files whole, and checking what they hold."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from dgl import DGLError

from .array_stream import NpyFile
from .npy_file import map_within_memory
from .npy_header import UNREADABLE, unreadable
from .npz_stream import Member, member_names


def read_npz(path: Path, keys: Iterable[str]) -> dict[str, np.ndarray]:
    """Read those of the keys that are in an npz file."""
    names = set(member_names(path))
    return {key: Member(path, key).whole() for key in keys if key in names}


def read_npy(path: Path, *, mapped: bool = False) -> np.ndarray:
    """Read the array of an npy file, or map it into memory.

    What is written to a mapped array stays in memory: the file is safe, and
    a tensor made from it may be written to.
    """
    file = NpyFile(path)
    if not mapped or file.num_bytes == 0:
        return file.whole()
    order: Any = "F" if file.fortran else "C"
    try:
        return map_within_memory(
            lambda mode: np.memmap(
                path, file.dtype, mode, file.header, file.shape, order
            ),
            "c",
        )
    except UNREADABLE as error:
        raise unreadable(file.what, error) from None


def integers(array: np.ndarray, what: str, ndim: int = 1) -> np.ndarray:
    """Convert to int64 what holds integers and has so many dimensions."""
    if array.dtype.kind not in "iu":
        raise DGLError(
            f"{what} should hold integers, got {array.dtype}: convert it "
            f"before it is saved."
        )
    if array.ndim != ndim:
        raise DGLError(
            f"{what} should have {ndim} dimension{'s' * (ndim > 1)}, got "
            f"shape {array.shape}."
        )
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise DGLError(f"{what} holds {array.max()}, which is too large.")
    return array.astype(np.int64)


def check_range(ids: np.ndarray, count: int, what: str, of: str) -> None:
    """Refuse ids that are not from 0 to count - 1."""
    if len(ids) == 0:
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        raise DGLError(
            f"{what} holds {low if low < 0 else high}, but there are {of} 0 "
            f"to {count - 1}."
        )


def csr_rows(
    indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int], what: str
) -> np.ndarray:
    """Give the row of each entry of a CSR matrix, and check its arrays."""
    rows, columns = shape
    if len(indptr) != rows + 1:
        raise DGLError(
            f"{what}: indptr has {len(indptr)} entries, but {rows} rows need "
            f"{rows + 1}."
        )
    falls = (indptr[1:] < indptr[:-1]).any()
    if indptr[0] != 0 or indptr[-1] != len(indices) or falls:
        raise DGLError(
            f"{what}: indptr should rise from 0 to the number of indices, "
            f"{len(indices)}."
        )
    check_range(indices, columns, f"{what}: indices", "columns")
    return np.repeat(np.arange(rows), np.diff(indptr))
