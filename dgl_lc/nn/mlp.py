"""The row-wise part of models that propagate after a perceptron."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch as th
from torch import nn

from .dropout import Dropout
from .model import get_activation, reset_all


class MLP(nn.Module):
    """Linear layers with dropout before and an activation between them.

    Parameters
    ----------
    widths : sequence of int
        Columns of the input and of the output of each layer.
    dropout : float
        Dropout rate before each layer.
    activation : callable or str
        The activation between the layers.
    """

    def __init__(
        self, widths: Sequence[int], dropout: float, activation: Callable | str
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, out) for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)
        self.activation = get_activation(activation)

    def reset_parameters(self) -> None:
        """Reinitialize the learnable parameters of all layers."""
        reset_all(self.layers)

    def forward(self, feat: th.Tensor) -> th.Tensor:
        for number, layer in enumerate(self.layers):
            if number:
                feat = self.activation(feat)
            feat = layer(self.dropout(feat))
        return feat
