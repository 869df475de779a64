"""Devices with memory of their own: what the pipeline asks of them."""

import warnings

import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .cuda import CudaDevice, why_not
from .protocol import Device


def find_device(device: str | torch.device | None) -> Device | None:
    """The device by its name; None for the CPU.

    A GPU that cannot be used gives way to the CPU, with a warning that says
    why.
    """
    try:
        device = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError):
        raise DGLError(
            f"device={device!r} should be 'cpu', 'cuda' or 'cuda:1'."
        ) from None
    if device.type == "cpu":
        return None
    if device.type != "cuda":
        raise DGLError(
            f"device={str(device)!r} is not supported: give 'cpu' or 'cuda'."
        )
    reason = why_not(device)
    if reason is None:
        return CudaDevice(device.index)
    warnings.warn(
        f"device={str(device)!r} cannot be used: {reason}. Hop features are "
        f"computed on the CPU.",
        DGLWarning,
        stacklevel=3,
    )
    return None
