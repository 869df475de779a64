"""Writing a hop store of the rows, or the hops, of two others.

Rows are read in pieces, compared with their checksums, and written in order.
A run that was killed resumes after the rows that it has committed.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from .._common.progress import progress_bar
from .._common.rows import COPY_ROWS
from ..graph_counts import GraphCounts
from .exchange_folders import exchange_folders
from .folder import locked, remove_folder
from .hop_store import COMPUTED, KIND, StoredHops
from .write_hops import StoreWriter

#: Fills rows low to high of a store: (low, high, values).
Fill = Callable[[int, int, torch.Tensor], None]
#: Bytes of rows that are read at a time, and that are committed at a time.
_PIECE, _COMMIT = 1 << 22, 1 << 28


def merge_bytes(rows: int) -> int:
    """Count the bytes that merging allocates for so many rows.

    Checksums before and after, where each row comes from, and pieces.
    """
    return 24 * rows + 4 * _PIECE


def row_source(
    old: StoredHops, computed: StoredHops | None, places: torch.Tensor
) -> Fill:
    """Take each row from one of two stores of the same hops.

    ``places`` has an entry for each row: p for row p of the old store,
    -1 - p for row p of what was computed.
    """

    def fill(low: int, high: int, values: torch.Tensor) -> None:
        own = places[low:high].long()
        for store, chosen in ((old, own >= 0), (computed, own < 0)):
            at = chosen.nonzero().squeeze(1)
            if store is not None and len(at):
                found = own[at] if store is old else -1 - own[at]
                values[at] = _take(store, found)

    return fill


def hop_source(old: StoredHops, computed: StoredHops) -> Fill:
    """Take the first hops of each row from one store, others from another."""

    def fill(low: int, high: int, values: torch.Tensor) -> None:
        places = torch.arange(low, high)
        values[:, : len(old)] = _take(old, places)
        values[:, len(old) :] = _take(computed, places)

    return fill


def _take(store: StoredHops, places: torch.Tensor) -> torch.Tensor:
    """Read rows, checked; the shape is (rows, hops, columns)."""
    nodes = places if store.nodes is None else store.nodes[places]
    found = store.take(places, nodes).stack
    return found.view(len(store), len(places), -1).transpose(0, 1)


def merge(
    writer: StoreWriter,
    fill: Fill,
    progress: bool | None = None,
    counts: GraphCounts | None = None,
) -> None:
    """Write all rows that are not written yet, and finish the store.

    ``counts`` are those of the graph. The hop store in the subfolder
    ``computed`` is deleted at the end.
    """
    rows, hops, columns = writer.shape
    row_bytes = hops * columns * writer.dtype.itemsize
    piece = max(1, min(COPY_ROWS, _PIECE // row_bytes))
    block = max(piece, _COMMIT // row_bytes)
    values = torch.empty(piece, hops, columns, dtype=writer.dtype)
    with progress_bar(rows * row_bytes, "merge", progress) as bar:
        bar.update(writer.done * row_bytes)
        while writer.done < rows:
            first, last = writer.done, min(writer.done + block, rows)
            with writer.block(last):
                for low in range(first, last, piece):
                    high = min(low + piece, last)
                    own = values[: high - low]
                    fill(low, high, own)
                    writer.write_rows(low, own)
                    bar.update(len(own) * row_bytes)
    writer.finish(counts)
    remove_computed(writer.folder)


def remove_computed(folder: Path) -> None:
    """Delete what was computed for a store that is merged now."""
    if (folder / COMPUTED).is_dir():
        remove_folder(folder / COMPUTED, KIND)


def replace_store(new: Path, old: Path) -> None:
    """Put a finished store in the place of another, and delete that.

    Who has mapped the old files keeps them.
    """
    with locked(old):
        exchange_folders(new, old)
    remove_store(new)


def remove_store(path: Path) -> None:
    """Delete a hop store, finished or not."""
    remove_computed(path)
    remove_folder(path, KIND)
