"""Torch module for the LC version of TAGConv."""

from . import plain
from .hop_layer import HopLayer


class LCTAGConv(HopLayer, plain.LCTAGConv):
    r"""LC version of the topology adaptive graph convolution, from `GNN
    Transformation Framework for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.TAGConv` computes :math:`\sum_{j=0}^K S^j H \Theta_j`. Here
    :math:`H` is given by its hops, :math:`f(S^k X)`, and swapping the filter
    :math:`S` with what was done to the rows before makes each aggregation a
    shift to the next hop:

    .. math::
      h^{(l+1)}[k] = \sigma\left(\sum_{j=0}^K h^{(l)}[k + j] \Theta_j^{(l)}
      + b^{(l)}\right)

    A stack of L of these layers needs the hop features 0 to L times k,
    computed once by ``block_aggregate(g, x, K=L * k, norm="in",
    self_loop=False)``: TAGConv divides by the in-degrees of both ends of an
    edge. If every node of ``g`` has as many in-edges as out-edges, as in an
    undirected graph, norm="both" is the same filter. Weights ``w`` of edges
    are given to the layer as they are, and to block_aggregate as
    ``norm="none", edge_weight=dgl.nn.EdgeWeightNorm("both")(g, w)``. The
    layers of a DGL model can be swapped one by one: signature, parameters and
    their names are TAGConv's.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    out_feats : int
        Output feature size.
    k : int, optional
        Number of hops :math:`K`. Default: ``2``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation : callable activation function/layer or None, optional
        Applied to the updated features if given. Default: ``None``.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCTAGConv
    >>> g = dgl.to_bidirected(dgl.graph(([0, 1, 2, 3, 2], [1, 2, 3, 4, 0])))
    >>> hops = block_aggregate(g, th.ones(5, 10), K=4, self_loop=False)
    >>> conv1, conv2 = LCTAGConv(10, 16, k=2), LCTAGConv(16, 2, k=2)
    >>> conv2(g, th.relu(conv1(g, hops))).shape
    torch.Size([5, 2])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> conv2(None, th.relu(conv1(None, batch))).shape
    torch.Size([2, 2])
    """

    replaces = "TAGConv"
    normalizes_weights = True

    def _norm_of_filter(self, weighted: bool) -> str:
        return "none" if weighted else "in"
