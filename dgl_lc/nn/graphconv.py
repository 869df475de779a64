"""Torch module for the LC version of GraphConv."""

from collections.abc import Callable
from typing import Any

import dgl
import torch as th
from dgl import DGLError
from torch import nn
from torch.nn import init

from ..hops import NORMS, HopFeatures


class LCGraphConv(nn.Module):
    r"""LC version of the graph convolution, from `GNN Transformation Framework
    for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.GraphConv` computes :math:`\sigma(S H W + b)`. Here
    :math:`H` is given by its hops, :math:`f(S^k X)`, and swapping the filter
    :math:`S` with what was done to the rows before makes the aggregation a
    shift to the next hop:

    .. math::
      h^{(l+1)}[k] = \sigma(h^{(l)}[k + 1] W^{(l)} + b^{(l)})

    A stack of K of these layers reads hop K of the features, computed once by
    :func:`dgl_lc.block_aggregate`, and trains on mini-batches of rows without
    a graph. The layers of a DGL model can be swapped with it one by one:
    signature, parameters and their names are GraphConv's.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    out_feats : int
        Output feature size.
    norm : str, optional
        The norm of the filter the features were precomputed with, as in
        :class:`dgl.nn.GraphConv`. Default: ``'both'``.
    weight : bool, optional
        If True, apply a linear layer. Default: ``True``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation : callable activation function/layer or None, optional
        Applied to the updated features if given. Default: ``None``.
    allow_zero_in_degree : bool, optional
        As in :class:`dgl.nn.GraphConv`, and without effect: a node of
        in-degree 0 has been given 0 by the precomputation.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCGraphConv
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> hops = block_aggregate(g, th.ones(6, 10), K=2, hops=[2])
    >>> conv1, conv2 = LCGraphConv(10, 16), LCGraphConv(16, 2)
    >>> conv2(g, th.relu(conv1(g, hops))).shape
    torch.Size([6, 2])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> conv2(None, th.relu(conv1(None, batch))).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        norm: str = "both",
        weight: bool = True,
        bias: bool = True,
        activation: Callable | None = None,
        allow_zero_in_degree: bool = False,
    ):
        super().__init__()
        if norm not in NORMS:
            raise DGLError(
                f"norm={norm!r} is not known: choose one of "
                f"{', '.join(map(repr, NORMS))}."
            )
        self._in_feats = in_feats
        self._out_feats = out_feats
        self._norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree
        if weight:
            self.weight = nn.Parameter(th.empty(in_feats, out_feats))
        else:
            self.register_parameter("weight", None)
        if bias:
            self.bias = nn.Parameter(th.empty(out_feats))
        else:
            self.register_parameter("bias", None)
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters: Glorot's for the weight, zero for
        the bias.
        """
        if self.weight is not None:
            init.xavier_uniform_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(
        self,
        graph: dgl.DGLGraph | None,
        feat: HopFeatures,
        weight: th.Tensor | None = None,
        edge_weight: th.Tensor | None = None,
    ) -> Any:
        r"""

        Description
        -----------
        Aggregate once: the next hop of each, times the weight.

        Parameters
        ----------
        graph : DGLGraph or None
            Not used; here so that a DGL model's code stays as it is.
        feat : HopFeatures
            Hop features, or what row-wise functions made of them.
        weight : torch.Tensor, optional
            External weight, if the module has none of its own.
        edge_weight : torch.Tensor, optional
            Edge weights have to be given to the precomputation. Here they
            only say that the features should be of a weighted filter.

        Returns
        -------
        HopFeatures or torch.Tensor
            The output's hops, one fewer; a tensor if that is hop 0 alone.
        """
        if not isinstance(feat, HopFeatures):
            raise DGLError(
                f"LCGraphConv needs hop features, got "
                f"{type(feat).__name__}: precompute them with dgl_lc."
                f"block_aggregate(g, x, K=…), K being the number of "
                f"LCGraphConv layers that follow each other. A tensor here "
                f"is hop 0: its hops were used up by earlier layers, or by "
                f"meeting a plain tensor."
            )
        if feat.filter.norm != self._norm:
            raise DGLError(
                f"LCGraphConv has norm={self._norm!r}, but the hop features "
                f"were precomputed with norm={feat.filter.norm!r}."
            )
        if edge_weight is not None and not feat.filter.weighted:
            raise DGLError(
                "edge_weight was given, but the hop features are of a filter "
                "without weights: give edge_weight= to block_aggregate."
            )
        if weight is None:
            weight = self.weight
        elif self.weight is not None:
            raise DGLError(
                "External weight is provided while at the same time the "
                "module has defined its own weight parameter. Please create "
                "the module with weight=False."
            )
        if weight is not None and feat.shape[-1] != len(weight):
            raise DGLError(
                f"feat has {feat.shape[-1]} columns, but the weight has "
                f"{len(weight)} rows."
            )
        rst = feat.shift()
        if weight is not None:
            rst = th.matmul(rst, weight)
        if self.bias is not None:
            rst = rst + self.bias
        if self._activation is not None:
            rst = self._activation(rst)
        return rst

    def extra_repr(self) -> str:
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        summary = "in={_in_feats}, out={_out_feats}, normalization={_norm}"
        return summary.format(**self.__dict__)
