"""Torch module for the LC version of GCN"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch.nn.functional as F
from torch import nn

from .lcgraphconv import LCGraphConv
from .model_on_hops import check_sizes, ModelOnHops


class LCGCN(ModelOnHops):
    r"""LC version of GCN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sigma(\dots\sigma(S^K X W_1)\dots W_{K-1}) W_K

    A stack of :class:`LCGraphConv`, as a whole model.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the hidden layers.
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        K, the number of layers. Default: ``2``.
    dropout : float, optional
        Dropout rate before each layer. Default: ``0``.
    activation : callable activation function/layer, optional
        :math:`\sigma`. Default: ``torch.nn.functional.relu``.
    norm : str, optional
        The norm of the filter the hops were computed with, as for
        :class:`LCGraphConv`. Default: ``'both'``.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        The K layers, of :class:`LCGraphConv`.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import LCGCN

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = LCGCN(10, 16, 3)
    >>> model.hops
    [2]
    >>> model(None, [None, None, hops[2]]).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        num_layers=2,
        dropout=0.0,
        activation=F.relu,
        norm="both",
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_sizes(num_layers=num_layers)
        self._activation = activation
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.layers = nn.ModuleList(
            LCGraphConv(width, out, norm=norm)
            for width, out in zip(widths, widths[1:])
        )
        self.dropout = nn.Dropout(dropout)

    @property
    def hops(self):
        """The hop that the model needs: K."""
        return [len(self.layers)]

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        for layer in self.layers:
            layer.reset_parameters()

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute the LC version of GCN.

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
            If ``feat`` is not a list of hop tensors, lacks hop K,
            or has other columns than ``in_feats``.
        """
        rst = self.inputs(graph, feat)[0]
        for number, layer in enumerate(self.layers):
            if number:
                rst = self._activate(rst, number - 1)
            # The output is hop 0 alone, so each layer makes one step to it.
            rst = layer(None, [None, self.dropout(rst)])
        return rst
