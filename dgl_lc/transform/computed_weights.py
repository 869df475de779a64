"""Weights that a module computes itself before each call.

``torch.nn.utils.weight_norm``, ``spectral_norm`` and ``prune`` keep the weight
that they computed last as an attribute. Such a tensor can't be copied, and need
not be.
"""

import torch
from torch import nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm


def computed_weights(model: nn.Module) -> dict[int, torch.Tensor]:
    """Return a memo for :func:`copy.deepcopy` with copies of such weights."""
    found = {}
    for module in model.modules():
        for hook in module._forward_pre_hooks.values():
            name = ""
            if isinstance(hook, (WeightNorm, SpectralNorm)):
                name = hook.name
            elif isinstance(hook, BasePruningMethod):
                name = hook._tensor_name
            if name:
                weight = vars(module).get(name)
                if isinstance(weight, torch.Tensor):
                    found[id(weight)] = weight.detach().clone()
    return found
