"""Torch module for the LC version of GCN."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from torch import nn

from ..hops import HopFeatures
from .dropout import Dropout
from .graphconv import LCGraphConv
from .model import (
    Features,
    HopModel,
    activation_name,
    check_sizes,
    get_activation,
    reset_all,
)


class LCGCN(HopModel):
    r"""LC version of GCN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sigma(\dots\sigma(S^K X W_1)\dots W_{K-1}) W_K

    A stack of :class:`LCGraphConv`, as a whole model.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the hidden layers.
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        K, the number of layers. Default: 2.
    dropout : float, optional
        Dropout rate before each layer. Default: 0.
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
    >>> from dgl_lc.nn import LCGCN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = LCGCN(10, 16, 3)
    >>> model.hops
    [2]
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 2,
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm, self_loop)
        check_sizes(num_layers=num_layers)
        self._activation = get_activation(activation)
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.layers = nn.ModuleList(
            LCGraphConv(width, out, norm=norm)
            for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)

    @property
    def hops(self) -> list[int]:
        """The hop the model needs: K."""
        return [len(self.layers)]

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "num_layers": len(self.layers),
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        reset_all(self.layers)

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute the LC version of GCN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with hop K, hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.inputs(graph, feat)[0]
        rst: Any = HopFeatures.from_stack(rows, self.hops, self.filter)
        for number, layer in enumerate(self.layers):
            if number:
                rst = self._activation(rst)
            rst = layer(None, self.dropout(rst))
        return rst
