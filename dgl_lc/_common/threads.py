"""Running kernels on as many threads as torch uses."""

import itertools
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")


def num_threads() -> int:
    """As many threads as torch has been told to use."""
    return torch.get_num_threads()


def run_parallel(
    work: Callable[[int, int], None], count: int, threads: int | None = None
) -> None:
    """Call ``work(worker, item)`` for every item below ``count``.

    Items are handed out one by one to whichever worker is free. An error or
    an interrupt stops the others after the item they are at.
    """
    workers = min(threads or num_threads(), count)
    if workers <= 1:
        for item in range(count):
            work(0, item)
        return
    items = iter(range(count))
    stopped = False

    def drain(worker: int) -> None:
        # next() of a range iterator is atomic under the GIL.
        while not stopped and (item := next(items, None)) is not None:
            work(worker, item)

    with ThreadPoolExecutor(workers, "dgl-lc") as pool:
        try:
            futures = [pool.submit(drain, worker) for worker in range(workers)]
            for future in futures:
                future.result()
        except BaseException:
            stopped = True
            raise


def run_in_order(
    work: Callable[[int], Result], count: int, threads: int | None = None
) -> Generator[Result, None, None]:
    """Give the results of ``work(item)`` for every item below ``count``.

    They come in order, each as soon as it and those before it are known,
    while threads work on those that follow. Close it
    (:func:`contextlib.closing`): after an error or an interrupt, no item is
    begun any more, and those that threads are at are waited for.

    >>> list(run_in_order(lambda item: item * item, 4))
    [0, 1, 4, 9]
    """
    workers = max(1, min(threads or num_threads(), count))
    pool = ThreadPoolExecutor(workers, "dgl-lc")
    try:
        for future in [pool.submit(work, item) for item in range(count)]:
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def ranges(total: int, parts: int) -> list[tuple[int, int]]:
    """Cut ``range(total)`` into balanced contiguous parts.

    Lengths differ by at most one; none is lost, however total and parts
    relate.

    >>> ranges(10, 4)
    [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    size, extra = divmod(total, parts)
    bounds = [i * size + min(i, extra) for i in range(parts + 1)]
    return list(itertools.pairwise(bounds))
