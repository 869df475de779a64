"""Torch module for the LC version of the graph convolution with initial
residual and identity mapping (GCNII)"""
# pylint: disable= no-member, arguments-differ, invalid-name
import math

import torch as th
from dgl import DGLError
from torch import nn

from .lcgraphconv import check_columns, LCConv, LCGraphConv


class LCGCN2Conv(LCConv):
    r"""LC version of the GCNII layer, from `GNN Transformation Framework for
    Improving Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    :class:`~dgl.nn.pytorch.conv.GCN2Conv` aggregates with the filter
    :math:`S = D^{-1/2} A D^{-1/2}` of a graph. Here the features are given by
    their hops, :math:`f(S^k X)`, and swapping :math:`S` with what was done to
    the rows before makes the aggregation a step to the next hop:

    .. math::
      h^{(l+1)}[k] = \sigma\left(\left((1 - \alpha) h^{(l)}[k + 1]
      + \alpha h^{(0)}[k]\right) \left((1 - \beta_l) I + \beta_l W^{(l)}\right)
      + b^{(l)}\right)

    The features' hops :math:`S^k X` are computed once, before training. As in
    GCN2Conv, :math:`D` are the in-degrees on both sides. Signature, parameters
    and their names are those of GCN2Conv.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    layer : int
        The index of the current layer, from 1 on.
    alpha : float
        The fraction of the initial input features. Default: ``0.1``
    lambda_ : float
        The hyperparameter to ensure the decay of the weight matrix
        adaptively increases, with
        :math:`\beta_l = \log(\lambda / l + 1)`. Default: ``1``
    project_initial_features : bool
        Whether to share a weight matrix between initial features and
        smoothed features. Default: ``True``
    allow_zero_in_degree : bool, optional
        As in :class:`~dgl.nn.pytorch.conv.GCN2Conv`, and without effect: the
        hops of a node without in-edges are what they were computed to be.
        Default: ``False``.
    bias : bool, optional
        If True, adds a learnable bias to the output. Default: ``True``.
    activation : callable activation function/layer or None, optional
        If not None, applies an activation function to the updated features.
        Default: ``None``.

    Attributes
    ----------
    weight1 : torch.Tensor
        The learnable weight tensor.
    weight2 : torch.Tensor
        The learnable weight tensor of the initial features, if
        ``project_initial_features`` is False.
    bias : torch.Tensor
        The learnable bias tensor.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import SGConv
    >>> from dgl_lc.nn import LCGCN2Conv

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = SGConv(3, 3, bias=False)
    >>> aggregate.fc = th.nn.Identity()
    >>> hops = [th.ones(6, 3)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> conv1 = LCGCN2Conv(3, layer=1, alpha=0.5, activation=th.relu)
    >>> conv2 = LCGCN2Conv(3, layer=2, alpha=0.5)
    >>> conv2(g, conv1(g, hops, hops), hops).shape
    torch.Size([6, 3])

    >>> # A mini-batch of rows
    >>> batch = [hop[[4, 0]] for hop in hops]
    >>> conv2(None, conv1(None, batch, batch), batch).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_feats,
        layer,
        alpha=0.1,
        lambda_=1,
        project_initial_features=True,
        allow_zero_in_degree=False,
        bias=True,
        activation=None,
    ):
        super().__init__()
        if isinstance(layer, bool) or not isinstance(layer, int) or layer < 1:
            raise DGLError(
                f"layer={layer!r} should be an integer: layers count from 1."
            )
        self._in_feats = in_feats
        self._project_initial_features = project_initial_features

        self.alpha = alpha
        self.beta = math.log(lambda_ / layer + 1)

        self._bias = bias
        self._activation = activation
        self._allow_zero_in_degree = allow_zero_in_degree

        self.weight1 = nn.Parameter(th.empty(in_feats, in_feats))

        if project_initial_features:
            self.register_parameter("weight2", None)
        else:
            self.weight2 = nn.Parameter(th.empty(in_feats, in_feats))

        if bias:
            self.bias = nn.Parameter(th.empty(in_feats))
        else:
            self.register_parameter("bias", None)

        self.reset_parameters()

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        As in :class:`~dgl.nn.pytorch.conv.GCN2Conv`, the weights are
        initialized using the standard normal distribution, and the bias is
        initialized to be zero.
        """
        nn.init.normal_(self.weight1)
        if self.weight2 is not None:
            nn.init.normal_(self.weight2)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    set_allow_zero_in_degree = LCGraphConv.set_allow_zero_in_degree

    def forward(self, graph, feat, feat_0, edge_weight=None):
        r"""

        Description
        -----------
        Compute graph convolution: each hop from the next one, and from the
        same hop of the initial features.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation, and is here so that
            the code of a model stays as it is.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(K + 1, N, D_{in})`.
        feat_0 : list of torch.Tensor, or torch.Tensor
            The hops of the initial features, given as ``feat``.
        edge_weight : torch.Tensor, optional
            Weights of edges are a part of the filter the hops were computed
            with, normalized by
            :class:`~dgl.nn.pytorch.conv.EdgeWeightNorm`. They are not used
            here.

        Returns
        -------
        list of torch.Tensor, or torch.Tensor
            The hops of the output, one fewer than ``feat`` has and of the
            same kind. If hop 0 is the only one, the tensor of hop 0.

        Raises
        ------
        DGLError
            Case 1:
            ``feat`` has no hop but hop 0, so that nothing is left to step to.

            Case 2:
            ``feat`` and ``feat_0`` have different numbers of rows.
        """

        def update(rst, initial):
            check_columns(rst, self._in_feats)
            check_columns(initial, self._in_feats, "feat_0")
            if rst.shape[0] != initial.shape[0]:
                raise DGLError(
                    f"feat has {rst.shape[0]} rows, but feat_0 has "
                    f"{initial.shape[0]}: take the same rows of both."
                )
            rst = rst * (1 - self.alpha)
            initial = initial * self.alpha
            feat_sum = rst + initial
            if self.weight2 is None:
                feat_proj_sum = th.matmul(feat_sum, self.weight1)
            else:
                feat_proj_sum = th.matmul(rst, self.weight1) + th.matmul(
                    initial, self.weight2
                )
            rst = (1 - self.beta) * feat_sum + self.beta * feat_proj_sum
            if self.bias is not None:
                rst = rst + self.bias
            if self._activation is not None:
                rst = self._activation(rst)
            return rst

        reads = [(feat, 1), (feat_0, 0)]
        return self._update_hops(update, reads, graph, edge_weight)

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        summary = "in={_in_feats}"
        summary += ", alpha={alpha}, beta={beta}"
        # A module is printed as a submodule, and is not in __dict__.
        if self.__dict__.get("_activation") is not None:
            summary += ", activation={_activation}"
        return summary.format(**self.__dict__)
