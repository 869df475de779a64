"""Torch module for the LC version of JKNet"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn
from torch.nn import init

from .model_on_hops import check_sizes, ModelOnHops


class LCJKNet(ModelOnHops):
    r"""LC version of JKNet, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \mathrm{COMB}_{k=1}^K \sigma(\dots\sigma(S^k X W_1)\dots W_{k-1}) W_k

    The weights are shared by the branches: branch k passes through the first
    k layers. COMB is the concatenation or the maximum of the branches.

    As published, the concatenation goes through an activation, dropout and a
    linear layer, while the maximum is the output itself; in mode ``'max'``
    all layers therefore have ``out_feats`` columns.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of each layer (mode ``'cat'``).
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        K, the number of layers and of branches. Default: ``3``.
    mode : str, optional
        ``'cat'`` or ``'max'``, as in
        :class:`~dgl.nn.pytorch.utils.JumpingKnowledge`. Default: ``'cat'``.
    dropout : float, optional
        Dropout rate before each layer. Default: ``0``.
    activation : callable activation function/layer, optional
        :math:`\sigma`. Default: ``torch.nn.functional.relu``.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        The K linear layers.
    output : torch.nn.Linear or None
        The linear layer on the concatenation; None in mode ``'max'``.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import LCJKNet

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = LCJKNet(10, 16, 3, num_layers=2)
    >>> model(g, hops).shape
    torch.Size([6, 3])

    >>> # A mini-batch of rows of the hops that the model needs
    >>> batch = [None, hops[1][[4, 0]], hops[2][[4, 0]]]
    >>> model(None, batch).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        num_layers=3,
        mode="cat",
        dropout=0.0,
        activation=F.relu,
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_sizes(num_layers=num_layers)
        if mode not in ("cat", "max"):
            raise DGLError(f"mode={mode!r} should be 'cat' or 'max'.")
        self._mode = mode
        self._activation = activation
        width = hid_feats if mode == "cat" else out_feats
        self.layers = nn.ModuleList(
            nn.Linear(width if layer else in_feats, width)
            for layer in range(num_layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.output = None
        if mode == "cat":
            self.output = nn.Linear(num_layers * hid_feats, out_feats)
        self.reset_parameters()

    @property
    def hops(self):
        """The hops that the model needs: 1 to K."""
        return list(range(1, len(self.layers) + 1))

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters.

        Note
        ----
        The layers are initialized as those of
        :class:`~dgl.nn.pytorch.conv.GraphConv`: the weights using Glorot
        uniform initialization, and the biases to be zero.
        """
        for layer in self.layers:
            init.xavier_uniform_(layer.weight)
            init.zeros_(layer.bias)
        if self.output is not None:
            self.output.reset_parameters()

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute the LC version of JKNet.

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
            If ``feat`` is not a list of hop tensors, lacks one of hops 1 to
            K, or has other columns than ``in_feats``.
        """
        rows = self.inputs(graph, feat)
        branches = []
        for number, layer in enumerate(self.layers):
            if number:
                rows = self._activate(rows, number - 1)
            rows = layer(self.dropout(rows))
            # The first of the branches that are left ends with this layer.
            branches.append(rows[0])
            rows = rows[1:]
        if self.output is None:
            return th.stack(branches).amax(dim=0)
        rst = self._activate(th.cat(branches, dim=-1), -1)
        return self.output(self.dropout(rst))

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"num_layers={len(self.layers)}, mode={self._mode}"
