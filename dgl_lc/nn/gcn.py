"""Torch module for the LC version of GCN."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel


class LCGCN(HopModel, plain.LCGCN):
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
    **options
        ``input_dropout``, ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

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
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, num_layers, dropout,
            get_activation(activation), norm, norm=norm, self_loop=self_loop,
            **options,
        )  # fmt: skip
        self._normalize_hidden([hid_feats] * (num_layers - 1))

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "num_layers": len(self.layers),
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }
