"""Testing on random numbers whether an operation is linear in its rows."""

from collections.abc import Callable
from math import isfinite

import torch

from .number_types import has_numbers, normal_like

#: How an operation treats the rows of its arguments.
LINEAR, AFFINE, NONLINEAR = "linear", "bias", "non-linear"

#: Magnitudes of the numbers that a function is tested on: a clamp, or a small
#: bias, has an effect at some of them only.
_SCALES = (1e-3, 1.0, 1e3, 1e6)


def linearity(
    outputs: Callable[..., list[torch.Tensor]], generator: torch.Generator
) -> str:
    """Return LINEAR, AFFINE (linear plus a constant) or NONLINEAR.

    Parameters
    ----------
    outputs : callable
        ``outputs(rows, change)`` runs the operation on these rows, with its
        arguments changed by the function ``change``.
    """
    rows = torch.arange(11)
    seed = int(torch.randint(2**31, (), generator=generator))

    known: dict[tuple, torch.Tensor] = {}

    def draw(like: torch.Tensor, add: int) -> torch.Tensor:
        """Draw random numbers, the same ones for the same shape."""
        key = (like.shape, like.dtype, add)
        if key not in known:
            made = torch.Generator().manual_seed(seed + add + like.numel())
            known[key] = normal_like(like, made)
        return known[key]

    def noise(scale: float, add: int) -> Callable:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            return scale * draw(tensor, add)

        return change

    def evaluate(change: Callable) -> list[torch.Tensor]:
        return outputs(rows, change)

    zero = evaluate(torch.zeros_like)
    if not all(map(has_numbers, zero)):
        return NONLINEAR
    linear = all(not tensor.any() for tensor in zero)
    for scale in _SCALES:
        u, v = noise(scale, 0), noise(scale, 1)
        parts = zip(
            evaluate(u), evaluate(v),
            evaluate(lambda t, u=u, v=v: 3 * u(t) + v(t)), zero, strict=True,
        )  # fmt: skip
        for p, q, both, z in parts:
            if not torch.isfinite(both).all():
                return NONLINEAR
            found, expected = 3 * (p - z) + (q - z), both - z
            double = z.dtype in (torch.float64, torch.complex128)
            rtol = 1e-6 if double else 1e-4
            if not close(found, expected, rtol):
                # Beside a large constant, rounding alone makes a difference.
                rounding = 32 * torch.finfo(z.dtype).eps * _size(z)
                if _size(found - expected) > rounding:
                    return NONLINEAR
    return LINEAR if linear else AFFINE


def close(a: torch.Tensor, b: torch.Tensor, rtol: float = 1e-3) -> bool:
    """Return whether two tensors are equal up to rounding.

    The tolerance is relative to the largest number.
    """
    if a.shape != b.shape:
        return False
    if not has_numbers(a):
        return torch.equal(a, b)
    rtol = max(rtol, 8 * torch.finfo(a.dtype).eps)
    size = _size(b)
    return torch.allclose(
        a, b, rtol=rtol, atol=0.1 * rtol * (size or 1e-6), equal_nan=True
    )


def _size(tensor: torch.Tensor) -> float:
    """Return the largest absolute value of the finite numbers."""
    if not tensor.numel():
        return 0.0
    largest = float(tensor.abs().max())
    if isfinite(largest):
        return largest
    finite = tensor[torch.isfinite(tensor)].abs()
    return float(finite.max()) if finite.numel() else 0.0
