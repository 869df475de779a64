"""Torch module for the LC version of SGConv."""

from . import plain
from .hop_layer import HopLayer


class LCSGConv(HopLayer, plain.LCSGConv):
    r"""LC version of the SGC layer, from `GNN Transformation Framework for
    Improving Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.SGConv` computes :math:`S^K H \Theta`. Here :math:`H` is
    given by its hops, :math:`f(S^k X)`, and swapping the filter :math:`S`
    with what was done to the rows before makes the aggregations a shift by K
    hops:

    .. math::
      h^{(l+1)}[k] = h^{(l)}[k + K] \Theta^{(l)} + b^{(l)}

    One layer needs hop K alone, computed once by ``block_aggregate(g, x,
    K=k, hops=[k], norm="in", self_loop=False)``: SGConv divides by the
    in-degrees of both ends of an edge. If every node of ``g`` has as many
    in-edges as out-edges, as in an undirected graph, norm="both" is the same
    filter. Weights ``w`` of edges are given to the layer as they are, and to
    block_aggregate as ``norm="none",
    edge_weight=dgl.nn.EdgeWeightNorm("both")(g, w)``. Signature, parameters
    and their names are SGConv's.

    Parameters
    ----------
    in_feats : int
        Number of input features.
    out_feats : int
        Number of output features.
    k : int, optional
        Number of hops :math:`K`. Default: ``1``.
    cached : bool, optional
        As in :class:`dgl.nn.SGConv`, and without effect: the hop features are
        what it would cache. Default: ``False``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    norm : callable activation function/layer or None, optional
        Row-wise normalization of the aggregated features, before the linear
        layer. Default: ``None``.
    allow_zero_in_degree : bool, optional
        As in :class:`dgl.nn.SGConv`, and without effect: a node of in-degree
        0 has been given 0 by the precomputation.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCSGConv
    >>> g = dgl.to_bidirected(dgl.graph(([0, 1, 2, 3, 2], [1, 2, 3, 4, 0])))
    >>> g = dgl.add_self_loop(g)
    >>> x = th.ones(5, 10)
    >>> hops = block_aggregate(g, x, K=2, hops=[2], self_loop=False)
    >>> conv = LCSGConv(10, 2, k=2)
    >>> conv(g, hops).shape
    torch.Size([5, 2])
    >>> conv(None, hops.rows(th.tensor([4, 0]))).shape
    torch.Size([2, 2])
    """

    replaces = "SGConv"
    normalizes_weights = True

    def _norm_of_filter(self, weighted: bool) -> str:
        return "none" if weighted else "in"
