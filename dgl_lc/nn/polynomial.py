"""Base class of the models that propagate the output of a perceptron."""

from collections.abc import Callable, Sequence
from typing import Any

import torch as th
from dgl import DGLError

from .mlp import MLP
from .model import HopModel, activation_name, check_last_hop


class PolynomialModel(HopModel):
    r"""A model that weighs the outputs of one perceptron on all hops.

    .. math::
      H = \sum_{k=0}^K \theta_k\, \mathrm{MLP}(S^k X)

    The coefficients, which a subclass has, are or start as those of
    personalised PageRank: :func:`pagerank`.

    Parameters
    ----------
    in_feats, hid_feats, out_feats : int
        As for the subclass.
    widths : sequence of int
        Columns of each of the perceptron's hidden layers.
    K : int
        The last hop.
    alpha : float
        The teleport probability, 0 to 1.
    dropout : float
        Dropout rate before each of the perceptron's layers.
    activation : callable or str
        The activation between the perceptron's layers.
    norm, self_loop
        As for :class:`~dgl_lc.nn.model.HopModel`.
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        widths: Sequence[int],
        K: int,
        alpha: float,
        dropout: float,
        activation: Callable | str,
        norm: str,
        self_loop: bool,
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm, self_loop)
        check_last_hop(K)
        if not 0 <= alpha <= 1:
            raise DGLError(f"alpha={alpha!r} should be between 0 and 1.")
        self._K = K
        self._alpha = alpha
        self.mlp = MLP([in_feats, *widths, out_feats], dropout, activation)

    @property
    def hops(self) -> list[int]:
        """The hops the model needs: 0 to K."""
        return list(range(self._K + 1))

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "alpha": self._alpha,
            "num_layers": len(self.mlp.layers),
            "dropout": self.mlp.dropout.p,
            "activation": activation_name(self.mlp.activation),
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        self.mlp.reset_parameters()

    def extra_repr(self) -> str:
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"K={self._K}, alpha={self._alpha}"


def pagerank(K: int, alpha: float) -> th.Tensor:
    r"""Compute the coefficients of K steps of personalised PageRank.

    >>> pagerank(2, 0.5)
    tensor([0.5000, 0.2500, 0.2500])
    """
    steps = th.arange(K + 1)
    found = alpha * (1 - alpha) ** steps.double()
    found[K] = (1 - alpha) ** K
    return found.float()
