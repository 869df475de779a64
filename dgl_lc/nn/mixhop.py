"""Torch module for the LC version of MixHop."""

from collections.abc import Callable, Sequence
from typing import Any

import torch as th
from dgl import DGLError

from . import plain
from .activations import activation_name, get_activation
from .model import HopModel


class LCMixHop(HopModel, plain.LCMixHop):
    r"""LC version of MixHop, from `MixHop: Higher-Order Graph Convolutional
    Architectures via Sparsified Neighborhood Mixing
    <https://arxiv.org/abs/1905.00067>`__

    A layer of MixHop concatenates powers of the filter,
    :math:`H' = \Vert_{p \in P}\, \sigma(S^p H W_p)`. With the filter swapped
    to the inside, a layer at hop k reads the layer before it at hops k + p:

    .. math::
      h^{(l+1)}[k] = \Vert_{p \in P}\, \sigma(h^{(l)}[k + p]\, W^{(l)}_p),
      \quad h^{(0)}[k] = S^k X

    and the output is a linear layer on hop 0 of the last.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns for each power.
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        The number of layers. Default: 2.
    p : sequence of int, optional
        The powers. Default: ``(0, 1, 2)``.
    input_dropout : float, optional
        Dropout rate of the features. Default: 0.
    layer_dropout : float, optional
        Dropout rate before each later layer. Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: :func:`torch.tanh`.
    batchnorm : bool, optional
        Whether each layer is normalised, with one set of statistics for all
        hops. Default: False.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.
    **options
        ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCMixHop
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = LCMixHop(10, 16, 3, p=(0, 1, 3))
    >>> model.hops
    [0, 1, 2, 3, 4, 6]
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 2,
        p: Sequence[int] = (0, 1, 2),
        input_dropout: float = 0.0,
        layer_dropout: float = 0.0,
        activation: Callable | str = th.tanh,
        batchnorm: bool = False,
        norm: str = "both",
        self_loop: bool = True,
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, num_layers, p, input_dropout,
            layer_dropout, get_activation(activation), batchnorm, norm=norm,
            self_loop=self_loop, **options,
        )  # fmt: skip
        if batchnorm and self._hidden_normalization is not None:
            raise DGLError(
                "batchnorm=True is normalization='batch': give one of both."
            )
        self._normalize_hidden([hid_feats * len(self._p)] * num_layers)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "num_layers": len(self.layers),
            "p": self._p,
            "input_dropout": self.input_dropout.p,
            "layer_dropout": self.layer_dropout.p,
            "batchnorm": self._batchnorm,
            "activation": activation_name(self._activation),
        }
