"""Reading slices ahead of their use, with a progress bar."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from .._common.progress import progress_bar

Slice = TypeVar("Slice")


def reader_thread() -> ThreadPoolExecutor:
    """A thread that reads.

    One for all passes over a file: the C library keeps what a thread has
    freed for that thread, so that every other one would take memory again.
    """
    return ThreadPoolExecutor(1, "dgl-lc read")


def read_ahead(
    slices: Iterator[Slice],
    reader: ThreadPoolExecutor,
    bytes_of: Callable[[Slice], int],
    *,
    total: int | None,
    done: int = 0,
    name: str,
    progress: bool | None,
) -> Generator[Slice, None, None]:
    """Give the slices; while one is in work, the next one is being read.

    A slice holds until the next one is asked for, so that two buffers, used
    in turn, are enough for all of them.

    Close it (:func:`contextlib.closing`), also after an error: left to be
    collected it could be closed by a thread that is just being started, and
    wait there for ever.
    """
    coming = reader.submit(next, slices, None)
    try:
        with progress_bar(total, name, progress, done=done) as bar:
            while (found := coming.result()) is not None:
                coming = reader.submit(next, slices, None)
                yield found
                bar.update(bytes_of(found))
    finally:
        # Nobody writes to the buffers after this.
        if not coming.cancel():
            wait([coming])
