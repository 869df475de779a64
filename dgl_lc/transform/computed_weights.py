"""Weights that a module computes itself before each call.

``torch.nn.utils.weight_norm`` and ``spectral_norm`` keep the weight that they
computed last as an attribute. Such a tensor can't be copied, and need not be.
"""

import torch
from torch import nn
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm


def computed_weights(model: nn.Module) -> dict[int, torch.Tensor]:
    """Return a memo for :func:`copy.deepcopy` with copies of such weights."""
    found = {}
    for module in model.modules():
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, (WeightNorm, SpectralNorm)):
                weight = vars(module).get(hook.name)
                if isinstance(weight, torch.Tensor):
                    found[id(weight)] = weight.detach().clone()
    return found
