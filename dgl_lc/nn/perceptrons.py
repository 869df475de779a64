"""The perceptrons of models that weigh hops, as their authors have them."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch as th
from torch import nn
from torch.nn import init

from .dropout import Dropout
from .normalization import make_norm, reset_norms


class Perceptron(nn.Module):
    """Linear layers; after each but the last: norm, activation, dropout.

    Parameters
    ----------
    widths : sequence of int
        Columns of the input and of the output of each layer.
    dropout : float
        Dropout rate after each activation.
    activation : callable
        The activation.
    normalization : str or None
        ``'batch'``, ``'layer'`` or None.
    """

    def __init__(
        self,
        widths: Sequence[int],
        dropout: float,
        activation: Callable,
        normalization: str | None,
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, out) for width, out in pairwise(widths)
        )
        self.norms = nn.ModuleList(
            make_norm(normalization, width) for width in widths[1:-1]
        )
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize weights by Glorot, with the gain of ReLU."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            init.xavier_uniform_(layer.weight, init.calculate_gain("relu"))
            init.zeros_(layer.bias)
        reset_norms(self.norms)
        reset_activation(self.activation)

    def forward(self, rows: th.Tensor) -> th.Tensor:
        """Compute the output for each row."""
        for layer, norm in zip(self.layers, self.norms, strict=False):
            rows = self.dropout(self.activation(norm(layer(rows))))
        return self.layers[-1](rows)


class InitialResidualPerceptron(nn.Module):
    r"""GAMLP's output network: layers that also see the first layer's output.

    With :math:`h^{(1)}` the output of the first layer, and :math:`\sigma`
    PReLU and dropout, a later layer computes

    .. math::
      z = \sigma(h^{(l)}), \quad h^{(l+1)} = \mathrm{norm}\big(
      ((1 - \alpha) z + \alpha h^{(1)}) W^{(l)}\big) + z

    The first and the last layer are linear layers with a norm. The first one
    adds its input to its output if both have the same columns.

    Parameters
    ----------
    in_feats, hid_feats, out_feats : int
        Columns of the input, of the hidden layers and of the output.
    num_layers : int
        The number of layers, 1 or more.
    dropout : float
        Dropout rate before each layer but the first.
    alpha : float
        :math:`\alpha`, the share of the first layer's output.
    normalization : str or None
        ``'batch'``, ``'layer'`` or None. Layer normalisation leaves out the
        last layer, whose columns are classes.
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int,
        dropout: float,
        alpha: float,
        normalization: str | None,
    ):
        super().__init__()
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        kinds = [normalization] * num_layers
        if normalization == "layer":
            kinds[-1] = None
        # A norm has a bias of its own.
        self.layers = nn.ModuleList(
            nn.Linear(width, out, bias=kind is None)
            for (width, out), kind in zip(pairwise(widths), kinds, strict=True)
        )
        self.norms = nn.ModuleList(
            make_norm(kind, out)
            for kind, out in zip(kinds, widths[1:], strict=True)
        )
        # A slope that nothing uses would get no gradient.
        self.activation = nn.PReLU() if num_layers > 1 else nn.Identity()
        self.dropout = Dropout(dropout)
        self._alpha = alpha
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize weights, uniform and scaled by the output's columns."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            bound = layer.out_features**-0.5
            init.uniform_(layer.weight, -bound, bound)
            if layer.bias is not None:
                init.zeros_(layer.bias)
        reset_norms(self.norms)
        reset_activation(self.activation)

    def forward(self, rows: th.Tensor) -> th.Tensor:
        """Compute the output for each row."""
        first = self.norms[0](self.layers[0](rows))
        if len(self.layers) == 1:
            return first
        if first.shape == rows.shape:
            first = first + rows
        rst = self._activate(first)
        for layer, norm in zip(
            self.layers[1:-1], self.norms[1:-1], strict=True
        ):  # fmt: skip
            # (1 - alpha) rst + alpha first
            mixed = th.lerp(rst, first.to(rst.dtype), self._alpha)
            rst = self._activate(norm(layer(mixed)) + rst)
        return self.norms[-1](self.layers[-1](rst))

    def _activate(self, rows: th.Tensor) -> th.Tensor:
        return self.dropout(self.activation(rows))


def reset_activation(activation: Callable) -> None:
    """Reset the slope of PReLU; other activations have learned nothing."""
    if isinstance(activation, nn.PReLU):
        activation.reset_parameters()
