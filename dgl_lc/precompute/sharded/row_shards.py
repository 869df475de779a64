"""Row shards: each rank ends with some rows of all hops and columns.

Rank R of P has the rows asked for at places R, R + P, R + 2P, …, so that
training, validation and test nodes are spread evenly. All ranks compute a
column block, and then exchange what each of them needs of it. The features
are read by every rank itself.
"""

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import torch
from dgl import DGLError

from ..._common.rows import copy_rows, empty
from ...hops import HopFeatures
from ...ranks.call import RankCall
from ...ranks.collectives import Collectives
from ..overflow import OverflowCheck
from ..request import Request
from .layout import RankLayout
from .row_targets import RowTarget

#: Bytes that a rank sends at a time, and as many that it receives.
PIECE_BYTES = 1 << 22


def shard_places(rows: int, rank: int, size: int) -> torch.Tensor:
    """Give the places of a rank's rows among those that were asked for."""
    return torch.arange(rank, rows, size)


def check_rows(rows: int, size: int) -> None:
    """Refuse fewer rows than ranks."""
    if rows < size:
        raise DGLError(
            f"{rows} rows can't be shared by {size} ranks: start fewer ranks, "
            f"or give out= with a folder that all ranks see."
        )


class NoRows:
    """A sink for columns of which this rank keeps nothing."""

    def __init__(self, first: int, last: int):
        self.first, self.last, self.done = first, last, first

    @contextlib.contextmanager
    def columns(self, first: int, last: int) -> Iterator[None]:
        yield
        self.done = last

    def finished(self) -> HopFeatures | None:
        return None

    def __enter__(self) -> "NoRows":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def target(self, hop: int) -> torch.Tensor | None:
        return None

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        pass

    def keep_features(self) -> None:
        pass

    def write(self, hop: int, low: int, rows: torch.Tensor) -> None:
        pass

    def finish(self) -> HopFeatures:
        raise NotImplementedError("nothing was kept")


class RowShardSink:
    """Exchanges the columns that ranks have computed, one turn at a time.

    It is the sink of this rank's executor. A turn is a unit of columns for
    each group of ranks (:class:`.layout.RankLayout`).

    Parameters
    ----------
    held : int64 tensor or None
        The places, among the rows asked for, that this rank computes,
        ascending; None for all.
    """

    def __init__(
        self,
        call: RankCall,
        request: Request,
        layout: RankLayout,
        target: RowTarget,
        held: torch.Tensor | None = None,
    ):
        self._call, self._request, self._layout = call, request, layout
        self._target = target
        self._collectives = Collectives(call)
        self._overflow = OverflowCheck(request)
        size = call.ranks.size
        self._num_rows = len(
            shard_places(request.kept_rows, call.ranks.rank, size)
        )
        # Of some rows: those that this rank computes for each rank, and where
        # in this rank's shard those are that each rank computes.
        self._sent: list[torch.Tensor] | None = None
        self._received: list[torch.Tensor] | None = None
        if held is not None:
            self._sent = [
                (held % size == rank).nonzero().squeeze(1)
                for rank in range(size)
            ]
            self._received = _exchange_lists(
                self._collectives,
                [(held[chosen] // size) for chosen in self._sent],
            )
        self._units: list[tuple[int, int] | None] = []
        self._staged: dict[int, torch.Tensor] = {}
        self.first = self.last = self.done = 0

    @property
    def payload_bytes(self) -> int:
        """Bytes that were handed to collectives for other ranks."""
        return self._collectives.payload_bytes

    def begin(self, units: Sequence[tuple[int, int] | None]) -> None:
        """Begin a turn: the columns of each rank, None for nothing."""
        self._units, self._staged = list(units), {}
        own = self._units[self._call.ranks.rank]
        self.first, self.last = own or (0, 0)
        self.done = self.first

    def end(self) -> None:
        """End a turn: exchange what was collected or what others have."""
        for hop in self._request.kept:
            if hop > 0 and (self.first == self.last or hop in self._staged):
                self._exchange(hop, self._staged.get(hop), None)
        self._staged = {}

    # As a sink

    def finished(self) -> HopFeatures | None:
        return None

    def __enter__(self) -> "RowShardSink":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    @contextlib.contextmanager
    def columns(self, first: int, last: int) -> Iterator[None]:
        self._columns = (first, last)
        yield
        self.done = last

    def target(self, hop: int) -> torch.Tensor | None:
        return None

    def keep(
        self, hop: int, values: torch.Tensor, places: torch.Tensor | None
    ) -> None:
        first, last = self._columns
        self._overflow.check(hop, 0, values, places, first, last)
        if hop == 0:
            # Every rank reads the features of its own rows.
            return
        if (first, last) == (self.first, self.last):
            self._exchange(hop, values, places)
            return
        rows = len(values) if places is None else len(places)
        own = self._stage(hop, rows)[:, first - self.first : last - self.first]
        copy_rows(values, places, own)

    def keep_features(self) -> None:
        pass

    def write(self, hop: int, low: int, rows: torch.Tensor) -> None:
        first, last = self._columns
        if hop > 0:
            own = self._stage(hop, self._request.kept_rows)
            copy_rows(
                rows, None,
                own[low : low + len(rows), first - self.first :
                    last - self.first],
            )  # fmt: skip

    def finish(self) -> HopFeatures:
        raise NotImplementedError("the target has the rows")

    def _stage(self, hop: int, rows: int) -> torch.Tensor:
        if hop not in self._staged:
            width = self.last - self.first
            self._staged[hop] = empty(rows, width, self._request.dtype)
        return self._staged[hop]

    # Exchanging

    def _exchange(
        self,
        hop: int,
        values: torch.Tensor | None,
        places: torch.Tensor | None,
    ) -> None:
        """Exchange a hop of this turn's columns, in pieces of rows."""
        ranks, dtype = self._call.ranks, self._request.dtype
        widths = [0 if unit is None else unit[1] - unit[0]
                  for unit in self._units]  # fmt: skip
        step = max(
            1, PIECE_BYTES // (max(widths) * dtype.itemsize * ranks.size)
        )
        self._collectives.begin(
            f"exchanging hop {hop} of columns {self._span()}"
        )
        with contextlib.ExitStack() as stack:
            # This rank's rows of the columns of each group of ranks.
            blocks = [
                stack.enter_context(self._target.columns(hop, *unit))
                for group in range(self._layout.columns)
                if (unit := self._units[self._layout.members(group)[0]])
            ]
            most = -(-self._request.kept_rows // ranks.size)
            for low in range(0, most, step):
                part = slice(low, min(low + step, most))
                found = self._swap(values, places, part, widths)
                for rank, rows in enumerate(found):
                    if rows.numel():
                        block = blocks[self._layout.group(rank)]
                        block[self._places_from(rank, part)] = rows

    def _span(self) -> str:
        known = [unit for unit in self._units if unit is not None]
        return f"{known[0][0]} to {known[-1][1]}"

    def _places_from(self, rank: int, part: slice) -> slice | torch.Tensor:
        """Tell which rows of this rank's shard come from a rank."""
        return part if self._received is None else self._received[rank][part]

    def _rows_for(
        self,
        rank: int,
        part: slice,
        values: torch.Tensor | None,
        places: torch.Tensor | None,
    ) -> torch.Tensor:
        """Give rows that this rank has computed for a rank."""
        if values is None:
            width = self.last - self.first
            return torch.empty(0, width, dtype=self._request.dtype)
        size = self._call.ranks.size
        at: slice | torch.Tensor
        if self._sent is None:
            at = slice(rank + part.start * size, rank + part.stop * size, size)
        else:
            at = self._sent[rank][part]
        if places is not None:
            at = places[at].long()
        return (
            values[at] if isinstance(at, slice) else values.index_select(0, at)
        )

    def _swap(
        self,
        values: torch.Tensor | None,
        places: torch.Tensor | None,
        part: slice,
        widths: list[int],
    ) -> list[torch.Tensor]:
        """Send a part of their rows to all ranks; give those that come."""
        own, size = self._call.ranks.rank, self._call.ranks.size
        dtype = self._request.dtype
        rows = [
            self._rows_for(rank, part, values, places) for rank in range(size)
        ]
        lengths = [0 if rank == own else rows[rank].numel()
                   for rank in range(size)]  # fmt: skip
        sent = torch.empty(sum(lengths), dtype=dtype)
        for rank, room in enumerate(sent.split(lengths)):
            if rank != own:
                room.view(rows[rank].shape).copy_(rows[rank])
        counts = [
            0 if rank == own else widths[rank] * self._count_from(rank, part)
            for rank in range(size)
        ]
        received = torch.empty(sum(counts), dtype=dtype)
        self._collectives.all_to_all(
            sent.view(torch.uint8), [n * dtype.itemsize for n in lengths],
            received.view(torch.uint8), [n * dtype.itemsize for n in counts],
        )  # fmt: skip
        return [
            rows[own] if rank == own else come.view(-1, max(1, widths[rank]))
            for rank, come in enumerate(received.split(counts))
        ]

    def _count_from(self, rank: int, part: slice) -> int:
        """Count the rows that come from a rank."""
        if self._received is not None:
            return len(self._received[rank][part])
        return len(range(self._num_rows)[part])


def _exchange_lists(
    collectives: Collectives, sent: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Send each rank a list of integers; give those that come."""
    own = collectives.ranks.rank
    lengths = collectives.call.gather([len(part) for part in sent])
    sizes = [
        0 if rank == own else 8 * lengths[rank][own]
        for rank in range(len(sent))
    ]
    others = [
        part if rank != own else part[:0] for rank, part in enumerate(sent)
    ]
    received = torch.empty(sum(sizes), dtype=torch.uint8)
    collectives.begin("exchanging places of rows")
    collectives.all_to_all(
        torch.cat(others).view(torch.uint8), [part.nbytes for part in others],
        received, sizes,
    )  # fmt: skip
    parts = received.split(sizes)
    return [
        sent[own] if rank == own else part.view(torch.int64)
        for rank, part in enumerate(parts)
    ]


def exchange_bytes(
    rows: int, width: int, itemsize: int, size: int, stored: bool
) -> int:
    """Count what exchanging a column block takes, beside the result.

    ``rows`` are those that were asked for. Places of rows, pieces that are
    picked, sent, received and placed, and, where rows are ``stored``, the
    block of each group; in memory they are placed in the result.
    """
    share = -(-rows // size)
    return (
        3 * 8 * rows
        + 8 * share
        + stored * size * share * width * itemsize
        + 4 * max(PIECE_BYTES, size * width * itemsize)
    )
