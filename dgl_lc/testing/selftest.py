"""The self-test: check a device's results, memory and speed.

This package was written without access to a GPU. The report is meant to be
pasted into an issue, whatever it says.
"""

import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import dgl
import numpy as np
import psutil
import torch

from .. import __version__
from .._common.bytes import format_bytes, require_memory
from .._common.threads import num_threads
from ..hops import HopFeatures
from ..precompute.api import block_aggregate
from ..precompute.device.cuda import CudaDevice, why_not
from ..precompute.device.executor import run_on_device, survey_for_device
from ..precompute.device.pipeline import sums_in_float32
from ..precompute.device.product import KERNEL
from ..precompute.device.protocol import Device
from ..precompute.planning.device import make_device_plan
from ..precompute.planning.plans import Item
from ..precompute.request import Request
from .cpu_device import CpuDevice
from .reference import dense_filter
from .simulated_device import SimulatedDevice

#: Receives the report line by line.
Say: TypeAlias = Callable[[str], None]

#: The largest error that is accepted, relative to the largest value.
_TOLERANCE = {
    torch.float64: 1e-11,
    torch.float32: 1e-4,
    torch.bfloat16: 5e-2,
    torch.float16: 1e-2,
}


def selftest(
    device: str | None = None, nodes: int = 500_000, say: Say = print
) -> bool:
    """Check a device, report what was found, and return whether all passed.

    Parameters
    ----------
    device : str, optional
        "cuda", "cuda:1" or "cpu". Default: a GPU if there is one.
    nodes : int
        Number of nodes of the graph on which the speed is measured; it has
        16 times as many edges.
    say : callable
        Receives the report line by line.
    """
    if device is None:
        device = "cpu" if why_not(torch.device("cuda")) else "cuda"
    chosen = torch.device(device)
    # Edges, as drawn and in two formats of the graph, features, and hop
    # features of both engines.
    require_memory(
        (3 * 16 * 16 + 9 * 64 * 4) * nodes,
        f"the graph of nodes={nodes} on which the speed is measured",
        "take fewer nodes",
    )
    _report_environment(chosen, say)
    if chosen.type == "cpu":
        kernels: dict[str, Device] = {"the pipeline on the CPU": CpuDevice()}
    else:
        reason = why_not(chosen)
        if reason is not None:
            say(f"FAILED  {device} cannot be used: {reason}")
            return False
        kernels = dict(_gpus(chosen.index, say))
    failures = 0
    for name, found in kernels.items():
        say(f"\n{name}")
        checks: dict[str, Callable[[], int]] = {
            "exact results": partial(_check_results, found, say),
            "type of sums": partial(_report_sums, found, say),
            "memory": partial(_check_memory, found, say),
            "rows of some nodes": partial(_check_some_rows, found, say),
            "speed": partial(_report_speed, found, nodes, say),
        }
        for subject, check in checks.items():
            try:
                failures += check()
            except Exception as error:
                say(f"  FAILED  {subject}: {error!r}")
                failures += 1
    summary = f"{failures} checks FAILED" if failures else "all checks passed"
    say(f"\n{summary}")
    return not failures


def _report_environment(device: torch.device, say: Say) -> None:
    memory = psutil.virtual_memory().total
    say(f"dgl-lc {__version__}, dgl {dgl.__version__}")
    say(f"torch {torch.__version__}, CUDA {torch.version.cuda}")
    say(f"python {platform.python_version()}, {platform.platform()}")
    say(f"{num_threads()} threads, {format_bytes(memory)} on the host")
    if device.type == "cuda" and why_not(device) is None:
        gpu = CudaDevice(device.index)
        free, total = gpu.memory()
        say(
            f"{gpu.describe()}, {format_bytes(free)} of "
            f"{format_bytes(total)} free"
        )


def _gpus(index: int | None, say: Say) -> Iterator[tuple[str, Device]]:
    """Yield the GPU once with each kernel that is installed."""
    first, other = CudaDevice(index), CudaDevice(index)
    first.fuses, other.fuses = False, True
    yield "cuSPARSE, through torch", first
    from ..precompute.device.triton_spmm import triton

    if triton is None:
        say("Triton 3 is not installed, so its kernel is not checked")
        return
    yield f"triton {triton.__version__} ({KERNEL}=triton)", other


def _compute(
    g: dgl.DGLGraph,
    x: torch.Tensor,
    K: int,
    device: Device,
    memory: int | None = None,
    most_entries: int | None = None,
    **options: Any,
) -> HopFeatures:
    """Compute hop features on the device."""
    given = {
        "norm": "both", "self_loop": True, "weight": None, "nodes": None,
        "hops": None, "dtype": None, **options,
    }  # fmt: skip
    request = Request.of(g, x, K, **given)
    return run_on_device(request, device, memory, most_entries=most_entries)


def _random_graph(
    nodes: int, edges: int, columns: int
) -> tuple[dgl.DGLGraph, torch.Tensor]:
    """Make a graph with a hub and nodes without edges, and its features."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    ends[1, : edges // 8] = 1
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    return g, torch.randn(nodes, columns, generator=generator)


def _largest_error(found: HopFeatures, wanted: list[np.ndarray]) -> float:
    """Return the largest error, relative to the largest value of its hop."""
    errors = [0.0]
    for hop in found.hops:
        scale = max(1.0, float(np.abs(wanted[hop]).max()))
        difference = found[hop].double().numpy() - wanted[hop]
        worst = float(np.abs(difference).max())
        # NaN compares as false with everything, so max would drop it.
        errors.append(worst / scale if worst == worst else float("inf"))
    return max(errors)


def _verdict(passed: bool, text: str, say: Say) -> int:
    """Report a check; return the number of failures, 0 or 1."""
    say(f"  {'ok    ' if passed else 'FAILED'}  {text}")
    return int(not passed)


def _check_results(device: Device, say: Say) -> int:
    """Compare with the dense filter in float64, for several cuts."""
    failures = 0
    g, x = _random_graph(700, 9000, 37)
    weight = torch.rand(9000, generator=torch.Generator().manual_seed(1))
    some = torch.arange(0, 700, 9)
    for dtype, tolerance in _TOLERANCE.items():
        worst = 0.0
        for norm, loop, weights in (
            ("both", True, None), ("right", False, None),
            ("both", True, weight),
        ):  # fmt: skip
            s = dense_filter(g, norm=norm, self_loop=loop, edge_weight=weights)
            wanted = [x.to(dtype).double().numpy()]
            for _ in range(3):
                wanted.append(s @ wanted[-1])
            for rows in (None, some):
                right = wanted if rows is None else [w[rows] for w in wanted]
                for most_entries in (None, 501):
                    found = _compute(
                        g, x.to(dtype), 3, device, norm=norm, self_loop=loop,
                        weight=weights, nodes=rows, dtype=dtype,
                        most_entries=most_entries,
                    )  # fmt: skip
                    worst = max(worst, _largest_error(found, right))
        failures += _verdict(
            worst <= tolerance,
            f"{dtype}: largest error {worst:.1e} of the largest value",
            say,
        )
    return failures


def _report_sums(device: Device, say: Say) -> int:
    """Report in which type products of halves are summed; cannot fail."""
    for dtype in (torch.float16, torch.bfloat16):
        if device.fuses:
            continue
        wide = sums_in_float32(device, dtype)
        device.release()
        say(
            f"  note    products of {dtype} are "
            f"{'' if wide else 'not '}summed in float32"
        )
    return 0


def _check_memory(device: Device, say: Say) -> int:
    """Compare the memory that is allocated with the budget and the plan."""
    g, x = _random_graph(30_000, 500_000, 64)
    request = Request.of(g, x, 2, "both", True, None, None, None, None)
    work = survey_for_device(request).work
    failures = 0
    for memory in (64 << 20, 40 << 20):
        plan = make_device_plan(work, memory, device.fuses)

        def run(memory: int = memory) -> None:
            run_on_device(request, device, memory)

        if isinstance(device, CudaDevice):
            allocated, peak = device.peak(run)
            say(f"  note    {format_bytes(allocated)} of it in use at a time")
        else:
            hard = SimulatedDevice(memory)
            run_on_device(request, hard, memory)
            peak = hard.peak
        failures += _verdict(
            peak <= memory,
            f"memory={format_bytes(memory)}: {format_bytes(peak)} were "
            f"allocated, {format_bytes(plan.peak_bytes)} planned (of which "
            f"workspace {format_bytes(plan.items[Item.WORKSPACE])})",
            say,
        )
    return failures


def _check_some_rows(device: Device, say: Say) -> int:
    """Compare a few rows of a larger graph with the engine on the CPU."""
    g, x = _random_graph(20_000, 400_000, 24)
    some = torch.arange(0, 20_000, 71)
    wanted = block_aggregate(g, x, 3, nodes=some)
    found = _compute(g, x, 3, device, 40 << 20, nodes=some)
    worst = _largest_error(
        found, [wanted[hop].double().numpy() for hop in range(4)]
    )
    return _verdict(
        worst <= 1e-4,
        f"rows of some nodes: largest difference from the CPU {worst:.1e}",
        say,
    )


def _report_speed(device: Device, nodes: int, say: Say) -> int:
    """Report seconds, beside the engine on this CPU; cannot fail."""
    g, x = _random_graph(nodes, 16 * nodes, 64)
    g.create_formats_()

    def seconds(work: Callable[[], object]) -> float:
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - begin)
        return best

    on_cpu = seconds(lambda: block_aggregate(g, x, 3))
    here = seconds(lambda: _compute(g, x, 3, device))
    gathered = 3 * (17 * nodes) * 64 * 4
    say(
        f"  note    {nodes:,} nodes, {16 * nodes:,} edges, 64 columns, K=3: "
        f"{here:.2f} s ({gathered / here / 1e9:.0f} GB/s gathered), the CPU "
        f"{on_cpu:.2f} s, ratio {on_cpu / here:.2f}"
    )
    return 0
