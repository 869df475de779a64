"""Asking the disk for the edges of chunks that are computed soon."""

import threading

import numpy as np

from ...storage.ask_ahead import AskAhead
from ..graph.in_edges import EdgeBlock
from .chunks import FIRST, FROM_EDGE, LAST, TO_EDGE

#: Edges between the chunk that is begun and what is asked for: 16 MiB, without
#: weights. At least the next chunk is asked for.
_AHEAD = 1 << 22
#: Edges between two rows that are read as well: a disk reads them in less
#: time than another request takes.
_GAP = 1 << 12
#: Rows whose edges are looked up at a time.
_ROWS = 1 << 10


class EdgesAhead:
    """Asks for the edges of chunks, in the order in which they are computed.

    Only the edges of a graph on disk are asked for. Close it.

    Parameters
    ----------
    block : EdgeBlock
        The edges.
    table : int64 array of shape (chunks, 5)
        The chunks of the block (see :class:`.chunks.Chunks`).
    rows : int32 array or None
        The rows of the hop; None for all.
    indptr : integer array
        Where the edges of each row begin.
    """

    def __init__(
        self,
        block: EdgeBlock,
        table: np.ndarray,
        rows: np.ndarray | None,
        indptr: np.ndarray,
    ):
        self._table, self._rows, self._indptr = table, rows, indptr
        files = [AskAhead(array) for array in block.mapped]
        self._files = [file for file in files if file.asks]
        self._next = 0
        self._lock = threading.Lock()

    def begin(self, item: int) -> None:
        """Ask for the chunks that follow one that is begun, and for itself."""
        if not self._files:
            return
        limit = self._first_edge(item) + _AHEAD
        with self._lock:
            while self._next < len(self._table) and (
                self._next <= item + 1 or self._first_edge(self._next) < limit
            ):
                self._ask(self._next)
                self._next += 1

    def _first_edge(self, item: int) -> int:
        chunk = self._table[item]
        first = chunk[FIRST] if self._rows is None else self._rows[chunk[FIRST]]
        return max(int(self._indptr[first]), int(chunk[FROM_EDGE]))

    def _ask(self, item: int) -> None:
        chunk, indptr = self._table[item], self._indptr
        first, last = int(chunk[FIRST]), int(chunk[LAST])
        low, high = int(chunk[FROM_EDGE]), int(chunk[TO_EDGE])
        if self._rows is None:
            self._ask_for(indptr[first], indptr[last], low, high)
            return
        for at in range(first, last, _ROWS):
            rows = self._rows[at : min(at + _ROWS, last)]
            begin, end = indptr[rows[0]], indptr[rows[-1] + 1]
            if end - begin <= _GAP * len(rows):
                self._ask_for(begin, end, low, high)
            else:
                for row in rows.tolist():
                    self._ask_for(indptr[row], indptr[row + 1], low, high)

    def _ask_for(self, begin: int, end: int, low: int, high: int) -> None:
        begin, end = max(int(begin), low), min(int(end), high)
        for file in self._files:
            file.ask(begin, end)

    def close(self) -> None:
        """Ask for nothing more."""
        for file in self._files:
            file.close()
