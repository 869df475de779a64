"""Features on disk, in column blocks.

A column block is read for all nodes at once, so that the columns of a block
lie together: a file for every few columns, written in one pass over rows.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import format_bytes, parse_bytes
from .._common.dtypes import ValueType
from .._common.threads import num_threads, run_parallel
from .disk_features import KIND, DiskFeatures, check_stored, file_of
from .folder import Build, build
from .keys import file_stamp
from .npz_stream import Member
from .numpy_files import read_npy
from .read_ahead import read_ahead

#: Bytes of rows that are read at a time, if memory allows.
_SLICE = 1 << 25
#: Bytes after which the work is kept.
_COMMIT = 1 << 30


class NpyRows:
    """Features in an npy file, mapped into memory."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.what = str(path)
        rows = read_npy(self.path, mapped=True)
        self.shape, self.dtype = rows.shape, rows.dtype

    def made_from(self) -> dict[str, Any]:
        return file_stamp(self.path)

    def rows(self, size: int, begin: int = 0) -> Iterator[np.ndarray]:
        for first in range(begin, self.shape[0], size):
            # Mapped anew: what was read counts no longer as ours.
            yield np.array(
                read_npy(self.path, mapped=True)[first : first + size]
            )


def write_features(
    source: str | os.PathLike | Member | NpyRows,
    path: str | os.PathLike,
    *,
    width: int = 16,
    dtype: torch.dtype = torch.float32,
    memory: int | str = "1GiB",
    check_finite: bool = True,
    progress: bool | None = None,
    resume: bool = True,
    on_commit: Callable[[int], None] | None = None,
) -> DiskFeatures:
    """Write features into a folder of column blocks, in bounded memory.

    Parameters
    ----------
    source : path, Member or NpyRows
        A npy file (n, d) of float16, float32 or float64, an npz file that
        has it as ``node_feat``, or a
        :class:`~dgl_lc.storage.npz_stream.Member`.
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
        Show a progress bar. Default: in a terminal, if it takes a while.
    resume : bool, optional
        Whether to go on where a killed run stopped. A folder made from
        something else is then an error; with False it is written anew.
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
    rows = feature_source(source)
    budget = parse_bytes(memory)
    stored = check_stored(dtype)
    if width < 1:
        raise DGLError(f"width should be at least 1, got {width}.")
    options: dict[str, Any] = {"width": int(width), "dtype": stored.name}
    folder = Path(path)
    names = column_files(rows.shape[1], width)
    with build(
        folder, KIND, names, rows.made_from(), options, resume=resume
    ) as work:
        if work is not None:
            _write(
                rows, work, width, stored, budget, check_finite, progress,
                on_commit,
            )  # fmt: skip
            work.finish(shape=list(rows.shape), **options)
    return DiskFeatures(folder)


def feature_source(
    source: str | os.PathLike | Member | NpyRows,
) -> Member | NpyRows:
    """What reads the rows, after a look at their shape and type."""
    found: Member | NpyRows
    if isinstance(source, (Member, NpyRows)):
        found = source
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        packed = path.suffix == ".npz"
        found = Member(path, "node_feat") if packed else NpyRows(path)
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


def _write(
    source: Member | NpyRows,
    work: Build,
    width: int,
    stored: ValueType,
    budget: int,
    check_finite: bool,
    progress: bool | None,
    on_commit: Callable[[int], None] | None,
) -> None:
    n, d = source.shape
    firsts = range(0, d, width)
    dtype = stored.torch
    files = [
        work.array(file_of(place), stored.stored, min(width, d - first))
        for place, first in enumerate(firsts)
    ]
    done = files[0].count
    _check_disk(work.path, (n - done) * d * stored.itemsize)
    row = d * source.dtype.itemsize
    # Three slices in memory; of one, each thread converts its columns.
    each = 3 * row + 9 * min(width, d) * min(num_threads(), len(files))
    count = min(budget // each, max(_SLICE // row, 1))
    if count < 1:
        raise DGLError(
            f"memory={format_bytes(budget)} is too small for one row of "
            f"{source.what}: {format_bytes(each)} would be enough."
        )
    slices = read_ahead(
        source.rows(count, done),
        lambda rows: rows.nbytes,
        total=n * row,
        done=done * row,
        name="features",
        progress=progress,
    )
    fresh = 0
    with closing(slices):
        for values in slices:
            if values.dtype.byteorder == ">":
                values = values.astype(values.dtype.newbyteorder("="))
            tensor = torch.from_numpy(values)

            def convert(_, place, tensor=tensor, done=done):
                first = firsts[place]
                part = tensor[:, first : first + width].to(dtype).contiguous()
                if check_finite and not torch.isfinite(part).all():
                    raise _not_finite(source.what, tensor, part, done, first)
                if dtype == torch.bfloat16:
                    part = part.view(torch.int16)
                files[place].append(part.numpy())

            run_parallel(convert, len(files))
            done += len(values)
            fresh += values.nbytes
            if fresh >= _COMMIT or done == n:
                work.commit()
                fresh = 0
                if on_commit is not None:
                    on_commit(done)


def column_files(columns: int, width: int) -> list[str]:
    """The names of the files of so many columns."""
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
        f"{text}: replace nan and inf, or take them as they are with "
        f"check_finite=False."
    )


def _check_disk(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path).free
    if free < needed:
        raise DGLError(
            f"{path}: the features need {format_bytes(needed)} of disk, free "
            f"are {format_bytes(free)}."
        )
