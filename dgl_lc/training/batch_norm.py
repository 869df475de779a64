"""Batch norm of a model that several ranks train."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from dgl.base import DGLWarning
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..ranks.group import Ranks
from ..rowwise import is_hops


class _SyncBatchNorm(nn.SyncBatchNorm):
    """torch's synchronised batch norm, which takes hop features as well."""

    def forward(self, input: Any) -> Any:
        if is_hops(input):
            rows = super().forward(input.stack)
            return input._with_rows([rows], input.nodes)
        return super().forward(input)


def warn_of_local_norms(model: nn.Module, device: torch.device) -> None:
    """Warn if ranks normalise batches by themselves, as on the CPU."""
    norms = _norms(model)
    if norms and device.type != "cuda":
        warnings.warn(
            f"{', '.join(norms)}: batch norm is not synchronised between "
            f"ranks on the CPU. Each rank normalises its own part of a batch, "
            f"and the running statistics are those of rank 0, so that results "
            f"depend on the number of ranks. Those of nn.LayerNorm do not.",
            DGLWarning,
            stacklevel=3,
        )


@contextmanager
def synchronised(
    model: nn.Module, ranks: Ranks, device: torch.device
) -> Iterator[None]:
    """Normalise batches over all ranks, for the time of a training run.

    torch has this for GPUs only. Afterwards the model has its own modules
    again.
    """
    norms = _norms(model)
    if not norms or device.type != "cuda":
        yield
        return
    swapped = {id(own): _swap(own, ranks) for own in norms.values()}
    back = {id(new): own for own, new in _pairs(norms, swapped)}
    _replace(model, swapped)
    try:
        yield
    finally:
        for own, new in _pairs(norms, swapped):
            own.training = new.training
        _replace(model, back)


def _norms(model: nn.Module) -> dict[str, _BatchNorm]:
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm)
        and not isinstance(module, nn.SyncBatchNorm)
    }


def _pairs(
    norms: dict[str, _BatchNorm], swapped: dict[int, nn.Module]
) -> list[tuple[nn.Module, nn.Module]]:
    return [(own, swapped[id(own)]) for own in norms.values()]


def _swap(own: Any, ranks: Ranks) -> nn.Module:
    """Make a synchronised module with the same weights and statistics."""
    found = _SyncBatchNorm(
        own.num_features, own.eps, own.momentum, own.affine,
        own.track_running_stats, ranks.group,
    )  # fmt: skip
    # The same tensors, not copies: the optimizer has them.
    found._parameters.update(own._parameters)
    found._buffers.update(own._buffers)
    return found.train(own.training)


def _replace(model: nn.Module, by: dict[int, nn.Module]) -> None:
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if id(child) in by:
                parent._modules[name] = by[id(child)]
