"""Tensors of real and of complex numbers, which can both be aggregated."""

import torch

#: The complex types of double precision and of others, by real types.
_COMPLEX = {torch.float64: torch.complex128, torch.float32: torch.complex64}


def has_numbers(tensor: torch.Tensor) -> bool:
    """Return whether it has real or complex numbers, and no integers."""
    return tensor.is_floating_point() or tensor.is_complex()


def converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert numbers to a real type, or to the complex type of its size."""
    if tensor.is_complex():
        return tensor.to(_COMPLEX[dtype])
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def normal_like(
    tensor: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """Draw random numbers of the type and shape of a tensor."""
    drawn = torch.randn(tensor.shape, generator=generator)
    if tensor.is_complex():
        drawn = torch.complex(
            drawn, torch.randn(tensor.shape, generator=generator)
        )
    return drawn.to(tensor)


def real_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as pairs of real ones, and others as they are."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.resolve_conj())
