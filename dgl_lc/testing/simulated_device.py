"""A device that is as unkind as a real one may be.

Streams are queues: nothing runs until the host waits, and then in a random
order that the waits allow. Memory has a hard end and holds NaN and negative
ids until something is written. A wait that is missing in the pipeline so
gives wrong numbers, or ids that are caught.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..precompute.device import csr_spmm
from ..precompute.device.hubs import hub_tails
from ..precompute.device.memory_errors import OutOfMemoryError
from ..precompute.planning.device import DeviceSizes

_ROUND = 512


@dataclass
class Stream:
    """Work that was given and how much of it is done."""

    queue: list = field(default_factory=list)
    done: int = 0


@dataclass(frozen=True)
class Event:
    """Done when its stream has done as much."""

    stream: Stream
    place: int

    @property
    def reached(self) -> bool:
        return self.stream.done >= self.place


class SimulatedDevice:
    """Real numbers, simulated time.

    Parameters
    ----------
    total : int
        Bytes of memory.
    seed : int
        Of the order in which things happen.
    fuses : bool
        Whether the product takes the diagonals.
    fail_at : int, optional
        The number of the allocation, from 1, that fails.
    claimed : int, optional
        Bytes that it says are free, where that is a lie.
    sizes : DeviceSizes, optional
        Those that the work is planned with.

    Attributes
    ----------
    peak : int
        The most bytes in use at a time, workspace of products included.
    bytes_in, bytes_out : int
        Copied to and from the device.
    log : list of tuple
        All calls, with streams and events by number.
    """

    name = "simulated"

    def __init__(
        self,
        total: int,
        seed: int = 0,
        fuses: bool = False,
        fail_at: int | None = None,
        claimed: int | None = None,
        sizes: DeviceSizes | None = None,
    ):
        self.sizes = sizes or DeviceSizes()
        self.total, self.claimed, self.fuses = total, claimed, fuses
        self.fail_at = fail_at
        self.used = self.peak = self.allocations = 0
        self.bytes_in = self.bytes_out = 0
        self.log: list[tuple] = []
        self._streams: list[Stream] = []
        self._events = 0
        self._numbers: dict[int, int] = {}
        self._random = random.Random(seed)
        self._arenas: list[torch.Tensor] = []

    # Memory

    def memory(self) -> tuple[int, int]:
        free = self.total - self.used
        return (free if self.claimed is None else self.claimed), self.total

    def empty(self, size: int) -> torch.Tensor:
        self._allocate(size)
        self.log.append(("empty", size))
        # All bits set: NaN as a float, -1 as an id.
        arena = torch.full((size,), 255, dtype=torch.uint8)
        self._arenas.append(arena)
        return arena

    def pinned(self, size: int) -> torch.Tensor:
        return torch.full((size,), 255, dtype=torch.uint8)

    def release(self) -> None:
        """All memory is given back: it holds nonsense from now on."""
        for stream in self._streams:
            stream.queue.clear()
            stream.done = 0
        for arena in self._arenas:
            if arena.untyped_storage().nbytes():
                arena.fill_(255)
        self._arenas.clear()
        self.used = 0

    def _allocate(self, size: int, keep: bool = True) -> None:
        self.allocations += 1
        size = -(-size // _ROUND) * _ROUND
        if self.allocations == self.fail_at or self.used + size > self.total:
            raise OutOfMemoryError(
                f"simulated: {self.used} bytes in use, {size} more asked for, "
                f"{self.total} there"
            )
        self.peak = max(self.peak, self.used + size)
        self.used += size * keep

    # Streams

    def stream(self) -> Stream:
        stream = Stream()
        self._numbers[id(stream)] = len(self._streams)
        self._streams.append(stream)
        self.log.append(("stream", self._numbers[id(stream)]))
        return stream

    def record(self, stream: Stream) -> Event:
        event = Event(stream, len(stream.queue))
        self.log.append(("record", self._numbers[id(stream)]))
        return event

    def wait(self, stream: Stream, event: Event) -> None:
        other = self._numbers[id(event.stream)]
        self.log.append(("wait", self._numbers[id(stream)], other))
        stream.queue.append(event)

    def sync(self, event: Event | None = None) -> None:
        """Do what has to be done, and by chance some of the rest."""
        self.log.append(("sync", event is not None))

        def reached() -> bool:
            if event is not None:
                return event.reached
            return all(s.done == len(s.queue) for s in self._streams)

        while not reached():
            ready = [s for s in self._streams if self._is_ready(s)]
            if not ready:
                raise RuntimeError("every stream waits for another one")
            stream = self._random.choice(ready)
            task = stream.queue[stream.done]
            stream.queue[stream.done] = None
            stream.done += 1
            if not isinstance(task, Event):
                task()

    @staticmethod
    def _is_ready(stream: Stream) -> bool:
        if stream.done == len(stream.queue):
            return False
        task = stream.queue[stream.done]
        return not isinstance(task, Event) or task.reached

    # Work

    def copy_in(
        self, stream: Stream, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        self.bytes_in += source.nbytes
        self._give(stream, "in", source.nbytes, lambda: target.copy_(source))

    def copy_out(
        self, stream: Stream, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        self.bytes_out += source.nbytes
        self._give(stream, "out", source.nbytes, lambda: target.copy_(source))

    def launch(self, stream: Stream, work: Callable[[], Any]) -> None:
        self._give(stream, "launch", 0, work)

    def spmm_add(
        self,
        stream: Stream,
        out: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
        x: torch.Tensor,
        **fused: Any,
    ) -> None:
        if not self.fuses:
            needed = self.sizes.workspace(len(indices), len(out))
            self._allocate(needed, keep=False)

        def work() -> None:
            counts = indptr.diff()
            sound = indptr[0] == 0 and indptr[-1] == len(indices)
            if not sound or (counts < 0).any():
                raise RuntimeError("rows of a block were changed while read")
            outside = (indices < 0) | (indices >= len(x))
            if outside.any():
                raise RuntimeError("ids of a block were changed while read")
            if not self.fuses:
                csr_spmm.spmm_add(out, indptr, indices, values, x)
                return
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            if not torch.equal(
                fused["tails"], hub_tails(indptr, self.sizes.longest)
            ):
                raise RuntimeError("tails of a block were changed while read")
            fused["scratch"].fill_(float("nan"))
            if fused["right"] is not None:
                wide = wide * fused["right"].unsqueeze(1)
            ones = values.to(wide.dtype)
            if len(ones) == 0:
                ones = wide.new_ones(len(indices))
            total = torch.zeros(out.shape, dtype=wide.dtype)
            csr_spmm.spmm_add(total, indptr, indices, ones, wide)
            if fused["left"] is not None:
                total *= fused["left"].unsqueeze(1)
            out.copy_(out + total)

        self._give(stream, "launch", 0, work)

    def _give(
        self, stream: Stream, name: str, size: int, work: Callable
    ) -> None:
        self.log.append((name, self._numbers[id(stream)], size))
        stream.queue.append(work)
