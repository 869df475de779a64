"""Torch module for the LC version of APPNPConv"""
# pylint: disable= no-member, arguments-differ, invalid-name
from dgl import DGLError
from torch import nn

from .lcgraphconv import LCConv
from .model_on_hops import check_last_hop


class LCAPPNPConv(LCConv):
    r"""LC version of the approximate personalized propagation of neural
    predictions, from `GNN Transformation Framework for Improving Efficiency
    and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.APPNPConv` computes a polynomial of the
    filter :math:`S = D^{-1/2} A D^{-1/2}` of a graph, times the features
    :math:`H`. Here :math:`H` is given by its hops, :math:`f(S^k X)`, and
    swapping :math:`S` with what was done to the rows before makes each
    aggregation a step to the next hop:

    .. math::
      h^{(l+1)}[k] = \sum_{j=0}^{K-1} \alpha (1 - \alpha)^j h^{(l)}[k + j]
      + (1 - \alpha)^K h^{(l)}[k + K]

    The features' hops :math:`S^k X` are computed once, before training. The
    layer has no parameters. Its signature is that of APPNPConv.

    Parameters
    ----------
    k : int
        The number of iterations :math:`K`.
    alpha : float
        The teleport probability :math:`\alpha`.
    edge_drop : float, optional
        Has to be ``0``, the default: edges that are dropped in every
        iteration make another filter each time, and the hops are those of
        one filter.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn import LCAPPNPConv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(3):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> conv = LCAPPNPConv(k=3, alpha=0.5)
    >>> conv(g, hops).shape
    torch.Size([6, 10])

    >>> # A mini-batch of rows
    >>> conv(None, [hop[[4, 0]] for hop in hops]).shape
    torch.Size([2, 10])
    """

    def __init__(self, k, alpha, edge_drop=0.0):
        super().__init__()
        check_last_hop(k, "k")
        if edge_drop != 0:
            raise DGLError(
                f"edge_drop={edge_drop!r} has no LC version: edges that are "
                f"dropped in every iteration make another filter each time, "
                f"and hops are computed once, with one filter. Use "
                f"edge_drop=0, with dropout on the features before the "
                f"layer, or dgl.nn.APPNPConv on the graph."
            )
        self._k = k
        self._alpha = alpha
        self.edge_drop = nn.Dropout(edge_drop)

    def forward(self, graph, feat, edge_weight=None):
        r"""

        Description
        -----------
        Compute APPNP layer: each hop from itself and the K next ones.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation, and is here so that
            the code of a model stays as it is.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, *)`, with None for a hop that is not needed, or one
            tensor of shape :math:`(hops, N, *)`.
        edge_weight : torch.Tensor, optional
            Weights of edges are a part of the filter the hops were computed
            with, normalized by
            :class:`~dgl.nn.pytorch.conv.EdgeWeightNorm`. They are not used
            here.

        Returns
        -------
        list of torch.Tensor, or torch.Tensor
            The hops of the output, K fewer and of the same kind. If hop 0 is
            the only one, the tensor of hop 0.

        Raises
        ------
        DGLError
            If ``feat`` has no hop K.
        """

        def update(*fstack):
            # With k=0 nothing is computed, and the output is a copy.
            rst = fstack[-1] if self._k else fstack[-1].clone()
            for hop in reversed(fstack[:-1]):
                rst = (1 - self._alpha) * rst + self._alpha * hop
            return rst

        reads = [(feat, hop) for hop in range(self._k + 1)]
        return self._update_hops(update, reads, graph, edge_weight)
