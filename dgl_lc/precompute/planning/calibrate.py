r"""Measuring the coefficients of the published optimiser.

The paper leaves :math:`\alpha` and :math:`\beta` to the user, to be measured
"by monitoring the memory usage on small graphs". Here the allocator is asked
for the peak bytes of each block operation: a process's resident memory would
also count what other code leaves behind.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from dgl import DGLError
from torch.autograd.profiler import profile, record_function

from ..device.cuda import CudaDevice, why_not
from .published import Coefficients, Volumes

# Sizes (nodes, edges, columns) at which the operations are measured. Ids are
# always int64; values of 4 and of 8 bytes tell A and S apart.
_SIZES = [
    (2_000, 60_000, 16),
    (2_000, 120_000, 32),
    (20_000, 60_000, 16),
    (20_000, 120_000, 8),
]
_DTYPES = (torch.float32, torch.float64)


def calibrate(device: str | torch.device = "cpu") -> Coefficients:
    """Measure the coefficients for a device, on small random graphs.

    Parameters
    ----------
    device : str or torch.device
        Where the published scheme would compute: "cpu" or "cuda".

    Returns
    -------
    Coefficients
        To be given to :func:`dgl_lc.precompute.plan`. With them no measured
        operation takes more than the formula says.

    Examples
    --------
    >>> from dgl_lc.precompute import calibrate
    >>> calibrate("cpu").beta_X >= 1
    True
    """
    device = torch.device(device)
    if device.type == "cuda" and why_not(device) is not None:
        raise DGLError(
            f"device={str(device)!r} cannot be used: {why_not(device)}."
        )
    if device.type not in ("cpu", "cuda"):
        raise DGLError(f"device={str(device)!r} should be 'cpu' or 'cuda'.")
    points = [(*size, dtype) for size in _SIZES for dtype in _DTYPES]
    normalization = [_normalization(*point, device) for point in points]
    aggregation = [_aggregation(*point, device) for point in points]
    peaks = _peak_bytes(normalization + aggregation, device)
    volumes = [
        Volumes.of(n, m - n, d, dtype.itemsize) for n, m, d, dtype in points
    ]
    alpha = _fit([(v.A, v.S, v.D) for v in volumes], peaks[: len(points)])
    beta = _fit([(v.S, v.X) for v in volumes], peaks[len(points) :])
    return Coefficients(*alpha, *beta)


def _normalization(
    n: int, m: int, d: int, dtype: torch.dtype, device: torch.device
) -> Callable[[], None]:
    """One block of the published normalisation, operands copied included."""
    edges = torch.randint(0, n, (2, m))
    degrees = torch.rand(n, dtype=dtype) + 1

    def work() -> None:
        ids = edges.to(device, copy=True)
        scale = degrees.to(device, copy=True).pow(-0.5)
        values = scale[ids[0]] * scale[ids[1]]
        torch.sparse_coo_tensor(ids, values, (n, n), check_invariants=False)

    return work


def _aggregation(
    n: int, m: int, d: int, dtype: torch.dtype, device: torch.device
) -> Callable[[], None]:
    """One product of the published aggregation, and its sum."""
    edges = torch.randint(0, n, (2, m))
    values = torch.rand(m, dtype=dtype)
    features = torch.rand(n, d, dtype=dtype)

    def work() -> None:
        block = torch.sparse_coo_tensor(
            edges.to(device, copy=True), values.to(device, copy=True),
            (n, n), check_invariants=False,
        )  # fmt: skip
        columns = features.to(device, copy=True)
        total = torch.zeros_like(columns)
        total = total + torch.sparse.mm(block, columns)

    return work


def _peak_bytes(
    works: list[Callable[[], None]], device: torch.device
) -> list[int]:
    """Peak bytes allocated by each piece of work."""
    if device.type == "cuda":
        gpu = CudaDevice(device.index)
        return [gpu.peak(work)[0] for work in works]
    with profile(profile_memory=True) as record:
        for number, work in enumerate(works):
            with record_function(f"work {number}"):
                work()
    events = record.kineto_results.events()

    def begin(event: Any) -> int:  # in ns, or in us before torch 2.3
        named = "start_ns" if hasattr(event, "start_ns") else "start_us"
        return getattr(event, named)()

    def length(event: Any) -> int:
        named = "duration_ns" if hasattr(event, "start_ns") else "duration_us"
        return getattr(event, named)()

    memory = sorted(
        (begin(event), event.nbytes())
        for event in events
        if event.name() == "[memory]"
    )
    spans = {
        event.name(): (begin(event), begin(event) + length(event))
        for event in events
        if event.name().startswith("work ")
    }
    peaks = []
    for number in range(len(works)):
        first, last = spans[f"work {number}"]
        sizes = [size for time, size in memory if first <= time <= last]
        peaks.append(int(max(np.cumsum(sizes), default=0)))
    return peaks


def _fit(volumes: list[tuple[int, ...]], peaks: list[int]) -> list[float]:
    """Coefficients that explain the peaks, and never less than a peak."""
    matrix = np.array(volumes, float)
    wanted = np.array(peaks, float)
    weight = 1 / wanted
    active = list(range(matrix.shape[1]))
    while True:
        found, *_ = np.linalg.lstsq(
            matrix[:, active] * weight[:, None], wanted * weight, rcond=None
        )
        if (found >= 0).all():
            break
        active.pop(int(found.argmin()))
    coefs = np.zeros(matrix.shape[1])
    coefs[active] = found
    coefs *= (wanted / (matrix @ coefs)).max()
    return [float(c) for c in coefs]
