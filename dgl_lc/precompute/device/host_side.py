"""The host's side of the pipeline: what it gives and takes, and its memory."""

import numpy as np
import torch
from dgl import DGLError

from ..._common.bytes import format_bytes
from ..graph.filters import Filter
from ..places import Places
from ..planning.cost import cost_of
from ..planning.device import (
    DevicePlan,
    DeviceTask,
    hop_matrices,
    hop_rows,
    most_rows,
)
from ..planning.plans import Item
from ..request import Request
from ..sinks import Sink, staged_bytes
from ..survey import Survey, most_work
from .hop_matrix import Block, HopMatrix, start_bytes


class HostSide:
    """Gives graph and features to a device (see :class:`.pipeline.Host`)."""

    def __init__(
        self,
        request: Request,
        survey: Survey,
        plan: DevicePlan,
        sink: Sink,
    ):
        work = plan.work
        assert survey.edges is not None
        self._request, self._sink = request, sink
        self.kept = request.kept
        self._rows = survey.rows
        if not plan.frontier:
            self._rows = [None] * (work.K + 1)
        self._filter = Filter(
            survey.edges, request.spec, request.value_type.sums,
            request.kernel_weight(),
        )  # fmt: skip
        self._matrices = self._make_matrices(plan)
        self._places = Places(self._rows, work.num_nodes, request.nodes)
        self._vectors: dict[tuple[int, int | None], torch.Tensor] = {}

    def _make_matrices(self, plan: DevicePlan) -> dict[int, HopMatrix]:
        found: dict[int, HopMatrix] = {}
        shared = None
        for hop in range(1, plan.work.K + 1):
            rows = self._rows[hop]
            whole = rows is None and self._rows[hop - 1] is None
            matrix = shared if whole else None
            if matrix is None:
                matrix = HopMatrix(
                    self._filter, rows, plan.most_entries,
                    most_rows(plan.most_entries),
                )  # fmt: skip
            shared = matrix if whole else shared
            found[hop] = matrix
        return found

    def matrix(self, hop: int) -> HopMatrix:
        return self._matrices[hop]

    def fill(
        self,
        hop: int,
        block: Block,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor | None,
    ) -> None:
        self._matrices[hop].fill(
            block, self._places.of_rows(hop - 1), indptr.numpy(),
            indices.numpy(), None if values is None else values.numpy(),
        )  # fmt: skip

    def diagonal(self, side: str, hop: int) -> torch.Tensor | None:
        whole = self._filter.left if side == "left" else self._filter.right
        if whole is None:
            return None
        rows = self._rows[hop]
        # Equal ones are one tensor, which is sent once.
        key = (id(whole), None if rows is None else id(rows))
        if key not in self._vectors:
            own = whole if rows is None else whole[rows]
            self._vectors[key] = torch.from_numpy(own)
        return self._vectors[key]

    def places(self, hop: int) -> torch.Tensor | None:
        found = self._places.of_nodes(hop)
        # A copy: those of the next hop are written to the same memory.
        return None if found is None else found.to(torch.int32, copy=True)

    def read(
        self, first: int, last: int, low: int, high: int, target: torch.Tensor
    ) -> None:
        rows = self._rows[0]
        own = np.arange(low, high) if rows is None else rows[low:high]
        self._request.copy_columns(first, last, torch.from_numpy(own), target)

    def write(self, hop: int, low: int, source: torch.Tensor) -> None:
        self._sink.write(hop, low, source)


def host_bytes(plan: DevicePlan) -> int:
    """Count the bytes that a plan for a device takes on the host."""
    work, width = plan.work, plan.column_width
    items = cost_of(work, 1, width).items
    needed = sum(items.values())
    needed -= items[Item.COLUMN_BUFFERS] + items[Item.CHUNKS]
    task = DeviceTask(
        work, plan.budget, plan.device_kind, plan.fuses, sizes=plan.sizes
    )
    rows = hop_rows(work, plan.frontier)
    tallest = min(most_rows(plan.most_entries), max(rows))
    slot = task.block_bytes(plan.most_entries, tallest)
    # Pinned memory is allocated in powers of two.
    needed += 2 * (1 << slot.bit_length()) + 4 * plan.sizes.piece
    needed += sum(
        start_bytes(m.rows) for m in hop_matrices(work, plan.frontier)
    )
    # The diagonals and the places of each list of rows, until they are sent.
    lists = sum(work.row_lists()) if plan.frontier else 0
    needed += work.num_diagonals * work.accumulator_size * lists
    if not work.all_rows:
        needed += 4 * len(work.kept_hops) * work.kept_rows
    if work.stored:
        needed += staged_bytes(
            work.kept_rows, width, work.itemsize, len(work.kept_hops)
        )
    return needed


def check_host(plan: DevicePlan, host_memory: int | None) -> None:
    """Refuse a plan that takes more than may be used on the host."""
    if host_memory is None:
        return
    needed = host_bytes(plan)
    if needed > host_memory:
        raise _too_small(needed, host_memory)


def host_too_small(
    request: Request, host_memory: int, stored: bool
) -> DGLError:
    """Say what is enough where not even the frontier can be found."""
    most = most_work(request, stored)
    return _too_small(
        cost_of(most, 1, most.widths()[0]).peak_bytes, host_memory
    )


def _too_small(needed: int, host_memory: int) -> DGLError:
    enough = -(-needed // 2**20)
    return DGLError(
        f"host_memory={format_bytes(host_memory)} is too small: {enough} "
        f"MiB would be enough (host_memory='{enough}MiB'). A result on "
        f"disk (out=), a graph on disk or fewer nodes need less."
    )
