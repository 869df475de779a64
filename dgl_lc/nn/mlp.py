"""The row-wise part of models that propagate after a perceptron."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch as th
from torch import nn

from .dropout import Dropout
from .model import get_activation


class MLP(nn.Module):
    """Linear layers with dropout before and an activation between them.

    Parameters
    ----------
    widths : sequence of int
        Columns of the input, of each layer, of the output.
    dropout : float
        Dropped before each layer.
    activation : callable or str
        Between the layers.
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

    def reset_parameters(self):
        """Initialise all layers anew."""
        for layer in self.layers:
            layer.reset_parameters()

    def forward(self, feat: th.Tensor) -> th.Tensor:
        for number, layer in enumerate(self.layers):
            if number:
                feat = self.activation(feat)
            feat = layer(self.dropout(feat))
        return feat
