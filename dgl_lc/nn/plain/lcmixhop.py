"""Torch module for the LC version of MixHop"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
from dgl import DGLError
from torch import nn
from torch.nn import init

from .model_on_hops import check_sizes, ModelOnHops


class LCMixHop(ModelOnHops):
    r"""LC version of MixHop, from `MixHop: Higher-Order Graph Convolutional
    Architectures via Sparsified Neighborhood Mixing
    <https://arxiv.org/abs/1905.00067>`__

    A layer of MixHop concatenates powers of the filter,
    :math:`H' = \Vert_{p \in P}\, \sigma(S^p H W_p)`. With the filter swapped
    to the inside, a layer at hop k reads the layer before it at hops k + p:

    .. math::
      h^{(l+1)}[k] = \Vert_{p \in P}\, \sigma(h^{(l)}[k + p]\, W^{(l)}_p),
      \quad h^{(0)}[k] = S^k X

    and the output is a linear layer on hop 0 of the last.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns for each power.
    out_feats : int
        Output feature size; the number of classes.
    num_layers : int, optional
        The number of layers. Default: ``2``.
    p : sequence of int, optional
        The powers. Default: ``(0, 1, 2)``.
    input_dropout : float, optional
        Dropout rate of the features. Default: ``0``.
    layer_dropout : float, optional
        Dropout rate before each later layer. Default: ``0``.
    activation : callable activation function/layer, optional
        :math:`\sigma`. Default: :func:`torch.tanh`.
    batchnorm : bool, optional
        Whether each layer is normalised, with one set of statistics for all
        hops. Default: ``False``.

    Attributes
    ----------
    layers : torch.nn.ModuleList
        For each layer, a linear layer for each power.
    norms : torch.nn.ModuleList
        The normalisation of each layer; empty without ``batchnorm``.
    output : torch.nn.Linear
        The last linear layer.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import LCMixHop

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(6):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = LCMixHop(10, 16, 3, p=(0, 1, 3))
    >>> model.hops
    [0, 1, 2, 3, 4, 6]
    >>> model(None, hops).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        num_layers=2,
        p=(0, 1, 2),
        input_dropout=0.0,
        layer_dropout=0.0,
        activation=th.tanh,
        batchnorm=False,
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_sizes(num_layers=num_layers)
        powers = sorted(p)
        whole = all(isinstance(q, int) and q >= 0 for q in powers)
        if not powers or not whole or len(set(powers)) < len(powers):
            raise DGLError(f"p={p!r} should hold different powers, 0 or more.")
        self._p = powers
        self._activation = activation
        self._batchnorm = batchnorm
        # The hops at which each layer's output is needed, the last's first.
        needed = [[0]]
        for _ in range(num_layers):
            needed.append(sorted({k + q for k in needed[-1] for q in powers}))
        self._needed = needed[::-1]
        width = hid_feats * len(powers)
        self.layers = nn.ModuleList()
        for layer in range(num_layers):
            size = width if layer else in_feats
            linears = {
                str(q): nn.Linear(size, hid_feats, bias=False) for q in powers
            }
            self.layers.append(nn.ModuleDict(linears))
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(width) for _ in range(num_layers) if batchnorm
        )
        self.input_dropout = nn.Dropout(input_dropout)
        self.layer_dropout = nn.Dropout(layer_dropout)
        self.output = nn.Linear(width, out_feats, bias=False)
        self.reset_parameters()

    @property
    def hops(self):
        """The hops that the model needs: all sums of powers."""
        return self._needed[0]

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters and the statistics of the norms.
        """
        for layer in self.layers:
            for linear in layer.values():
                init.xavier_uniform_(linear.weight)
        for norm in self.norms:
            norm.reset_parameters()
        init.xavier_uniform_(self.output.weight)

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute the LC version of MixHop.

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
            If ``feat`` is not a list of hop tensors, lacks one of the needed hops,
            or has other columns than ``in_feats``.
        """
        rows = self.input_dropout(self.inputs(graph, feat))
        for number, layer in enumerate(self.layers):
            if number:
                rows = self.layer_dropout(rows)
            before, after = self._needed[number : number + 2]
            columns = []
            for q in self._p:
                places = [before.index(k + q) for k in after]
                columns.append(layer[str(q)](rows[places]))
            rows = th.cat(columns, dim=-1)
            if self._batchnorm:
                rows = self.norms[number](rows.flatten(0, 1)).view_as(rows)
            rows = self._activate(rows, number)
        return self.output(rows[0])

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"p={self._p}"
