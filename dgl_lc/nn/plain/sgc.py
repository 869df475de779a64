"""Torch module for SGC"""
# pylint: disable= no-member, arguments-differ, invalid-name
from torch import nn

from .model_on_hops import check_last_hop, ModelOnHops


class SGC(ModelOnHops):
    r"""SGC, from `Simplifying Graph Convolutional Networks
    <https://arxiv.org/abs/1902.07153>`__

    .. math::
      H = S^K X W + b

    Parameters
    ----------
    in_feats : int
        Input feature size.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The hop; by name only, as all options. Default: ``2``.
    bias : bool, optional
        If True, adds a learnable bias. Default: ``True``.

    Attributes
    ----------
    fc : torch.nn.Linear
        The linear layer.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import SGC

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = SGC(10, 3)
    >>> model.hops
    [2]
    >>> model(None, [None, None, hops[2]]).shape
    torch.Size([6, 3])
    """

    def __init__(self, in_feats, out_feats, *, K=2, bias=True):
        super().__init__(in_feats, None, out_feats)
        check_last_hop(K)
        self._K = K
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)

    @property
    def hops(self):
        """The hop that the model needs: K."""
        return [self._K]

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.
        """
        self.fc.reset_parameters()

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute SGC.

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
        return self.fc(self.inputs(graph, feat)[0])

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}"
