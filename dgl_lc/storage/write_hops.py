"""Writing a hop store, column block by column block or row by row.

While a store is being made, ``state.json`` says how many columns (or rows) of
it count, and which of two files holds the checksums of these; a run that was
killed resumes after the last whole block of them.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .._common.bytes import format_bytes
from .._common.dtypes import STORED_TYPES, bits_of, type_of
from .._common.file_access import create_file, write_all
from .._common.rows import COPY_ROWS
from .._common.threads import ranges, run_parallel
from ..graph_counts import GraphCounts
from ..hops import FilterSpec
from .folder import check_output, claim, disk_errors, locked
from .free_disk import disk_of
from .hop_store import CHECKSUMS, COUNTS, KIND, NODES, ROWS, StoreHead
from .manifest import STATE, write_draft, write_manifest
from .npy_file import (
    HEADER,
    FileEntry,
    check_chunks,
    check_size,
    map_file,
    npy_header,
    save_array,
)
from .part_folders import remove_parts
from .row_checksums import add_checksums, factors

#: The checksums so far: the file that counts, and the one that is written.
_TURNS = ("checksums-0.npy", "checksums-1.npy")
#: All files that a store may have, finished or not.
STORE_FILES = (ROWS, CHECKSUMS, NODES, *_TURNS)
#: Room that is left on a disk.
_SPARE = 1 << 26


def bytes_for(rows: int, width: int, itemsize: int, threads: int) -> int:
    """Bytes that a writer allocates for column blocks of this width.

    Checksums of all rows before and after a block, and places of the rows;
    and the pieces that threads pick.
    """
    return 32 * rows + threads * COPY_ROWS * width * 2 * itemsize


def disk_bytes(shape: tuple[int, ...], itemsize: int, some_nodes: bool) -> int:
    """Count the bytes of disk that making a store of this shape takes.

    New checksums are written before the old ones are removed.
    """
    rows = shape[0]
    size = int(np.prod(shape, dtype=np.int64)) * itemsize
    return size + (32 if some_nodes else 24) * rows


class StoreWriter:
    """Makes a store. Use it as a context manager.

    Attributes
    ----------
    done : int
        Columns (or rows) that are finished, from an earlier run.
    finished : bool
        Whether nothing is left to do.

    Parameters
    ----------
    path : path
        The folder.
    head : StoreHead
        What the store is to hold. A store of something else is an error.
    nodes : Tensor, optional
        The node of each row.
    resume : bool
        Resume an unfinished store of the same; with False any store in the
        folder is deleted and written again.
    by_rows : bool
        Write whole rows, with :meth:`write_rows`, instead of column blocks,
        with :meth:`keep`.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        head: StoreHead,
        nodes: torch.Tensor | None = None,
        resume: bool = True,
        by_rows: bool = False,
    ):
        self.folder = Path(path)
        self.done = 0
        self.finished = False
        self._head, self._nodes, self._resume = head, nodes, resume
        self._by_rows = by_rows
        self._type = STORED_TYPES[head.kind]
        self._checksums = np.zeros(0, np.uint64)
        self._new = self._checksums
        self._rows: np.ndarray = np.empty((0, 0, 0), self._type.stored)
        self._turn = 0
        self._nodes_entry: FileEntry | None = None
        self._lock = contextlib.ExitStack()

    @staticmethod
    def check(path: str | os.PathLike) -> None:
        """Refuse a folder that holds anything but a store of ours."""
        check_output(Path(path), KIND, STORE_FILES)

    def __enter__(self) -> "StoreWriter":
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked(self.folder, create=True))
            state = claim(
                self.folder,
                KIND,
                STORE_FILES,
                self._head.to_json(),
                self._resume,
            )
            if state is None:
                self.finished = True
            else:
                with disk_errors(self.folder):
                    self._begin(state)
            self._lock = stack.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        self._rows = self._rows[:0]
        self._lock.close()

    def _begin(self, state: dict[str, Any]) -> None:
        notes = state.get("notes", {})
        # What was begun in the other way is written again.
        if "done" in notes and notes.get("by_rows", False) == self._by_rows:
            self._restore(notes)
        else:
            self._create()
        entry = self._rows_entry()
        check_size(self.folder / ROWS, entry)
        self._rows = map_file(self.folder / ROWS, entry, "r+")

    def _restore(self, notes: dict[str, Any]) -> None:
        try:
            done, turn = notes["done"], notes["turn"]
            entry = FileEntry.from_json(notes["checksums"])
            if self._head.some_nodes:
                self._nodes_entry = FileEntry.from_json(notes["nodes"])
            last = self._head.rows if self._by_rows else self._head.columns
            good = (
                type(done) is int
                and 0 <= done <= last
                and turn in (0, 1)
                and entry.dtype == np.dtype(np.uint64)
                and entry.shape == self.shape[:1]
            )
            if not good:
                raise ValueError("it contradicts itself")
        except (KeyError, ValueError) as error:
            raise DGLError(
                f"{self.folder / STATE} is damaged ({error}): write the store "
                f"again with resume=False."
            ) from None
        path = self.folder / _TURNS[turn]
        mapped = map_file(path, entry)
        check_chunks(path, entry, range(len(entry.checksums or ())))
        self.done, self._turn = done, turn
        self._checksums = np.array(mapped)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The rows, hops and columns of the store."""
        return self._head.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of its numbers."""
        return self._type.torch

    def _rows_entry(self) -> FileEntry:
        stored = self._type.stored
        return FileEntry.of(self.folder / ROWS, stored, self.shape, None)

    def _create(self) -> None:
        rows = self._head.rows
        dtype = self._type.stored
        size = int(np.prod(self.shape, dtype=np.int64)) * dtype.itemsize
        needed = disk_bytes(self.shape, dtype.itemsize, self._nodes is not None)
        # Parts of ranks that were killed: this run does not need them.
        remove_parts(self.folder)
        # The folder is locked and ours: what is in it is written again.
        free = shutil.disk_usage(self.folder).free + disk_of(self.folder)
        if needed + _SPARE > free:
            raise DGLError(
                f"out={str(self.folder)!r}: the hop features take "
                f"{format_bytes(needed)}, and {format_bytes(free)} of disk "
                f"are free. Give another disk, fewer nodes or hops, or a "
                f"smaller dtype."
            )
        self._write_state({})
        for name in STORE_FILES:
            # Of a run that was killed before its first commit.
            (self.folder / name).unlink(missing_ok=True)
        if self._nodes is not None:
            self._nodes_entry = save_array(
                self.folder / NODES, self._nodes.numpy()
            )
        with create_file(self.folder / ROWS) as file:
            write_all(file, npy_header(dtype, self.shape))
            # All of it now: a memory map on a full disk kills the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, HEADER + size)
            else:
                file.truncate(HEADER + size)
        self._checksums = np.zeros(rows, np.uint64)
        self._commit(0)

    def keep(
        self,
        hop: int,
        first: int,
        values: torch.Tensor,
        places: torch.Tensor | None,
    ) -> None:
        """Write a hop's columns, from ``first`` on, of all or some rows."""
        number = self._head.hops.index(hop)
        last = first + values.shape[1]
        begin = number * self._head.columns + first
        odd = factors(begin + values.shape[1])[begin:]
        rows, count = self._rows, len(self._checksums)
        parts = ranges(count, max(1, -(-count // COPY_ROWS)))

        def write(_: int, part: int) -> None:
            low, high = parts[part]
            if places is None:
                piece = values[low:high]
            else:
                piece = values.index_select(0, places[low:high])
            bits = bits_of(piece)
            add_checksums(bits, odd, self._new[low:high])
            rows[low:high, number, first:last] = bits.view(rows.dtype)

        run_parallel(write, len(parts))

    def write_rows(self, low: int, values: torch.Tensor) -> None:
        """Write whole rows from ``low`` on; their shape is that of a row."""
        bits = bits_of(values.reshape(len(values), -1))
        high = low + len(values)
        self._new[low:high] = 0
        add_checksums(bits, self._factors, self._new[low:high])
        self._rows[low:high] = bits.view(self._rows.dtype).reshape(values.shape)

    @cached_property
    def _factors(self) -> np.ndarray:
        _, hops, columns = self.shape
        return factors(hops * columns)

    @contextlib.contextmanager
    def block(self, last: int) -> Iterator[None]:
        """Keep columns (or rows) up to ``last`` within; commit at the end.

        If anything fails, they are as if never written.
        """
        self._new = self._checksums.copy()
        yield
        with disk_errors(self.folder):
            self._flush()
            self._checksums = self._new
            self._commit(last)

    def adopt(self, checksums: np.ndarray) -> None:
        """Take the rows as they are in the file, written by others."""
        assert checksums.shape == self._checksums.shape
        self._checksums = checksums

    def finish(self, counts: GraphCounts | None = None) -> None:
        """Write the manifest, with the graph's counts: the store is whole."""
        with disk_errors(self.folder):
            self._flush()
            self._rows = self._rows[:0]
            files = {
                ROWS: self._rows_entry(),
                CHECKSUMS: save_array(self.folder / CHECKSUMS, self._checksums),
            }
            if self._nodes_entry is not None:
                files[NODES] = self._nodes_entry
            head = self._head.to_json()
            if counts is not None:
                # Not a part of what is compared with a call: stores of
                # earlier versions lack it.
                head[COUNTS] = counts.to_json()
            write_manifest(self.folder, head, {}, files)
        with contextlib.suppress(OSError):
            for name in (*_TURNS, STATE):
                (self.folder / name).unlink(missing_ok=True)

    def _flush(self) -> None:
        if isinstance(self._rows, np.memmap):
            self._rows.flush()

    def _commit(self, done: int) -> None:
        turn = 1 - self._turn
        entry = save_array(self.folder / _TURNS[turn], self._checksums)
        notes: dict[str, Any] = {
            "done": done, "turn": turn, "checksums": entry.to_json()
        }  # fmt: skip
        if self._by_rows:
            notes["by_rows"] = True
        if self._nodes_entry is not None:
            notes["nodes"] = self._nodes_entry.to_json()
        self._write_state(notes)
        self.done, self._turn = done, turn

    def _write_state(self, notes: dict[str, Any]) -> None:
        more = {"names": list(STORE_FILES), "files": {}, "notes": notes}
        write_draft(self.folder / STATE, self._head.to_json() | more)


def save_rows(
    path: str | os.PathLike,
    values: torch.Tensor,
    nodes: torch.Tensor | None,
    made_from: dict[str, Any],
    resume: bool = True,
) -> None:
    """Write a matrix that was computed otherwise, as hop 0 of a store.

    Parameters
    ----------
    values : Tensor
        The rows, of any shape: each is stored as plain columns.
    nodes : Tensor, optional
        The node of each row. Default: row i is node i.
    made_from : dict
        Keys of what the matrix depends on.
    """
    values = values.reshape(len(values), -1)
    rows, columns = values.shape
    head = StoreHead(
        rows, columns, (0,), type_of(values.dtype).name,
        FilterSpec("none", False), nodes is not None, made_from,
    )  # fmt: skip
    with StoreWriter(path, head, nodes, resume) as writer:
        if not writer.finished:
            with writer.block(columns):
                writer.keep(0, 0, values, None)
            writer.finish()
