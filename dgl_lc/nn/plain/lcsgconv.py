"""Torch module for the LC version of the simplifying graph convolution"""
# pylint: disable= no-member, arguments-differ, invalid-name
from torch import nn

from .lcgraphconv import check_columns, LCConv, LCGraphConv
from .model_on_hops import check_last_hop


class LCSGConv(LCConv):
    r"""LC version of the SGC layer, from `GNN Transformation Framework for
    Improving Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.SGConv` computes :math:`S^K H \Theta` for the
    filter :math:`S = D^{-1/2} A D^{-1/2}` of a graph. Here :math:`H` is given
    by its hops, :math:`f(S^k X)`, and swapping :math:`S` with what was done to
    the rows before makes the aggregations K steps to later hops:

    .. math::
      h^{(l+1)}[k] = h^{(l)}[k + K] \Theta^{(l)} + b^{(l)}

    The features' hops :math:`S^k X` are computed once, before training. As in
    SGConv, :math:`D` are the in-degrees on both sides, and the graph is
    expected to have self-loops. Signature, parameters and their names are
    those of SGConv.

    Parameters
    ----------
    in_feats : int
        Number of input features.
    out_feats : int
        Number of output features.
    k : int
        Number of hops :math:`K`. Default: ``1``.
    cached : bool
        As in :class:`~dgl.nn.pytorch.conv.SGConv`, and without effect: the
        hops are what it would cache. Default: ``False``.
    bias : bool
        If True, adds a learnable bias to the output. Default: ``True``.
    norm : callable activation function/layer or None, optional
        If not None, applies normalization to the aggregated features, before
        the linear layer. It has to act on each row by itself. Default:
        ``None``.
    allow_zero_in_degree : bool, optional
        As in :class:`~dgl.nn.pytorch.conv.SGConv`, and without effect: the
        hops of a node without in-edges are what they were computed to be.
        Default: ``False``.

    Attributes
    ----------
    fc : torch.nn.Linear
        The learnable linear module.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import SGConv
    >>> from dgl_lc.nn import LCSGConv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = SGConv(10, 10, k=2, bias=False)
    >>> aggregate.fc = th.nn.Identity()
    >>> hop2 = aggregate(g, th.ones(6, 10))
    >>> conv = LCSGConv(10, 2, k=2)
    >>> conv(g, [None, None, hop2]).shape
    torch.Size([6, 2])

    >>> # A mini-batch of rows
    >>> conv(None, [None, None, hop2[[4, 0]]]).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        in_feats,
        out_feats,
        k=1,
        cached=False,
        bias=True,
        norm=None,
        allow_zero_in_degree=False,
    ):
        super().__init__()
        check_last_hop(k, "k")
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self._cached = cached
        self._k = k
        self.norm = norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.reset_parameters()

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        As in :class:`~dgl.nn.pytorch.conv.SGConv`, the weight is initialized
        using Glorot uniform initialization, and the bias is initialized to
        be zero.
        """
        nn.init.xavier_uniform_(self.fc.weight)
        if self.fc.bias is not None:
            nn.init.zeros_(self.fc.bias)

    set_allow_zero_in_degree = LCGraphConv.set_allow_zero_in_degree

    def forward(self, graph, feat, edge_weight=None):
        r"""

        Description
        -----------
        Aggregate K times: the K-th hop after each, times the weight.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation, and is here so that
            the code of a model stays as it is.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(hops, N, D_{in})`.
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

        def update(rst):
            check_columns(rst, self.fc.in_features)
            if self.norm is not None:
                # It may change its argument in place.
                rst = self.norm(rst.clone())
            return self.fc(rst)

        return self._update_hops(update, [(feat, self._k)], graph, edge_weight)
