"""Carrying out a request on a device with memory of its own."""

from collections.abc import Callable
from dataclasses import replace

import torch
from dgl import DGLError

from ..._common.bytes import format_bytes
from ...hops import HopFeatures
from ..column_blocks import Done, run_column_blocks
from ..planning.device import DevicePlan, DeviceSizes, make_device_plan
from ..request import Request
from ..sinks import MemorySink, Sink
from ..survey import DoesNotFit, Survey, survey
from .host_side import HostSide, check_host, host_too_small
from .memory_errors import OutOfMemoryError
from .pipeline import Pipeline, sums_in_float32
from .protocol import Device

#: Of the memory that is free, what is used without being asked for.
_SHARE = 0.9
#: Finding out the type of sums takes less than this.
_PROBE = 1 << 25
#: What is left of the budget when the device had less than it said.
_SMALLER = 0.7


class DeviceExecutor:
    """Computes the hop features on a device, one column block at a time.

    It surveys and plans when it is made. Where the device runs out of memory
    later, it resumes after the last whole column block, with a plan for less.

    Parameters
    ----------
    memory, host_memory : int, optional
        Bytes that may be used on the device and on the host.
    stored : bool
        Whether the result goes to disk.
    most_entries : int, optional
        The largest block of edges.
    """

    def __init__(
        self,
        request: Request,
        device: Device,
        memory: int | None = None,
        host_memory: int | None = None,
        stored: bool = False,
        most_entries: int | None = None,
        sizes: DeviceSizes | None = None,
    ):
        self._request, self._device = request, device
        self._host_memory, self._most_entries = host_memory, most_entries
        self._sizes = sizes
        self._survey = survey_for_device(request, host_memory, stored)
        work = self._survey.work
        self._budget = device_budget(device, memory)
        self._sums_bfloat16 = (
            work.kind == "bfloat16"
            and not device.fuses
            and self._budget >= _PROBE
            and sums_in_float32(device, torch.bfloat16)
        )
        device.release()
        self._plan = self._make_plan(self._budget)
        #: What :meth:`run` tells it has done when all is.
        self.total = self._survey.gathered_bytes()

    @property
    def plan(self) -> DevicePlan:
        """How the work is cut."""
        return self._plan

    def _make_plan(self, budget: int) -> DevicePlan:
        plan = make_device_plan(
            self._survey.work, budget, self._device.fuses,
            self._sums_bfloat16, self._device.name, self._most_entries,
            self._sizes,
        )  # fmt: skip
        check_host(plan, self._host_memory)
        return plan

    def run(self, sink: Sink, done: Done) -> None:
        """Give all columns that it does not have yet to the sink."""
        work, device = self._plan.work, self._device
        done(self.total * (sink.done - sink.first) // work.num_feats)
        while sink.done < sink.last:
            try:
                failure = self._try(sink, done)
            finally:
                # Here, not where an error was caught: it kept tensors alive.
                device.release()
            if failure is None:
                return
            self._budget = self._less(failure)
            self._plan = self._make_plan(self._budget)

    def _try(self, sink: Sink, done: Done) -> str | None:
        """Run the column blocks that are left; why it stopped, or None."""
        plan, device = self._plan, self._device
        pipeline = None
        try:
            host = HostSide(self._request, self._survey, plan, sink)
            pipeline = Pipeline(device, host, plan)
            compute = _column_block(self._request, pipeline, sink, done)
            run_column_blocks(self._request, plan, sink, compute)
            return None
        except OutOfMemoryError as error:
            return str(error)
        finally:
            # Memory must not be given back while streams still use it.
            device.sync()
            if pipeline is not None:
                pipeline.close()

    def _less(self, failure: str) -> int:
        """Choose a smaller budget, after the device ran out of memory."""
        plan, name = self._plan, self._device.name
        smaller = int(_SMALLER * min(self._budget, plan.peak_bytes))
        try:
            make_device_plan(
                plan.work, smaller, plan.fuses, device=name, sizes=self._sizes
            )
        except DGLError:
            raise DGLError(
                f"{name} ran out of memory ({failure}) where "
                f"{format_bytes(plan.peak_bytes)} were planned, and less is "
                f"not enough: free some of it, or omit device=."
            ) from None
        return smaller


def _column_block(
    request: Request, pipeline: Pipeline, sink: Sink, done: Done
) -> Callable[[int, int], None]:
    """Give what computes the columns first to last."""

    def compute(first: int, last: int) -> None:
        if 0 in request.kept:
            sink.keep_features()
        row_bytes = (last - first) * request.value_type.itemsize
        pipeline.column_block(
            first, last, lambda entries: done(entries * row_bytes)
        )

    return compute


def run_on_device(
    request: Request,
    device: Device,
    memory: int | None = None,
    host_memory: int | None = None,
    sink: Sink | None = None,
    most_entries: int | None = None,
    sizes: DeviceSizes | None = None,
) -> HopFeatures:
    """Compute hop features on a device, to memory or to another sink."""
    sink = MemorySink(request) if sink is None else sink
    stored = not isinstance(sink, MemorySink)
    executor = DeviceExecutor(
        request, device, memory, host_memory, stored, most_entries, sizes
    )
    with sink:
        executor.run(sink, bool)
        return sink.finish()


def survey_for_device(
    request: Request, host_memory: int | None = None, stored: bool = False
) -> Survey:
    """As :func:`..survey.survey`, where the features are sent.

    Hop 0 too is then needed at the frontier's rows only.
    """
    sent = replace(request, shares_features=False)
    try:
        found = survey(sent, host_memory, stored)
    except DoesNotFit:
        assert host_memory is not None
        raise host_too_small(sent, host_memory, stored) from None
    return found


def device_budget(device: Device, memory: int | None) -> int:
    """Choose the bytes that may be used: never all that are free.

    Libraries that are loaded later, and their handles, take some.
    """
    # What torch keeps for later counts as used.
    device.release()
    free = int(_SHARE * device.memory()[0])
    return free if memory is None else min(memory, free)
