"""Gathering the rows of batches, in threads where these come from a disk."""

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

import torch

from .._common.ahead import ahead
from ..node_rows import NodeRows
from ..row_blocks import Room, RowBlock
from .buffers import Buffers

#: Nodes of a batch, and the places of their rows.
Batch = tuple[torch.Tensor, torch.Tensor]

#: Batches that are ready before they are asked for.
AHEAD = 2
#: Bytes of rows that are read at once where they are not shuffled.
READ_AT_ONCE = 1 << 26


def batches_at_once(rows: NodeRows, batch_size: int) -> int:
    """Count the batches whose rows are read at once."""
    return max(1, READ_AT_ONCE // (batch_size * max(1, rows.row_bytes)))


class BatchReader:
    """Gathers the rows of batches.

    Rows on disk are read and gathered by two threads, which end with the
    iteration, also after an error or an interrupt. What goes wrong in them is
    raised where the batch is asked for.

    Parameters
    ----------
    rows : NodeRows
        What the rows are taken from.
    pinned : bool, optional
        Whether batches are in pinned memory. Default: False.
    """

    def __init__(self, rows: NodeRows, pinned: bool = False):
        self._rows, self._pinned = rows, pinned
        #: Whether threads read and gather. From memory a batch takes a few
        #: percent of a step.
        self.in_thread = rows.on_disk and not rows.requires_grad
        self._buffers = Buffers()
        # Kept from one iteration to the next. Two at once have their own.
        self._rooms: list[Room] | None = None

    def in_blocks(
        self, windows: Iterable[list[Batch]]
    ) -> Generator[NodeRows, None, None]:
        """Give batches, of which those of a window are read at once."""
        stopped = threading.Event()
        return ahead(self._of_blocks(windows, stopped), AHEAD, stopped)

    def one_by_one(
        self, batches: Iterable[Batch]
    ) -> Generator[NodeRows, None, None]:
        """Give batches, each of which is gathered by itself."""
        found = self._of_rows(batches)
        return ahead(found, AHEAD) if self.in_thread else found

    def _of_rows(
        self, batches: Iterable[Batch]
    ) -> Generator[NodeRows, None, None]:
        coming = iter(batches)
        batch = next(coming, None)
        if batch is not None:
            self._rows.prefetch(batch[1])
        while batch is not None:
            # What the next batch needs is read while this one is used.
            later = next(coming, None)
            if later is not None:
                self._rows.prefetch(later[1])
            nodes, places = batch
            yield self._rows.take(places, nodes, self._room_for(len(nodes)))
            batch = later

    def _of_blocks(
        self, windows: Iterable[list[Batch]], stopped: threading.Event
    ) -> Iterator[NodeRows]:
        rooms = self._rooms or [Room(), Room()]
        self._rooms = None

        def read() -> Iterator[tuple[list[Batch], RowBlock]]:
            for number, window in enumerate(windows):
                places = torch.cat([places for _, places in window])
                room = rooms[number % len(rooms)]
                yield window, self._rows.read(places, room, stopped)

        # While batches are taken from one room, the other one is filled.
        with closing(ahead(read(), 1, stopped)) as blocks:
            for window, block in blocks:
                done = 0
                for nodes, places in window:
                    which = torch.arange(done, done + len(places))
                    out = self._room_for(len(nodes))
                    yield block.take(which, nodes, out)
                    done += len(places)
        self._rooms = rooms

    def _room_for(self, count: int) -> torch.Tensor | None:
        """Return memory for a batch, if its rows can be one tensor."""
        rows = self._rows
        gathers = rows.same_shape and not rows.requires_grad
        if not gathers or rows.device.type != "cpu":
            return None
        columns = rows.shape[1:]
        if self._pinned:
            # torch keeps pinned memory from being used again too early.
            return torch.empty(
                (len(rows) * count, *columns), dtype=rows.dtype,
                pin_memory=True,
            )  # fmt: skip
        return self._buffers.get(len(rows) * count, columns, rows.dtype)
