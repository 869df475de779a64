"""Exchanging the rows of a hop between edge shards.

What is sent is planned once for a call, whatever its column blocks are. Every
rank tells the others how many rows it wants of each (an all-gather of counts),
so that all of them know what everyone sends, and then tells the owners which
rows these are (an all-to-all of int32 ids). For each hop and column block the
owners send just these rows, with an all-to-all. Where nearly all rows are
wanted, sending all of them to everyone, with an all-gather, is fewer bytes
than lists of ids and rows: the fewer bytes of all ranks together decide, and
the numbers are the same.

Rows are sent in pieces, so that the buffers are bounded.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from dgl import DGLError

from ..._common.bytes import zeros
from ..._common.rows import COPY_ROWS, copy_rows
from ...ranks.call import RankCall
from ...ranks.collectives import Collectives
from .edge_shards import EdgeShard

#: Bytes of a buffer to send from, and of one to receive into.
PIECE_BYTES = 1 << 23
#: Bytes of an id, and of a count.
_ID, _COUNT = 4, 8
#: The most rows of an all-gather that one rank gives at a time.
_GATHERED_ROWS = 1 << 16


@dataclass(frozen=True)
class Swap:
    """Who sends how many rows to whom, for hops that are read alike.

    Attributes
    ----------
    wanted : int64 array of shape (ranks, ranks)
        ``wanted[p, q]``: how many rows of rank q rank p reads.
    most_rows : int
        The most rows of the hop that a rank has.
    row_bytes : int
        Bytes of a row of the hop, with all columns.
    hops : int
        How many hops are exchanged like this.
    """

    wanted: np.ndarray
    most_rows: int
    row_bytes: int
    hops: int

    @property
    def gathers(self) -> bool:
        """Whether all rows are sent to everyone, because it is fewer bytes."""
        ranks, once = len(self.wanted), self.hops * self.row_bytes
        everything = ranks * (ranks - 1) * self.most_rows * once
        return everything < int(self.wanted.sum()) * (_ID + once)

    def id_bytes(self, rank: int) -> int:
        """Count the bytes of ids that a rank sends."""
        return 0 if self.gathers else _ID * int(self.wanted[rank].sum())

    def sent_rows(self, rank: int) -> int:
        """Count the rows that a rank sends for one hop."""
        if self.gathers:
            return (len(self.wanted) - 1) * self.most_rows
        return int(self.wanted[:, rank].sum())

    def sent_bytes(self, rank: int, row_bytes: int | None = None) -> int:
        """Count the bytes that a rank sends in all, but for the counts.

        ``row_bytes`` are those of the columns that are computed; None for
        all of them.
        """
        once = self.row_bytes if row_bytes is None else row_bytes
        return self.id_bytes(rank) + self.hops * once * self.sent_rows(rank)


class RowExchange:
    """Brings the foreign rows of an edge shard from the ranks that have them.

    All ranks make it at the same time.

    Parameters
    ----------
    shard : EdgeShard
        This rank's shard: the number of a shard is that of its rank.
    call : RankCall
        The ranks, one for each shard.
    piece_bytes : int
        The most bytes of a buffer to send from or to receive into, the same
        on all ranks. A row for each other rank has to fit, or the buffer is
        as large as these.

    Attributes
    ----------
    swaps : dict of Swap
        For each hop that is exchanged, what is sent.
    """

    def __init__(
        self, shard: EdgeShard, call: RankCall, piece_bytes: int = PIECE_BYTES
    ):
        assert call.ranks.rank == shard.number
        assert call.ranks.size == len(shard.bounds) - 1
        self._shard, self._piece = shard, piece_bytes
        self._rank, self._size = call.ranks.rank, call.ranks.size
        self._collectives = Collectives(call)
        self._rooms: dict[str, torch.Tensor] = {}
        #: By the identity of a list of foreign rows: what others want of it,
        #: as places in the own rows, one rank after the other.
        self._sent: dict[int, np.ndarray] = {}
        self.swaps: dict[int, Swap] = {}
        if not shard.foreign or self._size == 1:
            return
        # Collectives of different sizes would wait for each other forever.
        rows = [own if own is None else len(own) for own in shard.all_rows]
        call.agree(
            {
                "the bounds of the edge shards": shard.bounds.tolist(),
                "the number of rows of each hop": rows,
                "the size of pieces": piece_bytes,
            }
        )
        self._collectives.begin("planning which rows to exchange")
        self._count()
        done: set[int] = set()
        for hop, foreign in shard.foreign.items():
            if id(foreign) not in done and not self.swaps[hop].gathers:
                self._tell_ids(hop)
            done.add(id(foreign))
        self._rooms.clear()

    @property
    def payload_bytes(self) -> int:
        """Bytes handed to collectives for other ranks so far."""
        return self._collectives.payload_bytes

    def planned_bytes(
        self, rank: int | None = None, columns: int | None = None
    ) -> int:
        """Count the payload of a call for a rank; None is this one.

        It is known for every rank when the exchange was planned. It does not
        depend on how the columns are cut, only on how many of them these
        ranks compute; None for all.
        """
        rank = self._rank if rank is None else rank
        swaps = list({id(s): s for s in self.swaps.values()}.values())
        counts = (self._size - 1) * self._size * len(swaps) * _COUNT
        row_bytes = None
        if columns is not None:
            row_bytes = columns * self._shard.request.value_type.itemsize
        return counts + sum(s.sent_bytes(rank, row_bytes) for s in swaps)

    def list_bytes(self) -> int:
        """Count the bytes of the lists of rows that are sent."""
        return sum(places.nbytes for places in self._sent.values())

    # Planning

    def _count(self) -> None:
        """Tell all ranks how many rows this one wants of each."""
        shard, size = self._shard, self._size
        hops: dict[int, list[int]] = {}
        for hop, foreign in shard.foreign.items():
            hops.setdefault(id(foreign), []).append(hop)
        own = np.zeros((len(hops), size), np.int64)
        for place, alike in enumerate(hops.values()):
            own[place] = np.diff(self._starts(alike[0]))
        found = np.zeros((size, *own.shape), np.int64)
        self._collectives.all_gather(_as_bytes(own), _as_bytes(found))
        request = shard.request
        row_bytes = request.num_feats * request.value_type.itemsize
        for place, alike in enumerate(hops.values()):
            rows = max(len(shard.rows_of(alike[0], r)) for r in range(size))
            swap = Swap(found[:, place], rows, row_bytes, len(alike))
            self.swaps |= dict.fromkeys(alike, swap)

    def _starts(self, hop: int) -> np.ndarray:
        """Give where the foreign rows of each rank begin, and their end."""
        foreign = self._shard.foreign[hop]
        bounds = self._shard.bounds.astype(foreign.dtype)
        return np.searchsorted(foreign, bounds)

    def _tell_ids(self, hop: int) -> None:
        """Tell the owners which rows this rank wants; learn what to send."""
        shard, swap = self._shard, self.swaps[hop]
        foreign, rows = shard.foreign[hop], shard.rows[hop]
        asked = swap.wanted[:, self._rank]
        sent = zeros(int(asked.sum()), np.int32)
        ends = np.concatenate([[0], asked.cumsum()])
        starts = self._starts(hop)

        def load(rank: int, low: int, high: int, piece: torch.Tensor) -> None:
            begin = starts[rank]
            own = torch.from_numpy(foreign[begin + low : begin + high])
            piece.view(torch.int32).copy_(own.unsqueeze(1))

        def store(rank: int, low: int, high: int, piece: torch.Tensor) -> None:
            ids = piece.view(torch.int32).squeeze(1).numpy()
            places = np.searchsorted(rows, ids)
            known = len(rows) and rows.take(places, mode="clip")
            if not np.array_equal(known, ids):
                raise DGLError(
                    f"rank {rank} wants rows of hop {hop} that rank "
                    f"{self._rank} does not compute: the ranks do not have "
                    f"the same graph, or nodes."
                )
            sent[ends[rank] + low : ends[rank] + high] = places

        # The other way round: who wants rows sends ids. Finding their places
        # takes 16 times their bytes.
        self._all_to_all(swap.wanted.T, _ID, load, store, self._piece // 16)
        self._sent[id(foreign)] = sent

    # Rows

    def exchange(self, hop: int, values: torch.Tensor, columns: str) -> None:
        """Bring the foreign rows of a hop.

        ``values`` holds the own rows, then room for the foreign ones, both
        in ascending order; ``columns`` names the columns in messages.
        """
        if hop not in self.swaps or not self.swaps[hop].wanted.any():
            return
        self._collectives.begin(f"exchanging rows of hop {hop}, {columns}")
        if self.swaps[hop].gathers:
            self._gather_rows(hop, values)
        else:
            self._send_rows(hop, values)

    def _send_rows(self, hop: int, values: torch.Tensor) -> None:
        shard, swap = self._shard, self.swaps[hop]
        own = len(shard.rows[hop])
        sent = torch.from_numpy(self._sent[id(shard.foreign[hop])])
        asked = swap.wanted[:, self._rank]
        ends = np.concatenate([[0], asked.cumsum()])
        starts = own + self._starts(hop)

        def load(rank: int, low: int, high: int, piece: torch.Tensor) -> None:
            places = sent[ends[rank] + low : ends[rank] + high]
            target = piece.view(values.dtype)
            torch.index_select(values[:own], 0, places, out=target)

        def store(rank: int, low: int, high: int, piece: torch.Tensor) -> None:
            begin = starts[rank]
            values[begin + low : begin + high] = piece.view(values.dtype)

        row_bytes = values.shape[1] * values.element_size()
        self._all_to_all(swap.wanted, row_bytes, load, store, self._piece)

    def _all_to_all(
        self,
        wanted: np.ndarray,
        row_bytes: int,
        load: Callable[[int, int, int, torch.Tensor], None],
        store: Callable[[int, int, int, torch.Tensor], None],
        piece_bytes: int,
    ) -> None:
        """Send rows in pieces: ``wanted[p, q]`` of them from rank q to p.

        ``load`` and ``store`` copy some rows for and from a rank to and from
        a piece of the buffers.
        """
        most = int(wanted.max())
        share = _share(piece_bytes, row_bytes, self._size)
        room = min(share, most) * (self._size - 1) * row_bytes
        sent, received = self._room("sent", room), self._room("received", room)
        for low in range(0, most, share):
            outward = np.clip(wanted[:, self._rank] - low, 0, share)
            inward = np.clip(wanted[self._rank] - low, 0, share)
            for rank, high, piece in _pieces(sent, outward, row_bytes):
                load(rank, low, low + high, piece)
            sizes = [(own * row_bytes).tolist() for own in (outward, inward)]
            self._collectives.all_to_all(
                sent[: sum(sizes[0])], sizes[0],
                received[: sum(sizes[1])], sizes[1],
            )  # fmt: skip
            for rank, high, piece in _pieces(received, inward, row_bytes):
                store(rank, low, low + high, piece)

    def _gather_rows(self, hop: int, values: torch.Tensor) -> None:
        """Send all own rows to everyone, and keep the foreign ones."""
        shard, size = self._shard, self._size
        own, most = len(shard.rows[hop]), self.swaps[hop].most_rows
        row_bytes = values.shape[1] * values.element_size()
        share = _gathered_share(self._piece, row_bytes, size)
        room = min(share, most) * row_bytes
        sent = self._room("sent", room)
        received = self._room("received", size * room)
        for low in range(0, most, share):
            count = min(share, most - low)
            rows = values[min(low, own) : min(low + count, own)]
            part = sent[: count * row_bytes]
            target = part.view(values.dtype).view(count, -1)
            target[: len(rows)] = rows
            everyone = received[: size * count * row_bytes]
            self._collectives.all_gather(part, everyone)
            pieces = everyone.view(values.dtype).view(size, count, -1)
            for rank in range(size):
                if rank != self._rank:
                    self._keep_foreign(hop, rank, low, pieces[rank], values)

    def _keep_foreign(
        self,
        hop: int,
        rank: int,
        low: int,
        piece: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Copy the rows that are read, of a rank's rows from low on."""
        shard = self._shard
        foreign, own = shard.foreign[hop], len(shard.rows[hop])
        rows = shard.rows_of(hop, rank)[low : low + len(piece)]
        if not len(rows):
            return
        ends = np.array([rows[0], rows[-1]], foreign.dtype)
        begin = int(np.searchsorted(foreign, ends[0]))
        end = int(np.searchsorted(foreign, ends[1], "right"))
        ids = foreign[begin:end]
        if isinstance(rows, range):
            places = ids - ends[0]
        else:
            places = np.searchsorted(rows, ids)
        target = values[own + begin : own + end]
        copy_rows(piece, torch.from_numpy(places), target)

    # Buffers

    def _room(self, name: str, size: int) -> torch.Tensor:
        """Give a buffer of bytes; it is kept for later."""
        if name not in self._rooms or len(self._rooms[name]) < size:
            self._rooms.pop(name, None)
            self._rooms[name] = torch.from_numpy(zeros(size, np.uint8))
        return self._rooms[name]


def piece_bytes_of(
    swaps: Iterable[Swap], row_bytes: int, piece_bytes: int
) -> int:
    """Count the bytes of the buffers for rows of so many bytes."""
    rooms = [_room_bytes(swap, row_bytes, piece_bytes) for swap in swaps]
    return sum(max(sizes) for sizes in zip((0, 0, 0), *rooms, strict=True))


def _room_bytes(
    swap: Swap, row_bytes: int, piece_bytes: int
) -> tuple[int, int, int]:
    """Count the bytes of both buffers, and of what a gather takes."""
    size = len(swap.wanted)
    if not swap.gathers:
        share = _share(piece_bytes, row_bytes, size)
        most = min(share, int(swap.wanted.max()))
        room = most * (size - 1) * row_bytes
        return room, room, 0
    share = _gathered_share(piece_bytes, row_bytes, size)
    most = min(share, swap.most_rows)
    # The backend receives into memory of its own first.
    copying = size * most * row_bytes + 8 * most
    copying += min(COPY_ROWS, most) * row_bytes
    return most * row_bytes, size * most * row_bytes, copying


def _share(piece_bytes: int, row_bytes: int, ranks: int) -> int:
    """Count the rows that go to each other rank at a time."""
    return max(1, piece_bytes // (row_bytes * (ranks - 1)))


def _gathered_share(piece_bytes: int, row_bytes: int, ranks: int) -> int:
    """Count the rows that a rank sends to everyone at a time."""
    return min(_GATHERED_ROWS, max(1, piece_bytes // (row_bytes * ranks)))


def _pieces(
    room: torch.Tensor, counts: np.ndarray, row_bytes: int
) -> list[tuple[int, int, torch.Tensor]]:
    """List rank, rows and their bytes, of ranks that have any."""
    found, begin = [], 0
    for rank, count in enumerate(counts.tolist()):
        if count:
            end = begin + count * row_bytes
            piece = room[begin:end].view(count, row_bytes)
            found.append((rank, count, piece))
            begin = end
    return found


def _as_bytes(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.reshape(-1).view(np.uint8))
