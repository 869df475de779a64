"""Blocks of edges on a device: some stay there, the others pass through.

Those that do not stay have two slots, so that the next is being filled while
the last is in use. A stream waits where it would overwrite a slot that is
still being read, or read one that has not arrived yet.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..planning.device import DevicePlan, DeviceTask, hop_rows, most_rows
from .arena import Arena
from .hop_matrix import Block, HopMatrix
from .hubs import hub_tails
from .protocol import Device


class BlockSource(Protocol):
    """What gives blocks of edges."""

    def matrix(self, hop: int) -> HopMatrix:
        """Give the matrix of a hop; the same object where it is the same."""

    def fill(
        self,
        hop: int,
        block: Block,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor | None,
    ) -> None:
        """Write a block of a hop's matrix to pinned memory."""


@dataclass
class Slot:
    """Where a block of edges goes: on the device, or pinned.

    Attributes
    ----------
    values : Tensor or None
        None where edges have no weights.
    tails : Tensor
        Parts of hubs, where the device fuses.
    num_tails : int
        How many the block has.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    values: torch.Tensor | None
    tails: torch.Tensor
    num_tails: int = 0

    def cut(self, block: Block) -> "Slot":
        """Give as much of it as a block needs."""
        values = self.values
        return Slot(
            self.indptr[: block.num_rows + 1],
            self.indices[: block.num_entries],
            None if values is None else values[: block.num_entries],
            self.tails,
        )


class EdgeSlots:
    """All blocks of edges of a plan.

    Parameters
    ----------
    copy, compute
        The stream that copies to the device, and the one that computes.
    """

    def __init__(
        self,
        device: Device,
        copy: Any,
        compute: Any,
        edges: BlockSource,
        plan: DevicePlan,
        dtype: torch.dtype,
        arena: Arena,
    ):
        self._device, self._copy, self._compute = device, copy, compute
        self._edges, self._fuses, self._sizes = edges, plan.fuses, plan.sizes
        self._weighted, self._dtype = plan.work.weighted, dtype
        task = DeviceTask(
            plan.work, plan.budget, plan.device_kind, plan.fuses,
            sizes=plan.sizes,
        )  # fmt: skip
        entries = plan.most_entries
        # As planned: hop 0 has no edges.
        _, *computed = hop_rows(plan.work, plan.frontier)
        rows = min(most_rows(entries), max(computed))
        self._resident = self._take_resident(plan, task, arena)
        self._loaded: set[tuple[int, int]] = set()
        size = task.block_bytes(entries, rows)
        self._staging = [
            self._take_slot(Arena(device.pinned(size)), entries, rows)
            for _ in range(2)
        ]
        self._slots = []
        if not plan.all_edges_stay:
            self._slots = [
                self._take_slot(arena, entries, rows) for _ in range(2)
            ]
        self._copied: list[Any] = [None, None]
        self._used: list[Any] = [None, None]
        self._count = 0

    def _take_slot(self, arena: Arena, entries: int, rows: int) -> Slot:
        tails = self._sizes.num_tails(entries) if self._fuses else 0
        indptr = arena.take(rows + 1, torch.int32)
        indices = arena.take(entries, torch.int32)
        values = arena.take(entries, self._dtype) if self._weighted else None
        parts = arena.take(3 * tails, torch.int32).view(tails, 3)
        return Slot(indptr, indices, values, parts)

    def _take_resident(
        self, plan: DevicePlan, task: DeviceTask, arena: Arena
    ) -> dict[tuple[int, int], Slot]:
        """Make slots for as many blocks as may stay."""
        left = plan.resident_bytes
        found = {}
        hops = range(1, plan.work.K + 1)
        uses = [id(self._edges.matrix(hop)) for hop in hops]
        matrices = {id(self._edges.matrix(hop)): hop for hop in hops}
        # Those first that serve the most hops.
        for key in sorted(dict.fromkeys(uses), key=uses.count, reverse=True):
            blocks = self._edges.matrix(matrices[key]).blocks
            for number, block in enumerate(blocks):
                needed = task.block_bytes(block.num_entries, block.num_rows)
                if needed > left:
                    break
                left -= needed
                found[key, number] = self._take_slot(
                    arena, block.num_entries, block.num_rows
                )
        return found

    def load(self, hop: int, number: int, block: Block) -> Slot:
        """Give a block of edges on the device, sent if it is not resident."""
        key = (id(self._edges.matrix(hop)), number)
        slot = self._resident.get(key)
        if slot is None:
            slot = self._slots[self._count % 2].cut(block)
            self._fill(hop, block, slot, is_reused=True)
        elif key not in self._loaded:
            self._fill(hop, block, slot, is_reused=False)
            self._loaded.add(key)
        return slot

    def release(self, hop: int, number: int) -> None:
        """The block was used: its slot may be filled again after that."""
        if (id(self._edges.matrix(hop)), number) not in self._resident:
            place = (self._count - 1) % 2
            self._used[place] = self._device.record(self._compute)

    def _fill(
        self, hop: int, block: Block, slot: Slot, is_reused: bool
    ) -> None:
        """Send a block of edges to its slot."""
        device, place = self._device, self._count % 2
        if self._copied[place] is not None:
            device.sync(self._copied[place])
        staging = self._staging[place].cut(block)
        self._edges.fill(
            hop, block, staging.indptr, staging.indices, staging.values
        )
        if is_reused and self._used[place] is not None:
            device.wait(self._copy, self._used[place])
        device.copy_in(self._copy, slot.indptr, staging.indptr)
        device.copy_in(self._copy, slot.indices, staging.indices)
        if slot.values is not None and staging.values is not None:
            device.copy_in(self._copy, slot.values, staging.values)
        if self._fuses:
            tails = hub_tails(staging.indptr, self._sizes.longest)
            slot.num_tails = count = len(tails)
            if count:
                staging.tails[:count] = tails
                device.copy_in(
                    self._copy, slot.tails[:count], staging.tails[:count]
                )
        self._copied[place] = device.record(self._copy)
        device.wait(self._compute, self._copied[place])
        self._count += 1
