"""Reading slices ahead of their use, with a progress bar."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .._common.progress import progress_bar

Slice = TypeVar("Slice")


def read_ahead(
    slices: Iterator[Slice],
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
    with (
        progress_bar(total, name, progress, done=done) as bar,
        ThreadPoolExecutor(1, "dgl-lc read") as reader,
    ):
        coming = reader.submit(next, slices, None)
        while (found := coming.result()) is not None:
            coming = reader.submit(next, slices, None)
            yield found
            bar.update(bytes_of(found))
