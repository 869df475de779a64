"""Torch module for SIGN."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel


class SIGN(HopModel, plain.SIGN):
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
    **options
        ``input_dropout``, ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

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
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, K, dropout,
            get_activation(activation), norm=norm, self_loop=self_loop,
            **options,
        )  # fmt: skip
        self._normalize_hidden([hid_feats * (K + 1)])

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }
