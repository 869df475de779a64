"""Reading rows of a hop store in large pieces.

Rows that lie together are read together, in the order of the file. Of a store
that is larger than memory they are read past the page cache where the system
can do that: copying and looking for pages takes more time of the processor
than the model has to spare, and the pages would not be found again anyway.
"""

import errno
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._common.ahead import Stop
from .._common.dtypes import bits_of
from .._common.jit import jit
from ..row_blocks import ALIGNED, Room

if TYPE_CHECKING:
    from .hop_store import StoredHops

#: Bytes that are read at a time.
_PIECE = 1 << 22
#: Bytes that the disk is asked for before they are read.
_REQUESTED = 1 << 24
#: Bytes between two rows that are read with them: seeking takes longer.
_GAP = 1 << 15
#: Mean bytes that have to lie together to be read past the page cache.
_TOGETHER = 1 << 18


@jit
def gather_checked(
    values: np.ndarray,
    starts: np.ndarray,
    which: np.ndarray,
    factors: np.ndarray,
    columns: int,
    checksums: np.ndarray,
    out: np.ndarray,
) -> None:
    """Copy rows of a block to a batch, hop after hop; add up checksums."""
    count = len(which)
    hops = len(factors) // columns
    for i in range(count):
        begin = starts[which[i]]
        total = np.uint64(0)
        for hop in range(hops):
            first = hop * columns
            source = values[begin + first : begin + first + columns]
            weights = factors[first : first + columns]
            target = out[hop * count + i]
            for j in range(columns):
                target[j] = source[j]
                total += np.uint64(source[j]) * weights[j]
        checksums[i] = total


class StoredBlock:
    """Rows of a hop store that were read into memory.

    Each is compared with its checksum when it is taken.
    """

    def __init__(
        self,
        store: "StoredHops",
        values: np.ndarray,
        starts: np.ndarray,
        places: np.ndarray,
    ):
        self._store, self._values = store, values
        self._starts, self._places = starts, places

    def take(
        self,
        which: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows into memory, and check them."""
        store, chosen = self._store, which.numpy()
        columns = store.shape[1]
        if out is None:
            out = torch.empty(
                (len(store) * len(chosen), columns), dtype=store.dtype
            )
        checksums = np.empty(len(chosen), np.uint64)
        gather_checked(
            self._values, self._starts, chosen, store.factors, columns,
            checksums, bits_of(out),
        )  # fmt: skip
        store.compare(self._places[chosen], nodes, checksums)
        return store.in_memory(out, nodes)


def read_block(
    store: "StoredHops",
    places: torch.Tensor,
    room: Room,
    stopped: threading.Event | None = None,
) -> StoredBlock:
    """Read rows into memory, in the order of the file.

    Parameters
    ----------
    store : StoredHops
        The store.
    places : Tensor
        Places of rows, in any order.
    room : Room
        The memory of the block, which holds until the room is used again.
    stopped : threading.Event, optional
        Ends the reading when it is set.
    """
    given = places.numpy()
    wanted, back = given, None
    if len(given) > 1 and not bool((given[1:] > given[:-1]).all()):
        wanted, back = np.unique(given, return_inverse=True)
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < store.shape[0]:
        raise IndexError(f"places of {store.shape[0]} rows are out of range")
    # A run is a range of rows that are wanted one after the other.
    firsts = np.flatnonzero(np.diff(wanted, prepend=-2) != 1)
    counts = np.diff(firsts, append=len(wanted))
    row = store.row_bytes
    begins = store.data_offset + wanted[firsts] * row
    sizes = counts * row
    direct = None
    if store.is_cold and sizes.sum() >= _TOGETHER * len(sizes) > 0:
        direct = store.open_direct()
    lead = np.zeros_like(begins)
    slots = sizes
    if direct is not None:
        # The disk writes whole pages.
        lead = begins % ALIGNED
        slots = -(-(lead + sizes) // ALIGNED) * ALIGNED
    ends = np.cumsum(slots)
    ats = ends - slots + lead
    buffer = room.bytes(store.key, int(slots.sum()))
    runs = zip(begins.tolist(), sizes.tolist(), ats.tolist(), strict=True)
    try:
        _read_runs(store, list(runs), buffer, direct, stopped)
    finally:
        if direct is not None:
            os.close(direct)
    within = np.arange(len(wanted)) - np.repeat(firsts, counts)
    starts = (np.repeat(ats, counts) + within * row) // store.dtype.itemsize
    if back is not None:
        starts, wanted = starts[back], given
    usable = len(buffer) // store.dtype.itemsize * store.dtype.itemsize
    values = buffer[:usable].view(f"<u{store.dtype.itemsize}")
    return StoredBlock(store, values, starts, wanted)


def _read_runs(
    store: "StoredHops",
    runs: list[tuple[int, int, int]],
    buffer: np.ndarray,
    direct: int | None,
    stopped: threading.Event | None,
) -> None:
    """Read ranges of bytes: where each begins, its size, and where to."""
    if direct is not None:
        rest = _read_direct(store, runs, buffer, direct, stopped)
    else:
        rest = runs
    file, view = store.file_number, memoryview(buffer.data)
    pieces = list(_cut(rest))
    requests = _requests(pieces)
    coming = next(requests, None)
    done = 0
    for begin, size, at in pieces:
        _look(stopped)
        while coming is not None and coming[0] < done + _REQUESTED:
            _request(file, *coming[1:])
            coming = next(requests, None)
        _read(store, file, view[at : at + size], begin)
        done += size


def _read_direct(
    store: "StoredHops",
    runs: list[tuple[int, int, int]],
    buffer: np.ndarray,
    direct: int,
    stopped: threading.Event | None,
) -> list[tuple[int, int, int]]:
    """Read past the page cache; return what is left for the usual way."""
    view = memoryview(buffer.data)
    for number, (begin, size, at) in enumerate(runs):
        lead = begin % ALIGNED
        done = 0
        while done < lead + size:
            _look(stopped)
            step = min(_PIECE, -(-(lead + size - done) // ALIGNED) * ALIGNED)
            first = at - lead + done
            try:
                got = os.preadv(
                    direct, [view[first : first + step]], begin - lead + done
                )
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                # Not this file, or not on this file system.
                return runs[number:]
            if got < min(step, lead + size - done):
                # The rest, or the error, is for the usual way.
                return runs[number:]
            done += step
    return []


def _cut(
    runs: list[tuple[int, int, int]],
) -> Iterator[tuple[int, int, int]]:
    """Cut ranges into pieces that are read at once."""
    for begin, size, at in runs:
        for done in range(0, size, _PIECE):
            yield begin + done, min(_PIECE, size - done), at + done


def _requests(
    pieces: list[tuple[int, int, int]],
) -> Iterator[tuple[int, int, int]]:
    """Join pieces that the disk reads together, with what is between them.

    Yields how many bytes of pieces lie before each request, where it begins,
    and its size.
    """
    before = wanted = first = end = 0
    for begin, size, _ in pieces:
        if not wanted or begin - end > _GAP or begin + size - first > _PIECE:
            if end:
                yield before, first, end - first
            before, first = wanted, begin
        wanted += size
        end = begin + size
    if end:
        yield before, first, end - first


def _request(file: int, begin: int, size: int) -> None:
    """Ask the disk for bytes that are read soon."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, begin, size, os.POSIX_FADV_WILLNEED)


def _read(
    store: "StoredHops", file: int, target: memoryview, begin: int
) -> None:
    while len(target):
        got = os.preadv(file, [target], begin)
        if not got:
            raise store.cut_off()
        target, begin = target[got:], begin + got


def _look(stopped: threading.Event | None) -> None:
    if stopped is not None and stopped.is_set():
        raise Stop
