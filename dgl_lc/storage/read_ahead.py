"""Reading slices ahead of their use, with a progress bar."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tqdm.auto import tqdm

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
    """The slices; while one is in work, the next one is being read.

    Close it (:func:`contextlib.closing`), also after an error: left to be
    collected it could be closed by a thread that is just being started, and
    wait there for ever.

    Three may be in memory at once: one being read, one that waits to be
    taken, and the one that it replaces.
    """
    with (
        tqdm(
            total=total, initial=done, desc=name,
            unit="B", unit_scale=True, unit_divisor=1024,
            disable=None if progress is None else not progress,
            delay=2 if progress is None else 0,
        ) as bar,
        ThreadPoolExecutor(1, "dgl-lc read") as reader,
    ):  # fmt: skip
        coming = reader.submit(next, slices, None)
        while (found := coming.result()) is not None:
            coming = reader.submit(next, slices, None)
            yield found
            bar.update(bytes_of(found))
