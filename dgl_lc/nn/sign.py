"""Torch module for SIGN."""

from collections.abc import Callable
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from torch import nn

from .dropout import Dropout
from .model import (
    Features,
    HopModel,
    activation_name,
    check_last_hop,
    get_activation,
    reset_all,
)


class SIGN(HopModel):
    r"""SIGN, from `SIGN: Scalable Inception Graph Neural Networks
    <https://arxiv.org/abs/2004.11198>`__

    .. math::
      H = \sigma(\Vert_{k=0}^K S^k X \Theta_k)\, \Omega

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns for each hop.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: 3.
    dropout : float, optional
        Dropout rate of the features and before the last layer. Default: 0.
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
    >>> from dgl_lc.nn import SIGN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = SIGN(10, 16, 3, K=2)
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 3,
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm, self_loop)
        check_last_hop(K)
        self._K = K
        self._activation = get_activation(activation)
        self.layers = nn.ModuleList(
            nn.Linear(in_feats, hid_feats) for _ in range(K + 1)
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(hid_feats * (K + 1), out_feats)

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
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        reset_all([*self.layers, self.output])

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute SIGN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with hops 0 to K, hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.dropout(self.inputs(graph, feat))
        branches = [
            layer(hop) for layer, hop in zip(self.layers, rows, strict=True)
        ]
        rst = self._activation(th.cat(branches, dim=-1))
        return self.output(self.dropout(rst))

    def extra_repr(self) -> str:
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"K={self._K}"
