"""Multiplying rows by a diagonal, in place."""

import numpy as np
import torch

from ..._common.threads import ranges, run_parallel

#: Rows that are scaled at a time.
_SCALE_ROWS = 1 << 14


def scale_rows(
    values: torch.Tensor, diagonal: np.ndarray, rows: np.ndarray | None
) -> None:
    """Multiply row i by the diagonal's ``rows[i]``, or by its i for None."""
    parts = ranges(len(values), max(1, -(-len(values) // _SCALE_ROWS)))

    def work(_: int, part: int) -> None:
        first, last = parts[part]
        own = slice(first, last) if rows is None else rows[first:last]
        factor = torch.from_numpy(diagonal[own]).unsqueeze(1)
        values[first:last].mul_(factor.to(values.dtype))

    run_parallel(work, len(parts))


def scale_bytes(itemsize: int) -> int:
    """Count the bytes that :func:`scale_rows` takes for each thread."""
    return _SCALE_ROWS * (itemsize + 8)
