"""Torch module for the LC version of APPNP."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel
from .normalization import NormalizedMLP


class LCAPPNP(HopModel, plain.LCAPPNP):
    r"""LC version of APPNP, from `Predict then Propagate: Graph Neural
    Networks meet Personalized PageRank <https://arxiv.org/abs/1810.05997>`__

    APPNP propagates the output of a perceptron, :math:`H^{(k+1)} =
    (1-\alpha) S H^{(k)} + \alpha H^{(0)}`: a polynomial of the filter with
    constant coefficients. Its LC version is

    .. math::
      H = \sum_{k=0}^K \theta_k\, \mathrm{MLP}(S^k X), \quad
      \theta_k = \alpha(1-\alpha)^k, \quad \theta_K = (1-\alpha)^K

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the perceptron's layers.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The number of steps of the propagation. Default: 10.
    alpha : float, optional
        The teleport probability. Default: 0.1.
    num_layers : int, optional
        The perceptron's layers. Default: 2.
    dropout : float, optional
        Dropout rate before each of the perceptron's layers. Default: 0.
    activation : callable or str, optional
        The activation between the perceptron's layers. Default: ReLU.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.
    **options
        ``input_dropout``, ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCAPPNP
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = LCAPPNP(10, 16, 3, K=4)
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 10,
        alpha: float = 0.1,
        num_layers: int = 2,
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, K, alpha, num_layers, dropout,
            get_activation(activation), norm=norm, self_loop=self_loop,
            **options,
        )  # fmt: skip
        if self._hidden_normalization is not None:
            self.mlp = NormalizedMLP(self.mlp, self._hidden_normalization)

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
