"""Torch module for the LC version of GPRGNN"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from .model_on_hops import check_last_hop, check_sizes, ModelOnHops


class LCGPRGNN(ModelOnHops):
    r"""LC version of GPRGNN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sum_{k=0}^K \gamma_k
      \sigma(\dots\sigma(S^k X W_1)\dots) W_T

    The coefficients :math:`\gamma_k` are learned and start as those of
    personalised PageRank, :math:`\gamma_k = \alpha(1-\alpha)^k` and
    :math:`\gamma_K = (1-\alpha)^K`. Training should not decay them.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the perceptron's layers. As published, the last of them
        has half as many where there are three or more layers.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: ``5``.
    num_layers : int, optional
        T, the perceptron's layers. Default: ``4``.
    alpha : float, optional
        :math:`\alpha` of the coefficients' start, 0 to 1. Default: ``0.1``.
    dropout : float, optional
        Dropout rate before each of the perceptron's layers. Default: ``0``.
    dprate : float, optional
        Dropout rate of the perceptron's output (in GPRGNN, before the
        propagation). Default: ``0``.
    activation : callable activation function/layer, optional
        :math:`\sigma`. Default: ``torch.nn.functional.relu``.

    Attributes
    ----------
    mlp : MLP
        The perceptron.
    gamma : torch.Tensor
        The learnable coefficients of hops 0 to K.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import LCGPRGNN

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(2):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = LCGPRGNN(10, 16, 3, K=2)
    >>> model.gamma.detach()
    tensor([0.1000, 0.0900, 0.8100])
    >>> model(g, hops).shape
    torch.Size([6, 3])

    >>> # A mini-batch of rows, as one tensor
    >>> batch = th.stack(hops)[:, [4, 0]]
    >>> model(None, batch).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        K=5,
        num_layers=4,
        alpha=0.1,
        dropout=0.0,
        dprate=0.0,
        activation=F.relu,
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_sizes(num_layers=num_layers)
        self._K = K
        self._alpha = alpha
        widths = [hid_feats] * (num_layers - 1)
        if num_layers > 2:
            widths[-1] = max(1, hid_feats // 2)
        start = pagerank(K, alpha)
        self.mlp = MLP([in_feats, *widths, out_feats], dropout, activation)
        self.dprate = nn.Dropout(dprate)
        self.gamma = nn.Parameter(start)
        self.reset_parameters()

    @property
    def hops(self):
        """The hops that the model needs: 0 to K."""
        return list(range(self._K + 1))

    def reset_parameters(self):
        r"""

        Description
        -----------
        Reinitialize learnable parameters, the coefficients included.
        """
        self.mlp.reset_parameters()
        with th.no_grad():
            self.gamma.copy_(pagerank(self._K, self._alpha))

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute the LC version of GPRGNN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph. It is not used for the computation.
        feat : list of torch.Tensor, or torch.Tensor
            The hops, from hop 0 on: a list of tensors of shape
            :math:`(N, D_{in})`, or one tensor of shape
            :math:`(K + 1, N, D_{in})`.

        Returns
        -------
        torch.Tensor
            Shape :math:`(N, D_{out})`.

        Raises
        ------
        DGLError
            If ``feat`` is not a list of hop tensors, lacks one of hops 0 to
            K, or has other columns than ``in_feats``.
        """
        return self._sum_hops(self.inputs(graph, feat))

    def _sum_hops(self, hops):
        """Compute the output from stacked hops."""
        rows = self.dprate(self.mlp(hops))
        # Within autocast, rows have another type than the coefficients.
        return th.tensordot(self.gamma, rows.to(self.gamma.dtype), dims=1)

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}, alpha={self._alpha}"


class MLP(nn.Module):
    """Linear layers with dropout before and an activation between them.

    Parameters
    ----------
    widths : list of int
        Columns of the input and of the output of each layer.
    dropout : float
        Dropout rate before each layer.
    activation : callable activation function/layer
        The activation between the layers.
    """

    def __init__(self, widths, dropout, activation):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, out) for width, out in zip(widths, widths[1:])
        )
        self.dropout = nn.Dropout(dropout)
        self.activation = activation

    def reset_parameters(self):
        """Reinitialize the learnable parameters of all layers."""
        for layer in self.layers:
            layer.reset_parameters()

    def forward(self, feat):
        """Compute the output for each row."""
        for number, layer in enumerate(self.layers):
            if number:
                feat = self._activate(feat, number - 1)
            feat = layer(self.dropout(feat))
        return feat

    def _activate(self, feat, number):
        """Apply the activation to what layer ``number``, counted from 0, has
        computed; a subclass may do more."""
        return self.activation(feat)


def pagerank(K, alpha):
    r"""Compute the coefficients of K steps of personalised PageRank.

    >>> pagerank(2, 0.5)
    tensor([0.5000, 0.2500, 0.2500])
    """
    check_last_hop(K)
    if not 0 <= alpha <= 1:
        raise DGLError(f"alpha={alpha!r} should be between 0 and 1.")
    found = alpha * (1 - alpha) ** th.arange(K + 1).double()
    found[K] = (1 - alpha) ** K
    return found.float()
