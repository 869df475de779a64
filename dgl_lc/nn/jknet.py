"""Torch module for the LC version of JKNet."""

from collections.abc import Callable
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
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
)


class LCJKNet(HopModel):
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
    ):
        super().__init__(in_feats, hid_feats, out_feats, norm, self_loop)
        check_sizes(num_layers=num_layers)
        if mode not in ("cat", "max"):
            raise DGLError(f"mode={mode!r} should be 'cat' or 'max'.")
        self._mode = mode
        self._activation = get_activation(activation)
        width = hid_feats if mode == "cat" else out_feats
        self.layers = nn.ModuleList(
            nn.Linear(width if layer else in_feats, width)
            for layer in range(num_layers)
        )
        self.dropout = Dropout(dropout)
        self.output: nn.Linear | None = None
        if mode == "cat":
            self.output = nn.Linear(num_layers * hid_feats, out_feats)
        self.reset_parameters()

    @property
    def hops(self) -> list[int]:
        """The hops the model needs: 1 to K."""
        return list(range(1, len(self.layers) + 1))

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

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters, as GraphConv's and Linear's.
        """
        for layer in self.layers:
            init.xavier_uniform_(layer.get_parameter("weight"))
            init.zeros_(layer.get_parameter("bias"))
        if self.output is not None:
            self.output.reset_parameters()

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute the LC version of JKNet.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with hops 1 to K, hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.inputs(graph, feat)
        branches = []
        for number, layer in enumerate(self.layers):
            if number:
                rows = self._activation(rows)
            rows = layer(self.dropout(rows))
            # The first of the branches that are left ends with this layer.
            branches.append(rows[0])
            rows = rows[1:]
        if self.output is None:
            return th.stack(branches).amax(dim=0)
        rst = self._activation(th.cat(branches, dim=-1))
        return self.output(self.dropout(rst))

    def extra_repr(self) -> str:
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"num_layers={len(self.layers)}, mode={self._mode}"
