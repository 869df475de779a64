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

from .._common.dtypes import VALUE_TYPES, ValueType, find_type
from .._common.file_access import open_regular
from .._common.rows import copy_rows
from ..node_rows import check_ids
from .manifest import (
    FolderKind,
    check_unchanged,
    expect_files,
    read_manifest,
    verify_files,
)
from .npy_file import check_chunks, map_file, tensor_of

KIND = FolderKind("features", "write_features")
#: The types in which features are stored.
STORED = ("float32", "float16", "bfloat16")

#: Bytes that are asked for at once.
_PIECE = 1 << 17
#: Ids that are looked at, at a time.
_ROWS = 1 << 16


def check_stored(dtype: torch.dtype) -> ValueType:
    """The type in which features are to be stored, or an error."""
    found = find_type(dtype) if isinstance(dtype, torch.dtype) else None
    if found is None or found.name not in STORED:
        raise DGLError(
            f"dtype should be one of {', '.join(STORED)}, got {dtype}."
        )
    return found


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

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import DiskFeatures, write_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.eye(3, dtype=np.float32))
    ...     written = write_features(f"{folder}/x.npy", f"{folder}/feat")
    ...     DiskFeatures(f"{folder}/feat").rows([2, 0])
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.manifest = read_manifest(self.path, KIND)
        content = self.manifest.content
        shape = content.get("shape")
        shape = shape if isinstance(shape, list) else []
        sizes = (*shape, content.get("width"))
        name = content.get("dtype")
        good = len(sizes) == 3 and all(type(s) is int and s > 0 for s in sizes)
        # No more files are expected than there are.
        files = len(self.manifest.files)
        good = good and -(-sizes[1] // sizes[2]) == files
        if not good or name not in STORED:
            raise DGLError(
                f"{self.path} says that it has features of {name!r}, shape "
                f"and width {sizes}: write it again with write_features."
            )
        n, d, self.width = sizes
        self.shape: tuple[int, int] = (n, d)
        self.dtype: torch.dtype = VALUE_TYPES[name].torch
        stored = VALUE_TYPES[name].stored.str
        shapes = {
            file_of(place): (stored, (n, min(self.width, d - first)))
            for place, first in enumerate(range(0, d, self.width))
        }
        expect_files(self.path, self.manifest, shapes)
        #: The chunks of each file that were compared with their checksums.
        self._checked: dict[int, np.ndarray] = {}

    @property
    def key(self) -> str:
        return self.manifest.key

    def check_key(self) -> str:
        """Return the key, and check that the files are still the same.

        Files that were copied or written to since are read whole.
        """
        check_unchanged(self.path, self.manifest)
        return self.key

    def __len__(self) -> int:
        return self.shape[0]

    def block(self, first: int, last: int) -> torch.Tensor:
        """Return columns first to last of all rows.

        From one file they are mapped, from several they are copied. They are
        compared with their checksums first.
        """
        if not 0 <= first < last <= self.shape[1]:
            raise DGLError(
                f"columns {first} to {last} do not exist: the features have "
                f"columns 0 to {self.shape[1]}."
            )
        self.check_rows(first, last)
        if (last - 1) // self.width == first // self.width:
            place = first // self.width
            begin = place * self.width
            return self._map(place)[:, first - begin : last - begin]
        result = torch.empty(self.shape[0], last - first, dtype=self.dtype)
        for begin, end, part in self.parts(first, last):
            result[:, begin - first : end - first] = part
        return result

    def rows(self, ids: Any) -> torch.Tensor:
        """Read all columns of these nodes: ids, or a mask."""
        ids = check_ids(ids, "ids", len(self))
        if len(ids) and int(ids.max()) >= len(self):
            raise DGLError(
                f"ids holds {int(ids.max())}, but there are nodes 0 to "
                f"{len(self) - 1}."
            )
        result = torch.empty(len(ids), self.shape[1], dtype=self.dtype)
        self.check_rows(0, self.shape[1], ids.numpy())
        for begin, end, part in self.parts(0, self.shape[1]):
            result[:, begin:end] = part[ids]
        return result

    def parts(
        self, first: int, last: int
    ) -> Iterator[tuple[int, int, torch.Tensor]]:
        """List the files with these columns: first and last column, values.

        They are not compared with their checksums: see :meth:`check_rows`.
        """
        for place in range(first // self.width, (last - 1) // self.width + 1):
            base = place * self.width
            begin, end = max(first, base), min(last, base + self.width)
            yield begin, end, self._map(place)[:, begin - base : end - base]

    def copy_columns(
        self,
        first: int,
        last: int,
        rows: torch.Tensor | None,
        target: torch.Tensor,
    ) -> None:
        """Copy columns of some rows, or of all, to a target, and check them.

        A few rows are checked and then copied, while they are in memory.
        """
        for begin, end, part in self.parts(first, last):
            columns = target[:, begin - first : end - first]
            for low in range(0, len(target), _ROWS):
                own: Any = slice(low, min(low + _ROWS, len(target)))
                if rows is None:
                    self.check_rows(begin, end, own)
                    copy_rows(part[own], None, columns[own])
                else:
                    self.check_rows(begin, end, rows[own].numpy())
                    copy_rows(part, rows[own], columns[own])

    def check_rows(
        self, first: int, last: int, rows: np.ndarray | slice = slice(None)
    ) -> None:
        """Compare columns of some rows with their checksums.

        Each chunk of a file is read once for this, however often it is asked
        for.
        """
        for place in range(first // self.width, (last - 1) // self.width + 1):
            entry = self.manifest.files[file_of(place)]
            chunks = len(entry.checksums or ())
            if place not in self._checked:
                self._checked[place] = np.zeros(chunks, bool)
            done = self._checked[place]
            wanted = np.zeros(chunks, bool)
            if isinstance(rows, slice):
                begin, end, _ = rows.indices(self.shape[0])
                low = begin // entry.chunk_rows
                wanted[low : -(-end // entry.chunk_rows)] = True
            else:
                for begin in range(0, len(rows), _ROWS):
                    part = rows[begin : begin + _ROWS]
                    wanted[part // entry.chunk_rows] = True
            new = np.flatnonzero(wanted & ~done)
            check_chunks(self.path / file_of(place), entry, new.tolist())
            done[new] = True

    def ask_ahead(self, first: int, last: int) -> None:
        """Have the system read these columns into its cache.

        It comes back when the last piece has been asked for, which takes
        most of the time of reading: call it from a thread of its own.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        for place in range(first // self.width, (last - 1) // self.width + 1):
            with open_regular(self.path / file_of(place)) as file:
                number = file.fileno()
                # Of a longer piece a system reads only the beginning.
                for at in range(0, os.fstat(number).st_size, _PIECE):
                    os.posix_fadvise(number, at, _PIECE, os.POSIX_FADV_WILLNEED)

    def _map(self, place: int) -> torch.Tensor:
        # Not read-only, as torch cannot know that; the file stays as it is.
        name = file_of(place)
        array = map_file(self.path / name, self.manifest.files[name], "c")
        return tensor_of(array).view(self.dtype)

    def verify(self) -> None:
        """Read all files, and raise an error that names a damaged one."""
        verify_files(self.path, self.manifest)

    def __repr__(self) -> str:
        return (
            f"DiskFeatures({str(self.path)!r}, {self.shape[0]:,} nodes, "
            f"{self.shape[1]} columns, {self.dtype})"
        )
