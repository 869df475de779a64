"""Row shards: each rank ends with some rows of all hops and columns.

Rank R of P has the rows asked for at places R, R + P, R + 2P, …, so that
training, validation and test nodes are spread evenly. All ranks compute a
column block, and then exchange what each of them needs of it. The features
are read by every rank itself.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from dgl import DGLError

from ..._common.rows import copy_rows, empty
from ...hops import HopFeatures
from ...ranks.call import RankCall
from ...ranks.collectives import Collectives
from ...storage.folder import is_whole
from ...storage.hop_store import find_store, open_hop_store
from ...storage.write_hops import StoreWriter
from ..overflow import OverflowCheck
from ..request import Request
from .layout import RankLayout

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


class RowTarget(Protocol):
    """Where the rows of this rank go.

    Attributes
    ----------
    done : int
        Columns that it has, from an earlier run.
    """

    @property
    def done(self) -> int: ...

    def block(self, last: int) -> contextlib.AbstractContextManager[None]:
        """Take columns up to ``last`` within."""

    def keep(self, hop: int, first: int, rows: torch.Tensor) -> None:
        """Take columns of a hop, from ``first`` on."""


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


class MemoryRows:
    """Rows of this rank in memory."""

    def __init__(
        self, request: Request, places: torch.Tensor, shard: tuple[int, int]
    ):
        self._request, self._shard = request, shard
        nodes = request.nodes
        self.nodes = places if nodes is None else nodes[places]
        self.done = 0
        self._hops = {
            hop: empty(len(places), request.num_feats, request.dtype)
            for hop in request.kept
        }

    @contextlib.contextmanager
    def block(self, last: int) -> Iterator[None]:
        yield
        self.done = last

    def keep(self, hop: int, first: int, rows: torch.Tensor) -> None:
        own = self._hops[hop][:, first : first + rows.shape[1]]
        copy_rows(rows, None, own)

    def __enter__(self) -> "MemoryRows":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def finish(self) -> HopFeatures:
        """Give the hop features."""
        request = self._request
        found = HopFeatures(
            list(self._hops.values()), request.kept,
            replace(request.spec, graph=request.counts()), self.nodes,
        )  # fmt: skip
        found.shard = self._shard
        return found


class StoredRows:
    """Rows of this rank in a store of its own. It is a context manager."""

    def __init__(
        self,
        request: Request,
        places: torch.Tensor,
        folder: Path,
        shard: tuple[int, int],
        resume: bool,
    ):
        self._request, self.folder = request, folder
        nodes = request.nodes
        self.nodes = places if nodes is None else nodes[places]
        head = request.store_head()
        self._resume = resume
        self._head = head = replace(
            head, rows=len(places), some_nodes=True,
            made_from=head.made_from | {"shard": list(shard)},
        )  # fmt: skip
        self._writer = StoreWriter(folder, head, self.nodes, resume)

    def __enter__(self) -> "StoredRows":
        self._writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    @property
    def done(self) -> int:
        writer = self._writer
        return writer.shape[2] if writer.finished else writer.done

    @contextlib.contextmanager
    def block(self, last: int) -> Iterator[None]:
        if last <= self.done:
            # Others lack these columns; this rank only helps.
            yield
            return
        with self._writer.block(last):
            yield

    def keep(self, hop: int, first: int, rows: torch.Tensor) -> None:
        known = max(0, self.done - first)
        if known < rows.shape[1]:
            self._writer.keep(hop, first + known, rows[:, known:], None)

    def finish(self) -> HopFeatures:
        """Make the store whole and open it."""
        if not self._writer.finished:
            self._writer.finish(self._request.counts())
        return self.open()

    def is_finished(self) -> bool:
        """Tell whether an earlier call has made this store."""
        if not self._resume or not is_whole(self.folder):
            StoreWriter.check(self.folder)
            return False
        return find_store(self.folder, self._head) is not None

    def open(self) -> HopFeatures:
        """Open the store, when it is whole."""
        return open_hop_store(self.folder)


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
        self._own = shard_places(request.kept_rows, call.ranks.rank, size)
        # Rows that this rank computes for each rank, and where these are in
        # the shard of that rank.
        if held is None:
            held = torch.arange(request.kept_rows)
        self._sent = [
            (held % size == rank).nonzero().squeeze(1) for rank in range(size)
        ]
        self._received = self._receive_places(held)
        self._units: list[tuple[int, int] | None] = []
        self._staged: dict[int, torch.Tensor] = {}
        self.first = self.last = self.done = 0

    @property
    def payload_bytes(self) -> int:
        """Bytes that were handed to collectives for other ranks."""
        return self._collectives.payload_bytes

    def _receive_places(self, held: torch.Tensor) -> list[torch.Tensor]:
        """Learn which rows of this rank's shard each rank computes."""
        size = self._call.ranks.size
        if self._layout.edges == 1:
            return [torch.arange(len(self._own))] * size
        return _exchange_lists(
            self._collectives,
            [(held[chosen] // size) for chosen in self._sent],
        )

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
        own_width = widths[ranks.rank]
        blocks = self._blocks(widths)
        step = max(
            1, PIECE_BYTES // (max(widths) * dtype.itemsize * ranks.size)
        )
        most = -(-self._request.kept_rows // ranks.size)
        self._collectives.begin(
            f"exchanging hop {hop} of columns {self._span()}"
        )
        for low in range(0, most, step):
            sent = [chosen[low : low + step] for chosen in self._sent]
            received = [own[low : low + step] for own in self._received]
            pieces = [
                self._pick(values, places, chosen, own_width) for chosen in sent
            ]
            found = self._swap(pieces, [
                (len(own), width)
                for own, width in zip(received, widths, strict=True)
            ])  # fmt: skip
            for rank, rows in enumerate(found):
                if rows.numel():
                    blocks[self._layout.group(rank)][received[rank]] = rows
        for group, block in enumerate(blocks):
            unit = self._units[self._layout.members(group)[0]]
            if unit is not None:
                self._target.keep(hop, unit[0], block)

    def _blocks(self, widths: list[int]) -> list[torch.Tensor]:
        """Make room for this rank's rows of each group's columns."""
        leaders = (
            self._layout.members(group)[0]
            for group in range(self._layout.columns)
        )
        dtype, rows = self._request.dtype, len(self._own)
        return [torch.empty(rows, widths[rank], dtype=dtype)
                for rank in leaders]  # fmt: skip

    def _span(self) -> str:
        known = [unit for unit in self._units if unit is not None]
        return f"{known[0][0]} to {known[-1][1]}"

    def _pick(
        self,
        values: torch.Tensor | None,
        places: torch.Tensor | None,
        chosen: torch.Tensor,
        width: int,
    ) -> torch.Tensor:
        if values is None:
            return torch.empty(0, width, dtype=self._request.dtype)
        at = chosen if places is None else places[chosen].long()
        return values.index_select(0, at)

    def _swap(
        self, pieces: list[torch.Tensor], shapes: list[tuple[int, int]]
    ) -> list[torch.Tensor]:
        """Send each rank a matrix; give those of these shapes that come."""
        own, dtype = self._call.ranks.rank, self._request.dtype
        others = [
            piece if rank != own else piece[:0]
            for rank, piece in enumerate(pieces)
        ]
        sent = torch.cat([piece.reshape(-1) for piece in others])
        sizes = [
            0 if rank == own else rows * width * dtype.itemsize
            for rank, (rows, width) in enumerate(shapes)
        ]
        received = torch.empty(sum(sizes), dtype=torch.uint8)
        self._collectives.all_to_all(
            sent.view(torch.uint8), [piece.nbytes for piece in others],
            received, sizes,
        )  # fmt: skip
        parts = received.split(sizes)
        return [
            pieces[own]
            if rank == own
            else part.view(dtype).view(-1, max(1, width))
            for rank, (part, (_, width)) in enumerate(
                zip(parts, shapes, strict=True)
            )
        ]


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


def exchange_bytes(rows: int, width: int, itemsize: int, size: int) -> int:
    """Count what exchanging a column block takes, beside the result.

    ``rows`` are those that were asked for. Places of rows, the block of each
    group, and pieces that are picked, joined, received and placed.
    """
    share = -(-rows // size)
    return (
        3 * 8 * rows
        + 8 * share
        + size * share * width * itemsize
        + 4 * max(PIECE_BYTES, size * width * itemsize)
    )
