"""Torch module for the LC version of APPNPConv."""

from . import plain
from .hop_layer import HopLayer


class LCAPPNPConv(HopLayer, plain.LCAPPNPConv):
    r"""LC version of the approximate personalized propagation of neural
    predictions, from `GNN Transformation Framework for Improving Efficiency
    and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.APPNPConv` computes a polynomial of the filter :math:`S`,
    times the features :math:`H`. Here :math:`H` is given by its hops,
    :math:`f(S^k X)`, and swapping :math:`S` with what was done to the rows
    before makes each aggregation a shift to the next hop:

    .. math::
      h^{(l+1)}[k] = \sum_{j=0}^{K-1} \alpha (1 - \alpha)^j h^{(l)}[k + j]
      + (1 - \alpha)^K h^{(l)}[k + K]

    The layer needs the hop features 0 to K, computed once by
    ``block_aggregate(g, x, K=k, norm="both", self_loop=False)``. Weights
    ``w`` of edges are given to the layer as they are, and to block_aggregate
    as ``norm="none", edge_weight=dgl.nn.EdgeWeightNorm("both")(g, w)``. The
    signature is APPNPConv's; neither layer has parameters.
    :class:`~dgl_lc.nn.LCAPPNP` is the whole model.

    Parameters
    ----------
    k : int
        The number of iterations :math:`K`.
    alpha : float
        The teleport probability :math:`\alpha`.
    edge_drop : float, optional
        Has to be ``0``, the default: edges that are dropped in every
        iteration make another filter each time, and hop features are those of
        one filter.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCAPPNPConv
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> hops = block_aggregate(g, th.ones(6, 10), K=3, self_loop=False)
    >>> predict, propagate = th.nn.Linear(10, 2), LCAPPNPConv(k=3, alpha=0.5)
    >>> propagate(g, predict(hops)).shape
    torch.Size([6, 2])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> propagate(None, predict(batch)).shape
    torch.Size([2, 2])
    """

    replaces = "APPNPConv"
    normalizes_weights = True

    def _norm_of_filter(self, weighted: bool) -> str:
        return "none" if weighted else "both"
