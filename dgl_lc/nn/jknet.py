"""Torch module for the LC version of JKNet."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel


class LCJKNet(HopModel, plain.LCJKNet):
    r"""LC version of JKNet, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \mathrm{COMB}_{k=1}^K \sigma(\dots\sigma(S^k X W_1)\dots W_{k-1}) W_k

    The weights are shared by the branches: branch k passes through the first
    k layers. COMB is the concatenation or the maximum of the branches.

    As published, the concatenation goes through an activation, dropout and a
    linear layer, while the maximum is the output itself; in mode ``'max'``
    all layers therefore have ``out_feats`` columns.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of each layer (mode ``'cat'``).
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        K, the number of layers and of branches. Default: 3.
    mode : str, optional
        ``'cat'`` or ``'max'``, as in :class:`dgl.nn.JumpingKnowledge`.
        Default: ``'cat'``.
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
    >>> from dgl_lc.nn import LCJKNet
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = LCJKNet(10, 16, 3, num_layers=2)
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> hops = model.precompute(g, x)
    >>> hops
    HopFeatures(hops=[1, 2], rows=6, columns=10, dtype=torch.float32)
    >>> model(None, hops.rows(th.tensor([4, 0]))).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 3,
        mode: str = "cat",
        dropout: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, num_layers, mode, dropout,
            get_activation(activation), norm=norm, self_loop=self_loop,
            **options,
        )  # fmt: skip
        if mode == "cat":
            widths = [hid_feats] * (num_layers - 1) + [num_layers * hid_feats]
        else:
            widths = [out_feats] * (num_layers - 1)
        self._normalize_hidden(widths)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "num_layers": len(self.layers),
            "mode": self._mode,
            "dropout": self.dropout.p,
            "activation": activation_name(self._activation),
        }
