"""A call that all ranks make together: agreement, claims, signs of life.

Everything goes through the key-value store of the group, and nothing here
waits inside it: a rank that waits for others looks again and again, so that
it can say whom it waits for, and a store that does not answer is an error.
Column blocks may take hours without a collective, and no timeout of the group
applies to them. Instead, each rank shows a sign of life every few seconds; one
that shows none, or makes no progress, is named.
"""

import contextlib
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch.distributed as dist
from dgl import DGLError
from dgl.base import DGLWarning

from .group import Ranks, as_json, this_host
from .store_requests import StoreLost, StoreRequests

#: Seconds between two signs of life.
BEAT_SECONDS = 2.0
#: Seconds without a sign of life after which a rank counts as dead.
SILENT_SECONDS = 60.0
#: Seconds after which a rank that has not made the call is mentioned.
LATE_SECONDS = 30.0
#: Seconds for which a rank that failed waits for others to read why.
_FAREWELL_SECONDS = 5.0
#: Characters of an error that others show.
_SHOWN = 500


class RankFailed(DGLError):
    """Another rank failed, or shows no sign of life."""


class RankCall:
    """A call that all ranks make together. Use it as a context manager.

    Attributes
    ----------
    ranks : Ranks
        Who makes the call.
    hosts : list of str
        The machine of each rank.

    Parameters
    ----------
    ranks : Ranks
        Who makes the call.
    name : str
        The function that was called, for messages.
    """

    def __init__(self, ranks: Ranks, name: str):
        self.ranks, self.name = ranks, name
        self.hosts: list[str] = []
        number = ranks.next_call()
        self._store = StoreRequests(
            dist.PrefixStore(f"dgl_lc/{number}", ranks.calls_store),
            SILENT_SECONDS,
        )
        self._steps = 0
        self._progress = self._number = 0
        self._stage, self._watched = "beginning", True
        self._ended = threading.Event()
        self._beats = threading.Thread(
            target=self._beat, name="dgl-lc life", daemon=True
        )

    def __enter__(self) -> "RankCall":
        self._show_life()
        self._beats.start()
        try:
            self.hosts = self.gather(this_host())
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                # The store may be in one of the processes: none leaves early.
                self.barrier("end")
            else:
                self._tell(error)
        finally:
            self._ended.set()
            self._store.close()
            self._beats.join(_FAREWELL_SECONDS)

    # What others see of this rank

    def stage(self, text: str, watched: bool = True) -> None:
        """Say what this rank does now.

        A rank that makes no progress for too long counts as hanging, unless
        it is not ``watched``.
        """
        self._stage, self._watched = text, watched
        self.progress()
        with contextlib.suppress(Exception):
            self._show_life()

    def progress(self, amount: int = 1) -> None:
        """Say that this rank got on."""
        self._progress += amount

    @property
    def done(self) -> int:
        """What this rank has said by :meth:`progress`."""
        return self._progress

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._number += 1
            # The group may be gone when the process ends.
            with contextlib.suppress(Exception):
                self._show_life()

    def _show_life(self) -> None:
        number = self._number
        sign = {
            "beat": number,
            "progress": self._progress,
            "stage": self._stage,
            "watched": self._watched,
        }
        self._store.set(f"life/{self.ranks.rank}", as_json(sign))

    def _tell(self, error: BaseException) -> None:
        """Tell the other ranks why this one stops."""
        if isinstance(error, RankFailed):
            with contextlib.suppress(Exception):
                self._store.add("read", 1)
            return
        text = str(error).strip() or type(error).__name__
        if not isinstance(error, DGLError):
            text = f"{type(error).__name__}: {text}"
        with contextlib.suppress(Exception):
            rank = self.ranks.rank
            self._store.set(f"error/{rank}", text[:_SHOWN])
            self._store.add(f"failed/{rank}", 1)
            self._store.add("failed", 1)
            end = time.monotonic() + _FAREWELL_SECONDS
            while time.monotonic() < end:
                others = self._count("read") + self._count("failed")
                if others >= self.ranks.size:
                    break
                time.sleep(0.02)

    # What this rank sees of others

    def gather(self, value: Any) -> list[Any]:
        """Exchange a JSON value; give those of all ranks, in order."""
        self._steps += 1
        step, own = self._steps, self.ranks.rank
        with self._answered():
            self._store.set(f"{step}/{own}", as_json(value))
            self._store.add(f"{step}/{own}/there", 1)
            self._store.add(f"{step}/there", 1)

        def find_missing() -> list[int]:
            return [
                rank
                for rank in range(self.ranks.size)
                if not self._count(f"{step}/{rank}/there")
            ]

        watch, pause = _Watch(self), 0.001
        while self._count(f"{step}/there") < self.ranks.size:
            watch.look(find_missing, began=step > 1)
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)
        return [
            json.loads(self._get(f"{step}/{rank}"))
            for rank in range(self.ranks.size)
        ]

    def barrier(self, stage: str) -> None:
        """Wait until all ranks are here."""
        self.stage(f"waiting for the other ranks ({stage})", watched=False)
        found = self.gather(stage)
        if set(found) != {stage}:
            raise DGLError(
                f"{self.name}: ranks are at different places, {found}. This "
                f"is a defect of dgl-lc: please report it."
            )

    def agree(self, values: dict[str, Any]) -> None:
        """Refuse values that differ between ranks, on all ranks."""
        mine = {"call": self.name, **values}
        found = self.gather(mine)
        names = {name: None for own in [mine, *found] for name in own}
        for name in names:
            texts = [as_json(own.get(name)) for own in found]
            other = next((i for i, t in enumerate(texts) if t != texts[0]), 0)
            if other:
                raise DGLError(
                    f"{self.name}: {name} is {_short(texts[0])} on rank 0 and "
                    f"{_short(texts[other])} on rank {other}. All ranks have "
                    f"to make the same call with the same data."
                )

    def claim(self, name: str, count: int) -> Iterator[int]:
        """Give numbers below ``count``, each to one rank only."""
        while True:
            self.check_others()
            with self._answered():
                number = self._store.add(f"claim/{name}", 1) - 1
            if number >= count:
                return
            yield number

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Wait for what all ranks do together, and notice ranks that fail."""
        watch = _Watch(self)
        others = [r for r in range(self.ranks.size) if r != self.ranks.rank]
        pause = 1e-5
        while not is_done():
            if pause > 0.01:
                # The store is asked only if it takes a while.
                watch.look(lambda: others, began=True)
            time.sleep(pause)
            pause = min(0.05, 1.5 * pause)

    def find_silent(self) -> list[int]:
        """Listen for a few beats; list ranks without a sign of life.

        An error that another rank has reported by then is raised instead.
        """
        others = [r for r in range(self.ranks.size) if r != self.ranks.rank]
        before = {rank: self.sign_of(rank)["beat"] for rank in others}
        end = time.monotonic() + 3 * BEAT_SECONDS
        while time.monotonic() < end:
            self.check_others()
            time.sleep(0.05)
        return [r for r in others if self.sign_of(r)["beat"] == before[r]]

    def tell(self, name: str, value: Any) -> None:
        """Let other ranks ask for a JSON value by a name."""
        with self._answered():
            self._store.set(f"told/{name}", as_json(value))
            self._store.add(f"told/{name}/there", 1)

    def ask(self, name: str, rank: int) -> Any:
        """Wait for a value that a rank tells by a name."""
        watch, pause = _Watch(self), 0.001
        while not self._count(f"told/{name}/there"):
            watch.look(lambda: [rank], began=True)
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)
        return json.loads(self._get(f"told/{name}"))

    def check_others(self) -> None:
        """Raise an error if another rank has failed."""
        if not self._count("failed"):
            return
        for rank in range(self.ranks.size):
            if rank != self.ranks.rank and self._count(f"failed/{rank}"):
                raise RankFailed(
                    f"{self.name} failed on rank {rank}: "
                    f"{self._get(f'error/{rank}')}"
                )

    def sign_of(self, rank: int) -> dict[str, Any]:
        """Read the last sign of life of a rank that has made the call."""
        return json.loads(self._get(f"life/{rank}"))

    def has_begun(self, rank: int) -> bool:
        """Tell whether a rank has made the call."""
        return self._count(f"1/{rank}/there") > 0

    @property
    def timeout(self) -> float:
        """Seconds without progress after which a rank counts as hanging."""
        store: Any = self.ranks.store
        return store.timeout.total_seconds()

    def _count(self, key: str) -> int:
        with self._answered():
            return self._store.count(key)

    def _get(self, key: str) -> str:
        with self._answered():
            return self._store.get(key)

    @contextlib.contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except StoreLost as error:
            raise RankFailed(
                f"{self.name}: the store of the process group cannot be "
                f"reached ({error}). The rank or the agent that keeps it has "
                f"ended, or the network is down. Start the ranks again; what "
                f"was finished on disk is kept."
            ) from error


class _Watch:
    """Notices ranks that do not come, die or hang while one waits."""

    def __init__(self, call: RankCall):
        self._call = call
        self._began = self._looked = time.monotonic()
        #: By rank: a sign of life, and when it was seen first.
        self._beats: dict[int, tuple[int, float]] = {}
        self._steps: dict[int, tuple[Any, float]] = {}
        self._mentioned = False

    def look(self, find_missing: Callable[[], list[int]], began: bool) -> None:
        """Raise an error if one of these ranks will not come.

        They are found only if it is time to look. ``began`` says that they
        all have made the call.
        """
        call, now = self._call, time.monotonic()
        call.check_others()
        if now - self._looked < BEAT_SECONDS / 2:
            return
        self._looked = now
        for rank in find_missing():
            if not began and not call.has_begun(rank):
                self._not_begun(rank, now)
                continue
            sign = call.sign_of(rank)
            _, seen = self._beats.setdefault(rank, (sign["beat"], now))
            if self._beats[rank][0] != sign["beat"]:
                self._beats[rank] = (sign["beat"], now)
            elif now - seen > SILENT_SECONDS:
                raise self._gone(rank, "shows no sign of life", now - seen)
            step = (sign["progress"], sign["stage"])
            _, seen = self._steps.setdefault(rank, (step, now))
            if self._steps[rank][0] != step:
                self._steps[rank] = (step, now)
            elif now - seen > call.timeout and sign["watched"]:
                raise self._gone(rank, "makes no progress", now - seen)

    def _not_begun(self, rank: int, now: float) -> None:
        call, waited = self._call, now - self._began
        if waited > call.timeout:
            raise RankFailed(
                f"{call.name}: rank {rank} has not made the call in "
                f"{waited:.0f} s. All ranks of the group have to make it; "
                f"process_group=False computes on one rank alone."
            )
        if waited > LATE_SECONDS and not self._mentioned:
            self._mentioned = True
            warnings.warn(
                f"{call.name} waits for rank {rank}, which has not made the "
                f"call yet. All ranks of the group have to make it; "
                f"process_group=False computes on one rank alone.",
                DGLWarning,
                stacklevel=6,
            )

    def _gone(self, rank: int, what: str, seconds: float) -> RankFailed:
        call = self._call
        host = call.hosts[rank] if call.hosts else "unknown host"
        stage = call.sign_of(rank)["stage"]
        return RankFailed(
            f"{call.name}: rank {rank} ({host}) {what} for {seconds:.0f} s; "
            f"its last stage was: {stage}. Start the ranks again (torchrun "
            f"--max-restarts=3 does so by itself); what was finished on disk "
            f"is kept."
        )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
