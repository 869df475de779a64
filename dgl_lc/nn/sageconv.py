"""Torch module for the LC version of SAGEConv."""

from . import plain
from .hop_layer import HopLayer


class LCSAGEConv(HopLayer, plain.LCSAGEConv):
    r"""LC version of the GraphSAGE layer, from `GNN Transformation Framework
    for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`dgl.nn.SAGEConv` joins the features of a node with an aggregation
    of its neighbours'. If that is a mean, it is a filter :math:`S`, and
    swapping :math:`S` with what was done to the rows before makes the
    aggregation a shift to the next hop. For the aggregator types ``'mean'``
    and ``'gcn'``:

    .. math::
      h^{(l+1)}[k] &= \mathrm{norm}(\sigma(h^{(l)}[k] W_{self}^{(l)}
      + h^{(l)}[k + 1] W_{neigh}^{(l)} + b^{(l)}))

      h^{(l+1)}[k] &= \mathrm{norm}(\sigma(h^{(l)}[k + 1] W_{neigh}^{(l)}
      + b^{(l)}))

    A stack of K of these layers needs the hop features 0 to K
    (``'gcn'``: only K), computed once by :func:`dgl_lc.block_aggregate`:

    - ``'mean'``: ``block_aggregate(g, x, K=K, norm="right",
      self_loop=False)``.
    - ``'gcn'`` adds a self-loop to those that the graph has:
      ``block_aggregate(dgl.add_self_loop(g), x, K=K, norm="right",
      self_loop=False)``. The layer is then given ``g`` itself, or None.

    Weights of edges are given to both, the layer and block_aggregate; for
    ``'gcn'``, those of the added self-loops are 1. The layers of a DGL model
    can be swapped one by one: signature, parameters and their names are
    SAGEConv's.

    Parameters
    ----------
    in_feats : int
        Input feature size. A pair of sizes, which SAGEConv takes for
        bipartite graphs, is refused.
    out_feats : int
        Output feature size.
    aggregator_type : str
        ``'mean'`` or ``'gcn'``. SAGEConv's ``'pool'`` and ``'lstm'`` are not
        linear, so that they have no LC version.
    feat_drop : float, optional
        Dropout rate on features. Default: ``0``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    norm : callable activation function/layer or None, optional
        Row-wise normalization of the updated features. Default: ``None``.
    activation : callable activation function/layer or None, optional
        Applied to the updated features if given. Default: ``None``.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc import block_aggregate
    >>> from dgl_lc.nn import LCSAGEConv
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> hops = block_aggregate(
    ...     g, th.ones(6, 10), K=2, norm="right", self_loop=False
    ... )
    >>> conv1 = LCSAGEConv(10, 16, "mean", activation=th.relu)
    >>> conv2 = LCSAGEConv(16, 2, "mean")
    >>> conv2(g, conv1(g, hops)).shape
    torch.Size([6, 2])
    >>> batch = hops.rows(th.tensor([4, 0]))
    >>> conv2(None, conv1(None, batch)).shape
    torch.Size([2, 2])
    """

    replaces = "SAGEConv"

    @property
    def adds_self_loop(self) -> bool:  # type: ignore[override]
        """Whether the layer adds a self-loop to the graph's own edges."""
        return self._aggre_type == "gcn"

    def _norm_of_filter(self, weighted: bool) -> str:
        return "right"
