"""Features on disk, in column blocks.

A column block is read for all nodes at once, so that the columns of a block
lie together: a file for every few columns, written in one pass over rows.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import CACHE_LINE, format_bytes, parse_bytes
from .._common.dtypes import ValueType
from .._common.jit import jit
from .._common.threads import num_threads, run_parallel
from .array_stream import ArrayStream, NpyFile
from .disk_features import KIND, DiskFeatures, check_stored, file_of
from .folder import Build, build, check_apart
from .free_disk import check_free
from .npy_file import GrowingArray
from .npz_stream import Member
from .read_ahead import read_ahead, reader_thread
from .sort_memory import Budget
from .work_space import WorkSpace

#: Bytes of rows that are read at a time, if memory allows.
_SLICE = 1 << 25
#: The bits that are all set in infinity and nan, by the name of the type.
_EXPONENTS = {"float32": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}


def write_features(
    source: str | os.PathLike | ArrayStream,
    path: str | os.PathLike,
    *,
    width: int = 16,
    dtype: torch.dtype = torch.float32,
    memory: int | str = "1GiB",
    check_finite: bool = True,
    progress: bool | None = None,
    resume: bool = True,
    commit_bytes: int = 1 << 30,
    on_commit: Callable[[int], None] | None = None,
) -> DiskFeatures:
    """Write features into a folder of column blocks, in bounded memory.

    Parameters
    ----------
    source : path or ArrayStream
        A npy file (n, d) of float16, float32 or float64, an npz file that
        has it as ``node_feat``, or another array of an npz file, as a
        ``dgl_lc.storage.npz_stream.Member``.
    path : path
        The folder to write.
    width : int, optional
        Columns in a file. 16 of float32 are a cache line.
    dtype : torch.dtype, optional
        float32, float16 or bfloat16.
    memory : int or str, optional
        What may be allocated.
    check_finite : bool, optional
        Whether nan and inf are an error.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, if it takes a
        while.
    resume : bool, optional
        Whether to resume where a killed run stopped. A folder made from
        something else is then an error; with False it is written again.
    commit_bytes : int, optional
        Bytes of the source after which what is written is kept, even if the
        run is killed later.
    on_commit : function, optional
        Called with the number of rows that are safe.

    Returns
    -------
    DiskFeatures
        The features, open. If the folder was whole already, nothing is
        done.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import write_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.eye(5))
    ...     feat = write_features(f"{folder}/x.npy", f"{folder}/x", width=2)
    ...     feat.block(1, 3)[:3]
    tensor([[0., 0.],
            [1., 0.],
            [0., 1.]])
    """
    if isinstance(source, (str, os.PathLike)):
        check_apart(Path(source), Path(path))
    rows = feature_source(source)
    budget = Budget(parse_bytes(memory))
    stored = check_stored(dtype)
    if width < 1:
        raise DGLError(f"width should be at least 1, got {width}.")
    options: dict[str, Any] = {"width": int(width), "dtype": stored.name}
    folder = Path(path)
    names = column_files(rows.shape[1], width)
    made_from = rows.made_from()
    with build(folder, KIND, names, made_from, options, resume=resume) as work:
        if work is not None:
            columns = _Columns(rows, work, int(width), stored, check_finite)
            columns.write(budget, commit_bytes, on_commit, progress)
            if rows.made_from() != made_from:
                raise DGLError(
                    f"{rows.what} changed while it was read: leave it as it "
                    f"is, and begin again with resume=False."
                )
            work.finish(shape=list(rows.shape), **options)
    return DiskFeatures(folder)


def feature_source(source: str | os.PathLike | ArrayStream) -> ArrayStream:
    """Open what holds the rows, and check its shape and type."""
    if isinstance(source, ArrayStream):
        found = source
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        packed = path.suffix == ".npz"
        found = Member(path, "node_feat") if packed else NpyFile(path)
    else:
        raise DGLError(
            f"source should be the path of a npy or npz file, got "
            f"{type(source).__name__}."
        )
    if found.dtype.kind != "f" or found.dtype.itemsize > 8:
        raise DGLError(
            f"{found.what} should hold float16, float32 or float64, got "
            f"{found.dtype}: convert it before it is saved."
        )
    if len(found.shape) != 2 or 0 in found.shape:
        raise DGLError(
            f"{found.what} should have shape (nodes, columns), got "
            f"{found.shape}."
        )
    return found


class _Buffers(NamedTuple):
    """Memory for rows: two slices, and columns for each thread."""

    rows: list[np.ndarray]
    columns: list[np.ndarray]


class _Columns:
    """Writes rows into files of a few columns each."""

    def __init__(
        self,
        source: ArrayStream,
        work: Build,
        width: int,
        stored: ValueType,
        check_finite: bool,
    ):
        self._source = source
        self._work = work
        self._stored = stored
        self._check_finite = check_finite
        d = source.shape[1]
        self._width = min(width, d)
        self._firsts = range(0, d, width)
        self._files: list[GrowingArray] = [
            work.array(file_of(place), stored.stored, min(width, d - first))
            for place, first in enumerate(self._firsts)
        ]
        self._threads = min(num_threads(), len(self._files))

    def write(
        self,
        budget: Budget,
        commit_bytes: int,
        on_commit: Callable[[int], None] | None,
        progress: bool | None,
    ) -> None:
        """Write the rows that an earlier run has not written."""
        n, d = self._source.shape
        row = d * self._source.dtype.itemsize
        done = self._files[0].count
        needed = (n - done) * d * self._stored.itemsize
        check_free(self._work.path, needed, "the table of features")
        buffers = self._allocate(budget, n - done)
        fresh = 0
        with (
            reader_thread() as reader,
            closing(
                read_ahead(
                    self._source.rows(buffers.rows, done),
                    reader,
                    lambda rows: rows.nbytes,
                    total=n * row,
                    done=done * row,
                    name="features",
                    progress=progress,
                )
            ) as slices,
        ):
            for values in slices:
                self._convert(_native(values), done, buffers.columns)
                done += len(values)
                fresh += values.nbytes
                if fresh >= commit_bytes or done == n:
                    self._work.commit()
                    fresh = 0
                    if on_commit is not None:
                        on_commit(done)

    def _allocate(self, budget: Budget, rows: int) -> _Buffers:
        d, dtype = self._source.shape[1], self._source.dtype
        row = d * dtype.itemsize
        columns = self._width * self._stored.itemsize
        each = 2 * row + self._threads * columns
        # Arrays are whole cache lines.
        more = (2 + self._threads) * CACHE_LINE
        count = min((budget.room - more) // each, max(_SLICE // row, 1), rows)
        if count < 1 <= rows:
            enough = budget.overhead + more + each
            raise DGLError(
                f"memory={format_bytes(budget.memory)} is too small for one "
                f"row of {self._source.what}: {format_bytes(enough)} "
                f"({enough} bytes) would be enough."
            )
        space = WorkSpace(count * each + more)
        return _Buffers(
            [space.array(count * d, dtype).reshape(count, d) for _ in range(2)],
            [
                space.array(count * self._width, self._stored.stored)
                for _ in range(self._threads)
            ],
        )

    def _convert(
        self, values: np.ndarray, begin: int, rooms: list[np.ndarray]
    ) -> None:
        """Write a slice of rows, the first of which is ``begin``."""
        rows = torch.from_numpy(values)
        exponent = self._stored.bits.type(_EXPONENTS[self._stored.name])

        def convert(worker: int, place: int) -> None:
            first = self._firsts[place]
            part = rows[:, first : first + self._width]
            room = rooms[worker][: part.numel()]
            out = torch.from_numpy(room).view(self._stored.torch)
            out.view(part.shape).copy_(part)
            bits = room.view(self._stored.bits)
            if self._check_finite and _has_not_finite(bits, exponent):
                raise _not_finite(
                    self._source.what, rows, out.view(part.shape), begin, first
                )
            self._files[place].append(room.reshape(part.shape))

        run_parallel(convert, len(self._files), self._threads)


def _native(values: np.ndarray) -> np.ndarray:
    """Values in the machine's byte order; they are changed in place."""
    if values.dtype.isnative:
        return values
    return values.byteswap(inplace=True).view(values.dtype.newbyteorder("="))


@jit
def _has_not_finite(bits: np.ndarray, exponent: np.unsignedinteger) -> bool:
    """Whether any value has all bits of the exponent set."""
    found = False
    for i in range(len(bits)):
        found |= (bits[i] & exponent) == exponent
    return found


def column_files(columns: int, width: int) -> list[str]:
    """Name the files of so many columns."""
    return [file_of(place) for place in range(-(-columns // width))]


def _not_finite(
    what: str, rows: torch.Tensor, part: torch.Tensor, begin: int, first: int
) -> DGLError:
    bad = ~torch.isfinite(part)
    row, column = (int(place) for place in bad.nonzero()[0])
    value = float(rows[row, first + column])
    text = (
        f"{what} holds {value} at node {begin + row}, column "
        f"{first + column}, and {int(bad.sum()) - 1} more such values in "
        f"rows {begin} to {begin + len(rows) - 1} of these columns"
    )
    if np.isfinite(value):
        return DGLError(
            f"{text}: too large for {part.dtype}. Use another dtype, such as "
            f"bfloat16."
        )
    return DGLError(
        f"{text}: replace nan and inf. Only write_features, in Python, takes "
        f"them as they are, with check_finite=False."
    )
