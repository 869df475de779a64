"""Torch module for the LC version of GCN2Conv."""

from . import plain
from .hop_layer import HopLayer


class LCGCN2Conv(HopLayer, plain.LCGCN2Conv):
    r"""LC version of the GCNII layer, from `GNN Transformation Framework for
    Improving Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.GCN2Conv` aggregates with a filter :math:`S`. Here the
    features are given by their hops, :math:`f(S^k X)`, and swapping :math:`S`
    with what was done to the rows before makes the aggregation a shift to the
    next hop:

    .. math::
      h^{(l+1)}[k] = \sigma\left(\left((1 - \alpha) h^{(l)}[k + 1]
      + \alpha h^{(0)}[k]\right) \left((1 - \beta_l) I + \beta_l W^{(l)}\right)
      + b^{(l)}\right)

    A stack of K of these layers needs the hop features 0 to K, computed once
    by ``block_aggregate(g, x, K=K, norm="in", self_loop=False)``: GCN2Conv
    divides by the in-degrees of both ends of an edge. If every node of ``g``
    has as many in-edges as out-edges, as in an undirected graph, norm="both"
    is the same filter. Weights ``w`` of edges are given to the layer as they
    are, and to block_aggregate as ``norm="none",
    edge_weight=dgl.nn.EdgeWeightNorm("both")(g, w)``. The layers of a DGL
    model can be swapped one by one: signature, parameters and their names are
    GCN2Conv's.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    layer : int
        The index of the current layer, from 1 on.
    alpha : float, optional
        The fraction of the initial input features. Default: ``0.1``.
    lambda_ : float, optional
        Strength of the weights, :math:`\beta_l = \log(\lambda / l + 1)`.
        Default: ``1``.
    project_initial_features : bool, optional
        Whether initial and aggregated features share a weight. Default:
        ``True``.
    allow_zero_in_degree : bool, optional
        As in :class:`dgl.nn.GCN2Conv`, and without effect: a node of
        in-degree 0 has been given 0 by the precomputation.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation : callable activation function/layer or None, optional
        Applied to the updated features if given. Default: ``None``.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCGCN2Conv
    >>> g = dgl.to_bidirected(dgl.graph(([0, 1, 2, 3, 2], [1, 2, 3, 4, 0])))
    >>> g = dgl.add_self_loop(g)
    >>> hops = block_aggregate(g, th.ones(5, 3), K=2, self_loop=False)
    >>> conv1 = LCGCN2Conv(3, layer=1, alpha=0.5, activation=th.relu)
    >>> conv2 = LCGCN2Conv(3, layer=2, alpha=0.5)
    >>> conv2(g, conv1(g, hops, hops), hops).shape
    torch.Size([5, 3])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> conv2(None, conv1(None, batch, batch), batch).shape
    torch.Size([2, 3])
    """

    replaces = "GCN2Conv"
    normalizes_weights = True

    def _norm_of_filter(self, weighted: bool) -> str:
        return "none" if weighted else "in"
