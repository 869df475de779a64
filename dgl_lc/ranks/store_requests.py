"""Requests to a store that are not waited for forever.

A request to a store on another machine waits inside torch's code as long as
the network is down, for half an hour or more, and cannot be interrupted. A
thread makes the requests instead, and who asks gives up after a while.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch.distributed as dist

#: Seconds for which a thread may take to end.
_END_SECONDS = 5.0


class StoreLost(Exception):
    """The store does not answer."""


class StoreRequests:
    """A store whose answers are waited for only so long.

    Parameters
    ----------
    store : Store
        The store. Nothing that is asked of it may wait for another rank.
    seconds : float
        How long to wait for an answer. After one that did not come,
        everything else fails at once.
    """

    def __init__(self, store: dist.Store, seconds: float):
        self._store, self._seconds = store, seconds
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lost: str | None = None
        self._thread = threading.Thread(
            target=self._answer, name="dgl-lc store", daemon=True
        )
        self._thread.start()

    def set(self, key: str, value: str) -> None:
        """Write a value."""
        self._ask(self._store.set, key, value)

    def get(self, key: str) -> str:
        """Read a value that is there."""
        return self._ask(self._store.get, key).decode()

    def add(self, key: str, amount: int) -> int:
        """Add to a counter, and give its value."""
        return self._ask(self._store.add, key, amount)

    def count(self, key: str) -> int:
        """Read a counter; 0 if it is not there."""
        # Adding nothing is how a counter is read without waiting for it.
        return self.add(key, 0)

    def close(self) -> None:
        """End the thread, unless it is still waiting."""
        self._asked.put(None)
        # A thread that is in torch's code when Python ends kills it.
        self._thread.join(0 if self._lost else _END_SECONDS)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._lost is not None:
            raise StoreLost(self._lost)
        answer: Future[Any] = Future()
        self._asked.put((answer, function, arguments))
        try:
            return answer.result(self._seconds)
        except (TimeoutError, RuntimeError) as error:
            # An error of the store itself has a text.
            lines = str(error).splitlines()
            self._lost = lines[0] if lines else (
                f"no answer in {self._seconds:.0f} s"
            )  # fmt: skip
            raise StoreLost(self._lost) from error

    def _answer(self) -> None:
        while (asked := self._asked.get()) is not None:
            answer, function, arguments = asked
            try:
                answer.set_result(function(*arguments))
            except BaseException as error:
                answer.set_exception(error)
