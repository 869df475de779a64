"""Optimizers: those that users give, and the parameters that decay."""

from collections.abc import Callable

import torch
from dgl import DGLError
from torch import nn


def make_optimizer(
    given: "torch.optim.Optimizer | Callable[[list], torch.optim.Optimizer]",
    parameters: list,
) -> torch.optim.Optimizer:
    """Return the optimizer that was given, or what the function makes."""
    if isinstance(given, torch.optim.Optimizer):
        return given
    if not callable(given):
        raise DGLError(
            f"optimizer should be an optimizer of torch.optim, or a function "
            f"that makes one from parameters, and is a {type(given).__name__}."
        )
    found = given(parameters)
    if not isinstance(found, torch.optim.Optimizer):
        raise DGLError(
            f"optimizer should make an optimizer of torch.optim, and makes a "
            f"{type(found).__name__}."
        )
    return found


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Sort parameters into groups: those that decay, and those that do not."""
    spared: frozenset[str] = getattr(model, "no_weight_decay", frozenset())
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise DGLError("the model has no parameters to train.")
    groups = [
        {
            "params": [p for n, p in named if n not in spared],
            "weight_decay": weight_decay,
        },
        {
            "params": [p for n, p in named if n in spared],
            "weight_decay": 0.0,
        },
    ]
    return [group for group in groups if group["params"]]
