"""What a pass over validation rows adds up, or keeps."""

from dataclasses import dataclass, field
from typing import Any

import torch

from .targets import Targets


def as_targets(given: Any) -> Targets:
    """Return targets; a tensor is one of classes."""
    return given if isinstance(given, Targets) else Targets(given)


@dataclass
class Validation:
    """What a pass over validation rows gives: sums, or all outputs."""

    loss: float = 0.0
    weight: float = 0.0
    right: int = 0
    entries: int = 0
    logits: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)

    def joined(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return all logits, and all targets."""
        return torch.cat(self.logits), torch.cat(self.values)
