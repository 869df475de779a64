"""The number type that a model computes in while it is trained."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from dgl import DGLError
from torch import nn

PRECISIONS = ("fp32", "bf16")


def check_precision(precision: str) -> None:
    """Refuse a precision that is not known."""
    if precision == "fp16":
        raise DGLError(
            "precision='fp16' would need scaled gradients, which fit does not "
            "have: 'bf16' has the range of fp32 and needs none."
        )
    if precision not in PRECISIONS:
        raise DGLError(
            f"precision={precision!r} should be one of {', '.join(PRECISIONS)}."
        )


def call_model(
    model: nn.Module, precision: str, device: torch.device, *args: Any
) -> Any:
    """Call a model, with autocast to bfloat16 if that is the precision."""
    with _autocast(precision, device):
        return model(*args)


def _autocast(
    precision: str, device: torch.device
) -> AbstractContextManager[Any]:
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def widened(output: torch.Tensor) -> torch.Tensor:
    """Return an output in which a loss is accurate."""
    return output.float() if output.dtype == torch.bfloat16 else output
