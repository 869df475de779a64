"""Reading NumPy's files: no pickle, and errors that name file and key."""

import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from dgl import DGLError

_BROKEN = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error)


def read_npz(path: Path, keys: Iterable[str]) -> dict[str, np.ndarray]:
    """Those of the keys that are in an npz file."""
    if not path.is_file():
        raise DGLError(f"{path} is not there: give the path of an npz file.")
    # Opened here: NumPy leaves a broken archive open.
    with open(path, "rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except _BROKEN as error:
            raise DGLError(
                f"{path} cannot be read as an npz file: {error}. Write it "
                f"with np.savez, from plain arrays."
            ) from None
        if isinstance(archive, np.ndarray):
            raise DGLError(
                f"{path} is a single array: put all arrays into one npz file, "
                f"or give the folder of the npy files."
            )
        return {
            key: _member(archive, path, key)
            for key in keys
            if key in archive.files
        }


def _member(archive, path: Path, key: str) -> np.ndarray:
    try:
        return archive[key]
    except _BROKEN as error:
        raise _unreadable(f"{path}: {key}", error) from None


def read_npy(path: Path, *, mapped: bool = False) -> np.ndarray:
    """The array of an npy file, read or mapped into memory.

    What is written to a mapped array stays in memory: the file is safe, and
    a tensor made from it may be written to.
    """
    if not path.is_file():
        raise DGLError(f"{path} is not there.")
    try:
        if mapped:
            return np.lib.format.open_memmap(path, mode="c")
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except _BROKEN as error:
        raise _unreadable(str(path), error) from None


def _unreadable(what: str, error: Exception) -> DGLError:
    # A memory map says "Array can't be memory-mapped: Python objects".
    if "pickle" in str(error) or "Python objects" in str(error):
        return DGLError(
            f"{what} is not a plain array but pickled Python objects, which "
            f"are never loaded, for they can run any code: save it with a "
            f"number type."
        )
    return DGLError(f"{what} cannot be read: {error}")


def integers(array: np.ndarray, what: str, ndim: int = 1) -> np.ndarray:
    """The array as int64, if it holds integers and has so many dimensions."""
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
    return array.astype(np.int64)


def check_range(ids: np.ndarray, count: int, what: str, of: str) -> None:
    """Whether ids go from 0 to count - 1."""
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
    """The row of each entry of a CSR matrix, after a check of its arrays."""
    rows, columns = shape
    if len(indptr) != rows + 1:
        raise DGLError(
            f"{what}: indptr has {len(indptr)} entries, wanted are "
            f"{rows + 1}, one more than rows."
        )
    sizes = np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != len(indices) or (sizes < 0).any():
        raise DGLError(
            f"{what}: indptr should rise from 0 to the number of indices, "
            f"{len(indices)}."
        )
    check_range(indices, columns, f"{what}: indices", "columns")
    return np.repeat(np.arange(rows), sizes)
