"""One hop store of many ranks, in a folder that all of them see.

Each rank writes the column blocks that it has claimed as stores of their own,
in ``parts``. When all are there, each rank puts a range of the rows together,
and rank 0 makes the store whole. A run that was killed finds the parts that
were finished.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from ...graph_counts import GraphCounts
from ...ranks.call import RankCall
from ...ranks.collectives import Collectives
from ...storage.assemble_hops import Part, byte_ranges, rows_of, write_range
from ...storage.folder import is_whole
from ...storage.free_disk import check_free, disk_of
from ...storage.hop_store import StoredHops, StoreHead, open_hop_store
from ...storage.manifest import STATE
from ...storage.part_folders import part_columns, part_folder, remove_parts
from ...storage.write_hops import StoreWriter, disk_bytes
from .layout import RankLayout

#: Seconds for which a rank waits to see what rank 0 has written.
_SEEN_SECONDS = 15.0


class SharedStore:
    """A store that all ranks of a call write. Use it as a context manager.

    Attributes
    ----------
    finished : bool
        Whether it was whole before.

    Parameters
    ----------
    head : StoreHead
        What the store holds.
    nodes : Tensor or None
        The node of each row.
    finished : bool
        Whether rank 0 has found it whole. It is then only read.
    """

    def __init__(
        self,
        call: RankCall,
        folder: Path,
        head: StoreHead,
        nodes: torch.Tensor | None,
        layout: RankLayout,
        resume: bool,
        finished: bool,
    ):
        self._call, self._folder, self._layout = call, folder, layout
        self._head, self._nodes, self._resume = head, nodes, resume
        self._writer: StoreWriter | None = None
        self._stack = contextlib.ExitStack()
        self.finished = finished

    @property
    def _first(self) -> bool:
        return self._call.ranks.rank == 0

    def __enter__(self) -> "SharedStore":
        with self._stack as stack:
            if self._first and not self.finished:
                self._writer = stack.enter_context(
                    StoreWriter(
                        self._folder, self._head, self._nodes, self._resume,
                        by_rows=True,
                    )
                )  # fmt: skip
                self.finished = self._writer.finished
            self.finished = self._call.gather(self.finished)[0]
            self._check_shared()
            if self._first and self.finished:
                # Of ranks that were killed after the manifest was written.
                # On a disk that is read-only they stay.
                with contextlib.suppress(OSError):
                    remove_parts(self._folder)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _check_shared(self) -> None:
        """Refuse a folder that is not the same one for all ranks."""
        first, *_ = self._call.gather(_stamp(self._folder))
        end = time.monotonic() + _SEEN_SECONDS
        while (seen := _stamp(self._folder)) != first:
            if time.monotonic() > end:
                break
            # A file system on a network may show files a little later.
            time.sleep(0.2)
        others = [
            rank
            for rank, same in enumerate(self._call.gather(seen == first))
            if not same
        ]
        if others:
            rank = others[0]
            raise DGLError(
                f"out={str(self._folder)!r} is not one folder for all ranks: "
                f"rank {rank} ({self._call.hosts[rank]}) does not see what "
                f"rank 0 wrote there. Give a folder on a file system that all "
                f"hosts share, or shared=False for a store on each host."
            )

    # Parts

    def known_width(self) -> int | None:
        """Give the width of the columns of parts that exist."""
        found = part_columns(self._folder, self._layout.edges)
        return max((last - first for first, last in found), default=None)

    def part_head(
        self, first: int, last: int, shard: int, rows: int
    ) -> StoreHead:
        """Say what the part of some columns and an edge shard holds."""
        about = {
            "columns": [first, last],
            "rows": [shard, self._layout.edges],
        }
        return replace(
            self._head, rows=rows, columns=last - first, some_nodes=False,
            made_from=self._head.made_from | {"part": about},
        )  # fmt: skip

    def part_folder(self, first: int, last: int, shard: int) -> Path:
        """Give the folder of a part."""
        shards = self._layout.edges
        return part_folder(self._folder, first, last, shard, shards)

    def has_part(self, folder: Path) -> bool:
        """Tell whether a part was finished by an earlier run."""
        return is_whole(folder)

    def missing(
        self, units: list[tuple[int, int]], rows: list[int]
    ) -> list[int]:
        """Give the numbers of the units that are not finished.

        Parts of another cut are deleted, and the disk has to have room for
        those that are missing. ``rows`` are those of each edge shard; one
        without any has no parts.
        """
        found: list[int] = []
        if self._first:
            shards = [shard for shard, count in enumerate(rows) if count]
            wanted = {
                self.part_folder(first, last, shard).name
                for first, last in units
                for shard in shards
            }
            remove_parts(self._folder, lambda name: name not in wanted)
            found = [
                number
                for number, (first, last) in enumerate(units)
                if not all(
                    is_whole(self.part_folder(first, last, shard))
                    for shard in shards
                )
            ]
            self._check_disk(
                sum(units[n][1] - units[n][0] for n in found),
                # What a run that was killed has begun is used again.
                sum(
                    disk_of(self.part_folder(*units[n], shard))
                    for n in found
                    for shard in shards
                ),
            )
        return self._call.gather(found)[0]

    def _check_disk(self, columns: int, begun: int) -> None:
        rows, hops, _ = self._head.shape
        assert self._writer is not None
        size = self._writer.dtype.itemsize
        needed = disk_bytes((rows, hops, columns), size, False)
        needed = max(0, needed - begun)
        check_free(self._folder, needed, "what ranks write beside the store")

    def claims(self, missing: list[int]) -> Iterator[int]:
        """Give units, each to one group of ranks."""
        call, layout = self._call, self._layout
        group = layout.group(call.ranks.rank)
        leads = layout.shard(call.ranks.rank) == 0
        claimed = call.claim("columns", len(missing)) if leads else iter(())
        for turn in range(len(missing) + 1):
            key = f"group-{group}-{turn}"
            if leads:
                number = next(claimed, -1)
                if layout.edges > 1:
                    call.tell(key, number)
            else:
                number = call.ask(key, layout.members(group)[0])
            if number < 0:
                return
            yield missing[number]

    # The whole

    def finish(
        self,
        parts: list[Part],
        counts: GraphCounts | None,
        done: Callable[[int], object] = bool,
    ) -> None:
        """Put the parts together; each rank writes a range of the rows."""
        call, rank = self._call, self._call.ranks.rank
        call.barrier("parts")
        call.stage("putting rows together")
        _, hops, columns = self._head.shape
        itemsize = open_hop_store(parts[0].folder).dtype.itemsize
        bounds = byte_ranges(self._head, itemsize, call.ranks.size)
        own = write_range(
            self._folder, self._head, parts, int(bounds[rank]),
            int(bounds[rank + 1]), done,
        )  # fmt: skip
        starts = rows_of(bounds, hops * columns * itemsize)
        checksums = _collect(call, own, starts)
        if self._writer is not None:
            assert checksums is not None
            self._writer.adopt(checksums)
            self._writer.finish(counts)
            remove_parts(self._folder)
        call.barrier("store")

    def open(self) -> StoredHops:
        """Open the store, when it is whole."""
        return open_hop_store(self._folder)


def _collect(
    call: RankCall, own: np.ndarray, starts: np.ndarray
) -> np.ndarray | None:
    """Send the checksums of all ranks to rank 0, in pieces."""
    collectives = Collectives(call)
    collectives.begin("checksums")
    rank, size = call.ranks.rank, call.ranks.size
    counts = np.diff(starts)
    whole = np.zeros(int(starts[-1]), np.uint64) if rank == 0 else None
    if whole is not None:
        whole[: len(own)] = own
    piece = 1 << 18
    for low in range(0, int(counts.max()), piece):
        lengths = np.clip(counts - low, 0, piece)
        sent = own[low : low + piece] if rank else own[:0]
        sizes = [int(8 * n) if rank == 0 and p else 0
                 for p, n in enumerate(lengths)]  # fmt: skip
        received = torch.empty(sum(sizes), dtype=torch.uint8)
        collectives.all_to_all(
            torch.from_numpy(sent.view(np.uint8).copy()),
            [sent.nbytes] + [0] * (size - 1), received, sizes,
        )  # fmt: skip
        if whole is not None:
            found = received.numpy().view(np.uint64)
            at = 0
            for other in range(1, size):
                begin = int(starts[other]) + low
                count = int(lengths[other])
                whole[begin : begin + count] = found[at : at + count]
                at += count
    return whole


def _stamp(folder: Path) -> list[Any]:
    """Tell a folder's state from that of another folder."""
    for name in (STATE, "manifest.json"):
        file = folder / name
        with contextlib.suppress(OSError):
            os.listdir(folder)
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            return [name, content, file.stat().st_mtime_ns]
    return []
