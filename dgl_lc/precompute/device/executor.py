"""Carrying out a request on a device with memory of its own."""

from dataclasses import replace

import numpy as np
import torch
from dgl import DGLError
from tqdm.auto import tqdm

from ..._common.bytes import format_bytes
from ..._common.rows import copy_rows, empty
from ...hops import HopFeatures
from ...storage.hop_store import open_store
from ...storage.write_hops import StoreWriter
from ..graph.filters import Filter
from ..planning.cpu import Work, plan_for
from ..planning.device import (
    PIECE,
    DevicePlan,
    hop_matrices,
    make_device_plan,
    most_rows,
)
from ..request import Request, Survey, survey
from .hop_matrix import Block, HopMatrix
from .memory_errors import OutOfMemoryError
from .pipeline import Pipeline, sums_in_float32
from .protocol import Device

_NO_VALUES = np.empty(0, np.float32)
#: Of the memory that is free, what is used without being asked for.
_SHARE = 0.9
#: Finding out the type of sums takes less than this.
_PROBE = 1 << 25
#: What is left of the budget when the device had less than it said.
_SMALLER = 0.7


def run_on_device(
    request: Request,
    device: Device,
    memory: int | None,
    host_memory: int | None,
    progress: bool | None,
    store: StoreWriter | None = None,
    most_entries: int | None = None,
) -> HopFeatures:
    """Compute the hop features on a device, one column block at a time.

    Where the device runs out of memory the work goes on from the last whole
    column block, with a plan for less. ``most_entries`` caps the blocks of
    edges.
    """
    found = survey_for_device(request, host_memory, store is not None)
    work = found.work
    result = _Result(request, work, store)
    budget = device_budget(device, memory)
    sums_bfloat16 = (
        work.kind == "bfloat16"
        and not device.fuses
        and budget >= _PROBE
        and sums_in_float32(device, torch.bfloat16)
    )
    device.release()
    with tqdm(
        total=0, desc=f"hop features on {device.name}", unit="B",
        unit_scale=True, disable=None if progress is None else not progress,
        delay=2 if progress is None else 0,
    ) as bar:  # fmt: skip
        while result.done < work.num_feats:
            plan = make_device_plan(
                work, budget, device.fuses, sums_bfloat16, device.name,
                most_entries,
            )  # fmt: skip
            _check_host(plan, host_memory)
            try:
                failure = _try(device, request, found, plan, result, bar)
            finally:
                # Here, not where an error was caught: it kept tensors alive.
                device.release()
            if failure is None:
                break
            budget = _less(device, budget, plan, failure)
    return result.finish()


def _try(device, request, found, plan, result, bar) -> str | None:
    """Run the column blocks that are left; why it stopped, or None."""
    host = _HostSide(request, found, plan, result)
    size = plan.work.itemsize * host.num_entries()
    bar.total, bar.n = size * plan.work.num_feats, size * result.done
    pipeline = None
    try:
        pipeline = Pipeline(device, host, plan)
        for first, last in plan.column_blocks(result.done):
            size = (last - first) * plan.work.itemsize

            def done(entries, size=size):
                bar.update(entries * size)

            with result.columns(first, last):
                pipeline.column_block(first, last, done)
        return None
    except OutOfMemoryError as error:
        return str(error)
    finally:
        # Memory must not be given back while streams still use it.
        device.sync()
        if pipeline is not None:
            pipeline.close()


def survey_for_device(
    request: Request, host_memory: int | None, stored: bool = False
) -> Survey:
    """As :func:`..request.survey`, where the features are sent.

    Hop 0 too is then needed at the frontier's rows only.
    """
    return survey(replace(request, shares_features=False), host_memory, stored)


def device_budget(device: Device, memory: int | None) -> int:
    """The bytes that may be used: never all that are free.

    Libraries that are loaded later, and their handles, take some.
    """
    # What torch keeps for later counts as used.
    device.release()
    free = int(_SHARE * device.memory()[0])
    return free if memory is None else min(memory, free)


def _less(device: Device, budget: int, plan: DevicePlan, failure: str) -> int:
    """A smaller budget, after the device ran out of memory."""
    smaller = int(_SMALLER * min(budget, plan.peak_bytes))
    try:
        make_device_plan(plan.work, smaller, plan.fuses, device=device.name)
    except DGLError:
        raise DGLError(
            f"{device.name} ran out of memory ({failure}) where "
            f"{format_bytes(plan.peak_bytes)} were planned, and less is not "
            f"enough: free some of it, or leave device= out."
        ) from None
    return smaller


def _check_host(plan: DevicePlan, host_memory: int | None) -> None:
    """The host's side, as the engine on the CPU counts it."""
    if host_memory is None:
        return
    work, width = plan.work, plan.column_width
    items = plan_for(work, 1, width, 0).items
    needed = sum(items.values())
    needed -= items["column buffers"] + items["chunks of work"]
    size = work.itemsize
    rows = most_rows(plan.most_entries)
    slot = plan.most_entries * (4 + 8 * work.weighted) + 4 * rows + 4096
    # Pinned memory is allocated in powers of two.
    needed += 2 * (1 << slot.bit_length()) + 4 * PIECE
    needed += sum(8 * m.rows + 8 for m in hop_matrices(work, plan.frontier))
    if work.stored:
        needed += len(work.kept_hops) * work.kept_rows * width * size
    if needed > host_memory:
        enough = -(-needed // 2**20)
        raise DGLError(
            f"host_memory={format_bytes(host_memory)} is too small: {enough} "
            f"MiB would be enough (host_memory='{enough}MiB'). A result on "
            f"disk (out=), a graph on disk or fewer nodes= need less."
        )


class _Result:
    """Where hop features go: to memory, or to a store."""

    def __init__(self, request: Request, work: Work, store: StoreWriter | None):
        self._request, self._store = request, store
        self.done = store.done if store else 0
        rows, columns = work.kept_rows, work.num_feats
        self._rows = rows
        self._hops: dict[int, torch.Tensor] = {}
        if store is None:
            for hop in request.kept:
                shared = hop == 0 and request.nodes is None
                if shared and request.shares_features:
                    self._hops[0] = request.columns(0, columns)
                else:
                    self._hops[hop] = empty(rows, columns, request.dtype)
        self._first = 0
        self.block: dict[int, torch.Tensor] = {}

    def columns(self, first: int, last: int) -> "_Columns":
        return _Columns(self, first, last)

    def open(self, first: int, last: int) -> None:
        """Make room for some columns, and fill those of hop 0."""
        request = self._request
        self._first = first
        if self._store is None:
            self.block = {k: t[:, first:last] for k, t in self._hops.items()}
        else:
            self.block = {
                hop: empty(self._rows, last - first, request.dtype)
                for hop in request.kept
            }
        shares = request.shares_features and request.nodes is None
        if 0 in self.block and not (shares and self._store is None):
            request.copy_columns(first, last, request.nodes, self.block[0])

    def close(self, last: int) -> None:
        """The columns are complete."""
        if self._store is not None:
            with self._store.columns(last):
                for hop, values in self.block.items():
                    self._store.keep(hop, self._first, values, None)
        self.block = {}
        self.done = last

    def finish(self) -> HopFeatures:
        request = self._request
        if self._store is not None:
            self._store.finish()
            return open_store(self._store.folder)
        return HopFeatures(
            list(self._hops.values()), request.kept, request.spec,
            request.nodes,
        )  # fmt: skip


class _Columns:
    """Some columns of the result, complete if nothing failed."""

    def __init__(self, result: _Result, first: int, last: int):
        self._result, self._bounds = result, (first, last)

    def __enter__(self) -> None:
        self._result.open(*self._bounds)

    def __exit__(self, kind, *rest) -> None:
        if kind is None:
            self._result.close(self._bounds[1])


class _HostSide:
    """The host's side of the pipeline (see :class:`.pipeline.Host`)."""

    def __init__(
        self,
        request: Request,
        found: Survey,
        plan: DevicePlan,
        result: _Result,
    ):
        work = plan.work
        assert found.edges is not None
        self._request, self._result = request, result
        self.kept = request.kept
        all_rows = np.empty(0, np.int32)
        self._rows = found.rows
        if not plan.frontier:
            self._rows = [all_rows] * (work.K + 1)
        wide = request.accumulator
        weight = None
        if request.weight is not None:
            weight = request.weight.to(wide).contiguous().numpy()
        dtype = np.float64 if wide == torch.float64 else np.float32
        self._filter = Filter(found.edges, request.spec, dtype, weight)
        self._matrices: list[HopMatrix | None] = [None]
        shared = None
        for hop in range(1, work.K + 1):
            whole = not len(self._rows[hop]) and not len(self._rows[hop - 1])
            matrix = shared if whole else None
            if matrix is None:
                matrix = HopMatrix(
                    self._filter, self._rows[hop], self._rows[hop - 1],
                    plan.most_entries, most_rows(plan.most_entries),
                )  # fmt: skip
            shared = matrix if whole else shared
            self._matrices.append(matrix)
        self._place = np.empty(0, np.int32)
        if any(len(rows) for rows in self._rows[:-1]):
            self._place = np.empty(work.num_nodes, np.int32)
        self._numbered: HopMatrix | None = None
        self._places = self._place[:0]
        self._vectors: dict[tuple[int, int], torch.Tensor] = {}

    def num_entries(self) -> int:
        """Entries of all hops."""
        matrices = [matrix for matrix in self._matrices if matrix is not None]
        return sum(matrix.num_entries for matrix in matrices)

    def matrix(self, hop: int) -> HopMatrix:
        found = self._matrices[hop]
        assert found is not None
        return found

    def fill(
        self,
        hop: int,
        block: Block,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        matrix = self.matrix(hop)
        if self._numbered is not matrix:
            self._places = matrix.number_sources(self._place)
            self._numbered = matrix
        # Without weights there are no values, of whatever type.
        numbers = values.numpy() if len(values) else _NO_VALUES
        matrix.fill(
            block, self._places, indptr.numpy(), indices.numpy(), numbers
        )

    def diagonal(self, side: str, hop: int) -> torch.Tensor | None:
        whole = getattr(self._filter, side)
        if len(whole) == 0:
            return None
        rows = self._rows[hop]
        # Equal ones are one tensor, which is sent once.
        key = (id(whole), id(rows) if len(rows) else 0)
        if key not in self._vectors:
            own = whole[rows] if len(rows) else whole
            self._vectors[key] = torch.from_numpy(own)
        return self._vectors[key]

    def places(self, hop: int) -> torch.Tensor | None:
        nodes, rows = self._request.nodes, self._rows[hop]
        if nodes is None:
            return None
        if len(rows) == 0:
            return nodes.int()
        return torch.from_numpy(np.searchsorted(rows, nodes.numpy())).int()

    def read(
        self, first: int, last: int, low: int, high: int, target: torch.Tensor
    ) -> None:
        rows = self._rows[0]
        own = rows[low:high] if len(rows) else np.arange(low, high)
        self._request.copy_columns(first, last, torch.from_numpy(own), target)

    def write(
        self, hop: int, first: int, last: int, low: int, source: torch.Tensor
    ) -> None:
        block = self._result.block[hop]
        copy_rows(source, None, block[low : low + len(source)])
