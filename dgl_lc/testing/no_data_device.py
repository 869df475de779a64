"""A device whose tensors have shapes and no data.

On it the pipeline runs at any size, to count bytes: those alive at a time,
whoever allocated them, and those that are copied.
"""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._common.threads import ranges
from ..precompute.device.csr_spmm import workspace_bytes
from ..precompute.device.hop_matrix import Block
from ..precompute.device.pipeline import Pipeline
from ..precompute.planning.device import DevicePlan, hop_rows, most_rows
from .cpu_device import CpuDevice


class PeakBytes(TorchDispatchMode):
    """Counts the bytes of all tensors without data that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.is_meta:
                self._track(tensor.untyped_storage())
        return out

    def _track(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        self._seen[key] = storage.nbytes()
        self.live += storage.nbytes()
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self.live -= self._seen.pop(key, 0)


class NoDataDevice(CpuDevice):
    """Counts what is copied; a product takes the workspace of the model.

    Pinned memory is real, but nobody writes to most of it: its pages are
    never touched.
    """

    name = "cuda"

    def __init__(self, fuses: bool = False):
        self.fuses = fuses
        self.bytes_in = self.bytes_out = 0

    def empty(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device="meta")

    def copy_in(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        assert target.is_meta
        self.bytes_in += target.nbytes

    def copy_out(
        self, stream: Any, target: torch.Tensor, source: torch.Tensor
    ) -> None:
        assert source.is_meta
        self.bytes_out += source.nbytes

    def spmm_add(
        self,
        stream: Any,
        out: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
        x: torch.Tensor,
        **fused: Any,
    ) -> None:
        if not self.fuses:
            # As long as it runs.
            size = workspace_bytes(len(indices), len(out))
            torch.empty(size, dtype=torch.uint8, device="meta")
        assert indptr.dtype == indices.dtype == torch.int32
        assert len(indptr) == len(out) + 1


class _Matrix:
    def __init__(self, rows: int, entries: int, most_entries: int):
        parts = max(1, -(-entries // most_entries))
        parts += rows // most_rows(most_entries)
        parts = min(parts, max(rows, 1))
        cuts = zip(ranges(entries, parts), ranges(rows, parts), strict=True)
        self.blocks = [Block(*a, *b) for a, b in cuts]


class NoDataHost:
    """The host's side of a plan: sizes alone."""

    def __init__(self, plan: DevicePlan):
        work = plan.work
        self.kept = list(work.kept_hops)
        self._work = work
        self._rows = rows = hop_rows(work, plan.frontier)
        entries = work.hop_entries
        if not plan.frontier:
            entries = (work.num_edges,) * work.K
        shared = None
        self._matrices: list[_Matrix] = []
        for hop in range(1, work.K + 1):
            whole = rows[hop] == rows[hop - 1] == work.num_nodes
            matrix = shared if whole else None
            if matrix is None:
                count = entries[hop - 1] + rows[hop] * work.self_loop
                matrix = _Matrix(rows[hop], count, plan.most_entries)
            shared = matrix if whole else shared
            self._matrices.append(matrix)
        self._vectors: dict[tuple[str, int], torch.Tensor] = {}

    def matrix(self, hop: int) -> _Matrix:
        return self._matrices[hop - 1]

    def diagonal(self, side: str, hop: int) -> torch.Tensor | None:
        work, rows = self._work, self._rows[hop]
        if work.num_diagonals == 0:
            return None
        side = side if work.num_diagonals == 2 else "both"
        key = (side, rows if rows == work.num_nodes else -hop)
        if key not in self._vectors:
            self._vectors[key] = torch.empty(1).expand(rows)
        return self._vectors[key]

    def places(self, hop: int) -> torch.Tensor | None:
        if self._work.all_rows:
            return None
        return torch.empty(1, dtype=torch.int32).expand(self._work.kept_rows)

    def fill(
        self,
        hop: int,
        block: Block,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        # Rows without a hub: the pipeline checks whether they have tails.
        indptr.zero_()

    def read(
        self, first: int, last: int, low: int, high: int, target: torch.Tensor
    ) -> None:
        pass

    def write(self, hop: int, low: int, source: torch.Tensor) -> None:
        pass


def count_bytes(
    plan: DevicePlan,
    blocks: int | None = None,
    device: NoDataDevice | None = None,
) -> tuple[int, int]:
    """Peak bytes, and bytes copied, of a plan's first column blocks."""
    device = device or NoDataDevice(plan.fuses)
    with PeakBytes() as found:
        pipeline = Pipeline(device, NoDataHost(plan), plan)  # type: ignore
        for first, last in plan.column_blocks()[:blocks]:
            pipeline.column_block(first, last)
        del pipeline
    return found.peak, device.bytes_in + device.bytes_out
