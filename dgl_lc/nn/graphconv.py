"""Torch module for the LC version of GraphConv."""

from . import plain
from .hop_layer import HopLayer


class LCGraphConv(HopLayer, plain.LCGraphConv):
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

    Note
    ----
    GraphConv takes the edges of a graph as they are. Hop features are the
    same if they were precomputed with ``self_loop=False``, or if every node
    of the graph has exactly one self-loop. A graph that is given to
    ``forward`` is compared with the one of the hop features by its number of
    nodes and the degrees and self-loops of each, and edge weights by their
    sums; an error says what to change. A graph with the same degree at every
    node and other edges is not found, nor are weights in another order. Hop
    features made by hand do not know their graph. With rows of some nodes,
    give None as the graph.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCGraphConv
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> hops = block_aggregate(g, th.ones(6, 10), K=2, hops=[2])
    >>> conv1, conv2 = LCGraphConv(10, 16), LCGraphConv(16, 2)
    >>> conv2(g, th.relu(conv1(g, hops))).shape
    torch.Size([6, 2])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> conv2(None, th.relu(conv1(None, batch))).shape
    torch.Size([2, 2])
    """

    replaces = "GraphConv"

    def _norm_of_filter(self, weighted: bool) -> str:
        return self._norm
