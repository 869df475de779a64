"""Features on disk: column blocks, mapped into memory.

A column block is read for all nodes at once, so that the columns of a block
lie together: a file for every few columns.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .folder import map_array, read_manifest, tensor_of, verify_files

KIND = "features"
#: What a number type is in the files: NumPy has no bfloat16.
STORED: dict[torch.dtype, np.dtype] = {
    torch.float32: np.dtype("<f4"),
    torch.float16: np.dtype("<f2"),
    torch.bfloat16: np.dtype("<i2"),
}
_NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in STORED}

#: Bytes that are asked for at once.
_PIECE = 1 << 17


def file_of(place: int) -> str:
    """The name of the file of the place-th columns."""
    return f"columns_{place:04d}.npy"


class DiskFeatures:
    """Features in a folder of column blocks, opened without reading them.

    Parameters
    ----------
    path : path
        The folder, written by :func:`write_features`.

    Attributes
    ----------
    shape : tuple of int
        Nodes and columns.
    dtype : torch.dtype
        float32, float16 or bfloat16.
    width : int
        Columns in a file; a block inside one file is not copied.
    key : str
        Stands for the content. It is read from the manifest.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.manifest: dict[str, Any] = read_manifest(
            self.path, KIND, "write_features"
        )
        n, d = self.manifest["shape"]
        self.shape: tuple[int, int] = (n, d)
        self.dtype: torch.dtype = _NAMES[self.manifest["dtype"]]
        self.width: int = self.manifest["width"]

    @property
    def key(self) -> str:
        return self.manifest["key"]

    def __len__(self) -> int:
        return self.shape[0]

    def block(self, first: int, last: int) -> torch.Tensor:
        """Columns first to last of all rows.

        From one file they are mapped, from several they are copied.
        """
        if not 0 <= first < last <= self.shape[1]:
            raise DGLError(
                f"columns {first} to {last} are not there: the features have "
                f"columns 0 to {self.shape[1]}."
            )
        if (last - 1) // self.width == first // self.width:
            place = first // self.width
            begin = place * self.width
            return self._map(place)[:, first - begin : last - begin]
        result = torch.empty(self.shape[0], last - first, dtype=self.dtype)
        for begin, end, part in self.parts(first, last):
            result[:, begin - first : end - first] = part
        return result

    def rows(self, ids: Any) -> torch.Tensor:
        """All columns of these nodes."""
        ids = torch.as_tensor(ids)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(self):
            raise DGLError(
                f"ids should be from 0 to {len(self) - 1}, got "
                f"{int(ids.min())} to {int(ids.max())}."
            )
        result = torch.empty(len(ids), self.shape[1], dtype=self.dtype)
        for begin, end, part in self.parts(0, self.shape[1]):
            result[:, begin:end] = part[ids]
        return result

    def parts(
        self, first: int, last: int
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """The files with these columns: first and last column, and values."""
        for place in range(first // self.width, (last - 1) // self.width + 1):
            base = place * self.width
            begin, end = max(first, base), min(last, base + self.width)
            yield begin, end, self._map(place)[:, begin - base : end - base]

    def ask_ahead(self, first: int, last: int) -> None:
        """Have the system read these columns into its cache.

        It comes back when the last piece has been asked for, which takes
        most of the time of reading: call it from a thread of its own.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        for place in range(first // self.width, (last - 1) // self.width + 1):
            with open(self.path / file_of(place), "rb") as file:
                number = file.fileno()
                # Of a longer piece a system reads only the beginning.
                for at in range(0, os.fstat(number).st_size, _PIECE):
                    os.posix_fadvise(number, at, _PIECE, os.POSIX_FADV_WILLNEED)

    def _map(self, place: int) -> torch.Tensor:
        # Not read-only, as torch cannot know that; the file stays as it is.
        array = map_array(self.path, self.manifest, file_of(place), "c")
        return tensor_of(array).view(self.dtype)

    def verify(self) -> None:
        """Read all files; an error names one that is not as written."""
        verify_files(self.path, self.manifest)

    def __repr__(self) -> str:
        return (
            f"DiskFeatures({str(self.path)!r}, {self.shape[0]:,} nodes, "
            f"{self.shape[1]} columns, {self.dtype})"
        )
