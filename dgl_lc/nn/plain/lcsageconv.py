"""Torch module for the LC version of the GraphSAGE layer"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
from dgl import DGLError
from torch import nn

from .lcgraphconv import check_columns, LCConv


class LCSAGEConv(LCConv):
    r"""LC version of the GraphSAGE layer, from `GNN Transformation Framework
    for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.SAGEConv` joins the features of a node with
    an aggregation of its neighbours'. If that is a mean, it is a filter
    :math:`S` of the graph, and swapping :math:`S` with what was done to the
    rows before makes the aggregation a step to the next hop. For the
    aggregator types ``'mean'`` and ``'gcn'``:

    .. math::
      h^{(l+1)}[k] &= \mathrm{norm}(\sigma(h^{(l)}[k] W_{self}^{(l)}
      + h^{(l)}[k + 1] W_{neigh}^{(l)} + b^{(l)}))

      h^{(l+1)}[k] &= \mathrm{norm}(\sigma(h^{(l)}[k + 1] W_{neigh}^{(l)}
      + b^{(l)}))

    The features' hops :math:`S^k X` are computed once, before training, with
    :math:`S = D^{-1} A` for ``'mean'`` and :math:`S = (D + I)^{-1} (A + I)`
    for ``'gcn'``, where :math:`D` are the in-degrees. Signature, parameters
    and their names are those of SAGEConv.

    Parameters
    ----------
    in_feats : int
        Input feature size. A pair of sizes, which SAGEConv takes for
        bipartite graphs, is refused.
    out_feats : int
        Output feature size.
    aggregator_type : str
        Aggregator type to use: ``mean`` or ``gcn``. SAGEConv's ``pool`` and
        ``lstm`` have no LC version.
    feat_drop : float
        Dropout rate on features, default: ``0``.
    bias : bool
        If True, adds a learnable bias to the output. Default: ``True``.
    norm : callable activation function/layer or None, optional
        If not None, applies normalization to the updated features. It has to
        act on each row by itself.
    activation : callable activation function/layer or None, optional
        If not None, applies an activation function to the updated features.
        Default: ``None``.

    Attributes
    ----------
    fc_neigh : torch.nn.Linear
        The learnable linear module of the aggregated features.
    fc_self : torch.nn.Linear
        The learnable linear module of the node's own features, with the
        bias. Only for the aggregator type ``mean``.
    bias : torch.Tensor
        The learnable bias. Only for the aggregator type ``gcn``.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn import LCSAGEConv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> mean = GraphConv(
    ...     10, 10, "right", weight=False, bias=False, allow_zero_in_degree=True
    ... )
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(mean(g, hops[-1]))
    >>> conv1 = LCSAGEConv(10, 16, "mean", activation=th.relu)
    >>> conv2 = LCSAGEConv(16, 2, "mean")
    >>> conv2(g, conv1(g, hops)).shape
    torch.Size([6, 2])

    >>> # A mini-batch of rows
    >>> batch = [hop[[4, 0]] for hop in hops]
    >>> conv2(None, conv1(None, batch)).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        in_feats,
        out_feats,
        aggregator_type,
        feat_drop=0.0,
        bias=True,
        norm=None,
        activation=None,
    ):
        super().__init__()
        if aggregator_type in ("pool", "lstm"):
            raise DGLError(
                f"aggregator_type={aggregator_type!r} has no LC version: it "
                f"is not a linear function of the neighbours' features, so "
                f"that it can't be computed before training. Use 'mean' or "
                f"'gcn', or dgl.nn.SAGEConv on the graph."
            )
        if aggregator_type not in ("mean", "gcn"):
            raise DGLError(
                f"aggregator_type={aggregator_type!r} is not known: choose "
                f"'mean' or 'gcn'."
            )
        if isinstance(in_feats, (list, tuple)):
            raise DGLError(
                f"in_feats={in_feats!r} should be one int: a pair of sizes "
                f"is for bipartite graphs, whose nodes have no hops after "
                f"the first. Use dgl.nn.SAGEConv for them."
            )
        self._in_src_feats = self._in_dst_feats = in_feats
        self._out_feats = out_feats
        self._aggre_type = aggregator_type
        self.norm = norm
        self.feat_drop = nn.Dropout(feat_drop)
        self.activation = activation

        self.fc_neigh = nn.Linear(in_feats, out_feats, bias=False)
        if aggregator_type == "mean":
            self.fc_self = nn.Linear(in_feats, out_feats, bias=bias)
        elif bias:
            self.bias = nn.Parameter(th.zeros(out_feats))
        else:
            self.register_buffer("bias", None)

        self.reset_parameters()

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        As in :class:`~dgl.nn.pytorch.conv.SAGEConv`, the linear weights are
        initialized using Glorot uniform initialization.
        """
        gain = nn.init.calculate_gain("relu")
        if self._aggre_type == "mean":
            nn.init.xavier_uniform_(self.fc_self.weight, gain=gain)
        nn.init.xavier_uniform_(self.fc_neigh.weight, gain=gain)

    def forward(self, graph, feat, edge_weight=None):
        r"""

        Description
        -----------
        Compute the GraphSAGE layer: each hop from itself and the next one.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation, and is here so that
            the code of a model stays as it is.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(K + 1, N, D_{in})`.
        edge_weight : torch.Tensor, optional
            Weights of edges are a part of the filter the hops were computed
            with. They are not used here.

        Returns
        -------
        list of torch.Tensor, or torch.Tensor
            The hops of the output, one fewer and of the same kind. If hop 0
            is the only one, the tensor of hop 0.

        Raises
        ------
        DGLError
            Case 1:
            ``feat`` has no hop but hop 0, so that nothing is left to step to.

            Case 2:
            ``feat`` is a pair of features, as for a bipartite graph.
        """

        def finish(rst):
            if self.activation is not None:
                rst = self.activation(rst)
            if self.norm is not None:
                rst = self.norm(rst)
            return rst

        def update_mean(h_self, h_neigh):
            check_columns(h_self, self._in_dst_feats)
            h_self, h_neigh = self.feat_drop(h_self), self.feat_drop(h_neigh)
            return finish(self.fc_self(h_self) + self.fc_neigh(h_neigh))

        def update_gcn(h_neigh):
            check_columns(h_neigh, self._in_src_feats)
            rst = self.fc_neigh(self.feat_drop(h_neigh))
            if self.bias is not None:
                rst = rst + self.bias
            return finish(rst)

        if self._aggre_type == "mean":
            return self._update_hops(
                update_mean, [(feat, 0), (feat, 1)], graph, edge_weight
            )
        return self._update_hops(update_gcn, [(feat, 1)], graph, edge_weight)
