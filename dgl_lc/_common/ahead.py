"""Items that a thread makes ahead of their use."""

import collections
import contextlib
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


class Stop(Exception):
    """What a long step raises when nobody waits for its item any more."""


def ahead(
    items: Iterator[Item],
    count: int,
    stopped: threading.Event | None = None,
) -> Generator[Item, None, None]:
    """Give the items of an iterator; a thread makes the next ones meanwhile.

    An error in the thread is raised where its item is asked for. When the
    generator is closed, also by an error or an interrupt of whoever uses it,
    the thread has ended and the iterator is closed.

    Parameters
    ----------
    items : iterator
        The items. It runs in the thread alone.
    count : int
        Number of items that are kept ready, or are being made.
    stopped : threading.Event, optional
        Set when the generator is closed: steps that take long look at it, and
        raise :class:`Stop`.

    Examples
    --------
    >>> list(ahead(iter("abc"), 2))
    ['a', 'b', 'c']
    """
    # Items are made one by one, when there is room: the thread waits in the
    # pool, not in a queue, so that it never keeps Python from ending.
    pool = ThreadPoolExecutor(1, "dgl-lc ahead")
    own: list[int] = []
    coming: collections.deque[Future] = collections.deque()
    end = object()

    def make() -> Any:
        own[:] = [threading.get_ident()]
        if stopped is not None and stopped.is_set():
            raise Stop
        return next(items, end)

    try:
        coming.extend(pool.submit(make) for _ in range(count))
        while (found := coming.popleft().result()) is not end:
            coming.append(pool.submit(make))
            yield found
            # The caller may have dropped it: its memory can be used again.
            del found
    finally:
        if stopped is not None:
            stopped.set()
        # Collected as garbage, this may run in the thread itself.
        pool.shutdown(
            wait=threading.get_ident() not in own, cancel_futures=True
        )
        with contextlib.suppress(ValueError):
            close = getattr(items, "close", None)
            if close is not None:
                close()
