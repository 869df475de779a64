"""How the samples of an epoch are shuffled: all together, or in chunks."""

from typing import Any

from dgl import DGLError

from .._common.bytes import parse_bytes
from ..node_rows import NodeRows
from .chunk_order import RowChunks

#: What ``fit`` may be given.
CHOICES = ("auto", "full", "chunks")
#: Memory that shuffling in chunks takes.
BUFFER = "1GiB"


def check_shuffle(
    shuffle: Any, buffer: int | str | None, full_graph: bool
) -> None:
    """Refuse an option of ``fit`` that is not known, or not used."""
    if isinstance(shuffle, RowChunks):
        return
    if full_graph and (shuffle == "chunks" or buffer is not None):
        raise DGLError(
            "shuffle='chunks' is for hop features, and inputs is a graph with "
            "its features, which trains on all of it: omit it."
        )
    if not isinstance(shuffle, str) or shuffle not in CHOICES:
        raise DGLError(
            f"shuffle={shuffle!r} should be one of {', '.join(CHOICES)}."
        )
    if buffer is not None:
        if shuffle == "full":
            raise DGLError(
                "shuffle_buffer is for shuffle='chunks': omit it, or choose "
                "that."
            )
        buffer_bytes(buffer)


def buffer_bytes(buffer: int | str | None) -> int:
    """Return the bytes of a buffer; None stands for the default."""
    found = parse_bytes(BUFFER if buffer is None else buffer, "shuffle_buffer")
    if found < 1:
        raise DGLError(f"shuffle_buffer={buffer!r} should be at least 1 byte.")
    return found


def choose_chunks(
    rows: NodeRows, shuffle: Any, buffer: int | str | None, batch: int
) -> RowChunks | None:
    """Return how a loader shuffles in chunks; None if it does not.

    ``batch`` is the number of nodes of a batch of all ranks.
    """
    if isinstance(shuffle, RowChunks):
        return shuffle
    if isinstance(shuffle, str) and shuffle == "chunks":
        return RowChunks.of(rows.row_bytes, buffer_bytes(buffer), batch)
    if not isinstance(shuffle, bool) and shuffle != "full":
        raise DGLError(
            f"shuffle={shuffle!r} should be True, False, 'full' or 'chunks'."
        )
    return None
