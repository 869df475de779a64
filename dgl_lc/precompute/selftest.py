"""Trying a machine's device: exact, within memory, and how fast.

There was no GPU where this package was made. The report is made to be pasted
into an issue, whatever it says.
"""

import platform
import time
from collections.abc import Callable, Iterator

import dgl
import numpy as np
import psutil
import torch

from .._common.bytes import format_bytes
from .._common.threads import num_threads
from ..hops import HopFeatures
from ..testing.cpu_device import CpuDevice
from ..testing.reference import dense_filter
from ..testing.simulated_device import SimulatedDevice
from .api import block_aggregate
from .device.cuda import CudaDevice, why_not
from .device.executor import run_on_device, survey_for_device
from .device.pipeline import sums_in_float32
from .device.product import KERNEL
from .device.protocol import Device
from .planning.device import make_device_plan
from .planning.plans import Item
from .request import Request

_TOLERANCE = {
    torch.float64: 1e-11,
    torch.float32: 1e-4,
    torch.bfloat16: 5e-2,
    torch.float16: 1e-2,
}


def selftest(
    device: str | None = None,
    nodes: int = 500_000,
    say: Callable[[str], None] = print,
) -> bool:
    """Try a device and say what was found; whether all was right.

    Parameters
    ----------
    device : str, optional
        "cuda", "cuda:1" or "cpu". Default: a GPU if there is one.
    nodes : int
        Of the graph on which it is timed, with 16 times as many edges.
    say : callable
        Is given the report line by line.
    """
    if device is None:
        device = "cpu" if why_not(torch.device("cuda")) else "cuda"
    chosen = torch.device(device)
    _environment(chosen, say)
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
        for check in (_exact, _sums, _within_memory, _some_rows, _fast):
            try:
                failures += check(found, nodes, say)
            except Exception as error:
                say(f"  FAILED  {check.__name__}: {error!r}")
                failures += 1
    say("\nall is right" if not failures else f"\n{failures} checks FAILED")
    return not failures


def _environment(device: torch.device, say) -> None:
    from .. import __version__

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


def _gpus(index: int | None, say) -> Iterator[tuple[str, Device]]:
    first, other = CudaDevice(index), CudaDevice(index)
    first.fuses, other.fuses = False, True
    yield "cuSPARSE, through torch", first
    from .device.triton_spmm import triton

    if triton is None:
        say("Triton 3 is not installed: its kernel is not tried")
        return
    yield f"triton {triton.__version__} ({KERNEL}=triton)", other


def _compute(g, x, K, device, memory=None, most_entries=None, **options):
    given = {
        "norm": "both", "self_loop": True, "weight": None, "nodes": None,
        "hops": None, "dtype": None, **options,
    }  # fmt: skip
    request = Request.of(g, x, K, **given)
    return run_on_device(request, device, memory, most_entries=most_entries)


def _random(nodes: int, edges: int, columns: int):
    """A graph with a hub and nodes without edges, and features."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    ends[1, : edges // 8] = 1
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    return g, torch.randn(nodes, columns, generator=generator)


def _worst(found: HopFeatures, wanted: list[np.ndarray]) -> float:
    """The largest error, relative to the largest number of a hop."""
    errors = [0.0]
    for hop in found.hops:
        scale = max(1.0, float(np.abs(wanted[hop]).max()))
        difference = found[hop].double().numpy() - wanted[hop]
        worst = float(np.abs(difference).max())
        # NaN would lose every comparison.
        errors.append(worst / scale if worst == worst else float("inf"))
    return max(errors)


def _exact(device: Device, nodes: int, say) -> int:
    """Against the dense filter in float64, however the work is cut."""
    failures = 0
    g, x = _random(700, 9000, 37)
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
                    worst = max(worst, _worst(found, right))
        failures += worst > tolerance
        say(
            f"  {'ok    ' if worst <= tolerance else 'FAILED'}  {dtype}: "
            f"largest error {worst:.1e} of the largest number"
        )
    return failures


def _sums(device: Device, nodes: int, say) -> int:
    """In which type products add halves up: to know, right or wrong."""
    for dtype in (torch.float16, torch.bfloat16):
        if device.fuses:
            continue
        wide = sums_in_float32(device, dtype)
        device.release()
        say(
            f"  note    products of {dtype} are summed "
            f"{'in float32' if wide else 'in less, or not at all'}"
        )
    return 0


def _within_memory(device: Device, nodes: int, say) -> int:
    """What is really allocated, beside what was planned."""
    g, x = _random(30_000, 500_000, 64)
    request = Request.of(g, x, 2, "both", True, None, None, None, None)
    work = survey_for_device(request).work
    failures = 0
    for memory in (64 << 20, 40 << 20):
        plan = make_device_plan(work, memory, device.fuses)

        def run(memory=memory):
            run_on_device(request, device, memory)

        if isinstance(device, CudaDevice):
            allocated, peak = device.peak(run)
            say(f"  note    {format_bytes(allocated)} of it in use at a time")
        else:
            hard = SimulatedDevice(memory)
            run_on_device(request, hard, memory)
            peak = hard.peak
        failures += peak > memory
        say(
            f"  {'ok    ' if peak <= memory else 'FAILED'}  memory="
            f"{format_bytes(memory)}: {format_bytes(peak)} were taken, "
            f"{format_bytes(plan.peak_bytes)} planned (of these, workspace "
            f"{format_bytes(plan.items[Item.WORKSPACE])})"
        )
    return failures


def _some_rows(device: Device, nodes: int, say) -> int:
    """A few rows of a larger graph, against the engine on the CPU."""
    g, x = _random(20_000, 400_000, 24)
    some = torch.arange(0, 20_000, 71)
    wanted = block_aggregate(g, x, 3, nodes=some)
    found = _compute(g, x, 3, device, 40 << 20, nodes=some)
    worst = _worst(found, [wanted[hop].double().numpy() for hop in range(4)])
    say(
        f"  {'ok    ' if worst <= 1e-4 else 'FAILED'}  rows of some nodes: "
        f"largest difference from the CPU {worst:.1e}"
    )
    return int(worst > 1e-4)


def _fast(device: Device, nodes: int, say) -> int:
    """Seconds, beside the engine on this CPU. Nothing here can fail."""
    g, x = _random(nodes, 16 * nodes, 64)
    g.create_formats_()

    def seconds(work):
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
