"""Torch module for the LC version of the topology adaptive layer"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
from torch import nn

from .lcgraphconv import check_columns, LCConv
from .model_on_hops import check_last_hop


class LCTAGConv(LCConv):
    r"""LC version of the topology adaptive graph convolution, from `GNN
    Transformation Framework for Improving Efficiency and Scalability
    <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.TAGConv` computes
    :math:`\sum_{j=0}^K S^j H \Theta_j` for the filter
    :math:`S = D^{-1/2} A D^{-1/2}` of a graph. Here :math:`H` is given by its
    hops, :math:`f(S^k X)`, and swapping :math:`S` with what was done to the
    rows before makes each aggregation a step to the next hop:

    .. math::
      h^{(l+1)}[k] = \sigma\left(\sum_{j=0}^K h^{(l)}[k + j] \Theta_j^{(l)}
      + b^{(l)}\right)

    The features' hops :math:`S^k X` are computed once, before training. As in
    TAGConv, :math:`D` are the in-degrees on both sides. Signature, parameters
    and their names are those of TAGConv.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    out_feats : int
        Output feature size.
    k: int, optional
        Number of hops :math:`K`. Default: ``2``.
    bias: bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation: callable activation function/layer or None, optional
        If not None, applies an activation function to the updated features.
        Default: ``None``.

    Attributes
    ----------
    lin : torch.nn.Linear
        The learnable linear module.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import SGConv
    >>> from dgl_lc.nn import LCTAGConv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = SGConv(10, 10, bias=False)
    >>> aggregate.fc = th.nn.Identity()
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(4):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> conv1, conv2 = LCTAGConv(10, 16, activation=th.relu), LCTAGConv(16, 2)
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
        k=2,
        bias=True,
        activation=None,
    ):
        super().__init__()
        check_last_hop(k, "k")
        self._in_feats = in_feats
        self._out_feats = out_feats
        self._k = k
        self._activation = activation
        self.lin = nn.Linear(in_feats * (self._k + 1), out_feats, bias=bias)

        self.reset_parameters()

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        As in :class:`~dgl.nn.pytorch.conv.TAGConv`, the weight is initialized
        using Glorot normal initialization.
        """
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_normal_(self.lin.weight, gain=gain)

    def forward(self, graph, feat, edge_weight=None):
        r"""

        Description
        -----------
        Compute topology adaptive graph convolution: each hop from itself and
        the K next ones.

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

        def update(*fstack):
            check_columns(fstack[0], self._in_feats)
            rst = self.lin(th.cat(fstack, dim=-1))
            if self._activation is not None:
                rst = self._activation(rst)
            return rst

        reads = [(feat, hop) for hop in range(self._k + 1)]
        return self._update_hops(update, reads, graph, edge_weight)
