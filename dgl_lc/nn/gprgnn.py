"""Torch module for the LC version of GPRGNN."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel


class LCGPRGNN(HopModel, plain.LCGPRGNN):
    r"""LC version of GPRGNN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sum_{k=0}^K \gamma_k
      \sigma(\dots\sigma(S^k X W_1)\dots) W_T

    The coefficients :math:`\gamma_k` are learned and start as those of
    personalised PageRank, :math:`\gamma_k = \alpha(1-\alpha)^k` and
    :math:`\gamma_K = (1-\alpha)^K`. Training should not decay them
    (``no_weight_decay``).

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the perceptron's layers. As published, the last of them
        has half as many where there are three or more layers.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: 5.
    num_layers : int, optional
        T, the perceptron's layers. Default: 4.
    alpha : float, optional
        :math:`\alpha` of the coefficients' start, 0 to 1. Default: 0.1.
    dropout : float, optional
        Dropout rate before each of the perceptron's layers. Default: 0.
    dprate : float, optional
        Dropout rate of the perceptron's output (in GPRGNN, before the
        propagation). Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: ReLU.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCGPRGNN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = LCGPRGNN(10, 16, 3, K=2)
    >>> model.gamma.detach()
    tensor([0.1000, 0.0900, 0.8100])
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> batch = model.precompute(g, x).rows(th.tensor([4, 0]))
    >>> model(None, batch).shape
    torch.Size([2, 3])
    """

    no_weight_decay = frozenset({"gamma"})

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 5,
        num_layers: int = 4,
        alpha: float = 0.1,
        dropout: float = 0.0,
        dprate: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, K, num_layers, alpha, dropout,
            dprate, get_activation(activation), norm=norm,
            self_loop=self_loop,
        )  # fmt: skip

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "num_layers": len(self.mlp.layers),
            "alpha": self._alpha,
            "dropout": self.mlp.dropout.p,
            "dprate": self.dprate.p,
            "activation": activation_name(self.mlp.activation),
        }
