"""Torch module for SIGN"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
import torch.nn.functional as F
from torch import nn

from .model_on_hops import check_last_hop, ModelOnHops


class SIGN(ModelOnHops):
    r"""SIGN, from `SIGN: Scalable Inception Graph Neural Networks
    <https://arxiv.org/abs/2004.11198>`__

    .. math::
      H = \sigma(\Vert_{k=0}^K S^k X \Theta_k)\, \Omega

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns for each hop.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: ``3``.
    dropout : float, optional
        Dropout rate of the features and before the last layer. Default: ``0``.
    activation : callable activation function/layer, optional
        :math:`\sigma`. Default: ``torch.nn.functional.relu``.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        A linear layer for each hop.
    output : torch.nn.Linear
        The linear layer on the concatenation.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import SIGN

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = SIGN(10, 16, 3, K=2)
    >>> model(None, hops).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        K=3,
        dropout=0.0,
        activation=F.relu,
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_last_hop(K)
        self._K = K
        self._activation = activation
        self.layers = nn.ModuleList(
            nn.Linear(in_feats, hid_feats) for _ in range(K + 1)
        )
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hid_feats * (K + 1), out_feats)

    @property
    def hops(self):
        """The hops that the model needs: 0 to K."""
        return list(range(self._K + 1))

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        for layer in [*self.layers, self.output]:
            layer.reset_parameters()

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute SIGN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, with None for a hop that is not needed, or
            one tensor of shape :math:`(K + 1, N, D_{in})`.

        Returns
        -------
        torch.Tensor
            Shape :math:`(N, D_{out})`.

        Raises
        ------
        DGLError
            If ``feat`` is not a list of hop tensors, lacks one of hops 0 to K,
            or has other columns than ``in_feats``.
        """
        rows = self.dropout(self.inputs(graph, feat))
        branches = [layer(hop) for layer, hop in zip(self.layers, rows)]
        rst = self._activate(th.cat(branches, dim=-1), 0)
        return self.output(self.dropout(rst))

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}"
