"""The decision how a run shuffles its training rows."""

import logging
from pathlib import Path

import psutil

from .._common.bytes import format_bytes
from ..node_rows import NodeRows
from .checkpoint import Checkpoint
from .chunk_order import RowChunks
from .shuffling import choose_chunks
from .together import Together

#: Bytes that a disk reads at least.
_PAGE = 4096

_LOG = logging.getLogger(__name__)


def fits_in_memory(rows: NodeRows, count: int) -> bool:
    """Tell whether so many rows stay in memory once they were read."""
    if not rows.on_disk:
        return True
    return _needed(rows, count) <= _available()


def _needed(rows: NodeRows, count: int) -> int:
    """Count the bytes of memory that reading so many rows fills."""
    # A row that lies alone is read with the rest of its pages.
    return min(rows.nbytes, count * (rows.row_bytes + _PAGE))


def _available() -> int:
    return psutil.virtual_memory().available // 2


def decide_shuffle(
    together: Together | None,
    rows: NodeRows,
    count: int,
    shuffle: str | RowChunks,
    buffer: int | str | None,
    batch_size: int,
    checkpoint: str | Path | None,
) -> RowChunks | None:
    """Decide how a run shuffles, and log it; None is all rows together.

    Parameters
    ----------
    together : Together or None
        The ranks of the run, which decide the same.
    rows, count
        The inputs, and the number of training nodes.
    shuffle, buffer, batch_size
        Options of :func:`~dgl_lc.training.fit`.
    checkpoint : path or None
        The file that the run resumes from, if it exists.
    """
    size = 1 if together is None else together.size
    first = together is None or together.is_first
    known, fits = None, fits_in_memory(rows, count)
    if shuffle == "auto" and checkpoint is not None and first:
        file = Checkpoint(Path(checkpoint), {})
        known = file.recorded("shuffle") if file.exists() else None
    if together is not None:
        # Whatever their options are: a difference is found later.
        found = together.gather([known, fits])
        known, fits = found[0][0], all(own for _, own in found)
    chunks, why = None, ""
    if shuffle != "auto":
        chunks = choose_chunks(rows, shuffle, buffer, batch_size * size)
    elif known is not None:
        # A run that resumes does not look at the memory of the machine.
        chunks = RowChunks.parse(known.strip("'"))
        why = ", as the checkpoint says"
    elif not fits:
        chunks = choose_chunks(rows, "chunks", buffer, batch_size * size)
        why = (
            ". shuffle='full' would mix all rows, and read them from the disk "
            "one by one"
        )
    if first:
        _LOG.info("%s%s", in_words(rows, count, chunks), why)
    return chunks


def in_words(rows: NodeRows, count: int, chunks: RowChunks | None) -> str:
    """Say where training rows are, and how they are shuffled."""
    where = "in memory"
    if rows.on_disk:
        size = format_bytes(_needed(rows, count))
        fits = "fits" if fits_in_memory(rows, count) else "does not fit"
        where = (
            f"{'mapped' if chunks is None else 'read'} from disk ({size}, "
            f"which {fits} in half of the available memory, "
            f"{format_bytes(_available())})"
        )
    how = "all are shuffled together"
    if chunks is not None:
        how = (
            f"shuffled in chunks of {chunks.rows:,}, of which {chunks.mixed:,} "
            f"rows are mixed at a time"
        )
    return f"training rows are {where}; {how}"
