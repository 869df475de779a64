"""Torch module for the LC version of MixHop."""

from collections.abc import Callable, Sequence
from typing import Any

import dgl
import torch as th
from dgl import DGLError
from torch import nn
from torch.nn import init

from .dropout import Dropout
from .model import (
    Features,
    HopModel,
    activation_name,
    check_sizes,
    get_activation,
    reset_all,
)


class LCMixHop(HopModel):
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
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm, self_loop)
        check_sizes(num_layers=num_layers)
        powers = sorted(p)
        whole = all(isinstance(q, int) and q >= 0 for q in powers)
        if not powers or not whole or len(set(powers)) < len(powers):
            raise DGLError(f"p={p!r} should hold different powers, 0 or more.")
        self._p = powers
        self._activation = get_activation(activation)
        self._batchnorm = batchnorm
        # The hops at which each layer's output is needed, the last's first.
        needed = [[0]]
        for _ in range(num_layers):
            needed.append(sorted({k + q for k in needed[-1] for q in powers}))
        self._needed = needed[::-1]
        width = hid_feats * len(powers)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    str(q): nn.Linear(
                        width if layer else in_feats, hid_feats, bias=False
                    )
                    for q in powers
                }
            )
            for layer in range(num_layers)
        )
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) for _ in range(num_layers) if batchnorm
        )
        self.input_dropout = Dropout(input_dropout)
        self.layer_dropout = Dropout(layer_dropout)
        self.output = nn.Linear(width, out_feats, bias=False)
        self.reset_parameters()

    @property
    def hops(self) -> list[int]:
        """The hops the model needs: all sums of powers."""
        return self._needed[0]

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

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters and the statistics of the norms.
        """
        for layer in self.layers:
            for linear in layer.children():
                init.xavier_uniform_(linear.get_parameter("weight"))
        reset_all(self.norms)
        init.xavier_uniform_(self.output.weight)

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute the LC version of MixHop.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with the hops of :attr:`hops`, hop tensors, or the
            features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.input_dropout(self.inputs(graph, feat))
        for number, layer in enumerate(self.layers):
            if number:
                rows = self.layer_dropout(rows)
            before, after = self._needed[number : number + 2]
            columns = []
            for q in self._p:
                places = [before.index(k + q) for k in after]
                linear = layer.get_submodule(str(q))
                columns.append(linear(rows[places]))
            rows = th.cat(columns, dim=-1)
            if self._batchnorm:
                rows = self.norms[number](rows.flatten(0, 1)).view_as(rows)
            rows = self._activation(rows)
        return self.output(rows[0])

    def extra_repr(self) -> str:
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"p={self._p}"
