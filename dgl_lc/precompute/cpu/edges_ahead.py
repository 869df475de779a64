"""Asking the disk for the edges of chunks that are computed soon."""

import numpy as np

from ...storage.ask_ahead import AskAhead
from ..graph.in_edges import EdgeBlock
from .chunks import FIRST, FROM_EDGE, LAST, TO_EDGE

#: Chunks between the one that is computed and the one that is asked for. Full
#: chunks of edges without weights are 128 KiB, so that this is 16 MiB.
_AHEAD = 128
#: Edges between two rows that are read as well: a disk reads them in less
#: time than another request takes.
_GAP = 1 << 14
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
        self._base = block.begin
        self._files = []
        # Weights that are not in the order of the edges are in memory.
        weight = block.weight if block.edge_ids is None else None
        for array in (block.indices, weight):
            if array is None:
                continue
            asked = AskAhead(array)
            if asked.asks:
                self._files.append(asked)
        for item in range(min(_AHEAD, len(table))):
            self._ask(item)

    def begin(self, item: int) -> None:
        """Ask for a later chunk, when a chunk is begun."""
        if item + _AHEAD < len(self._table):
            self._ask(item + _AHEAD)

    def _ask(self, item: int) -> None:
        if not self._files:
            return
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
            file.ask(begin - self._base, end - self._base)

    def close(self) -> None:
        """Ask for nothing more."""
        for file in self._files:
            file.close()
        self._files = []
