"""Torch module for the LC version of APPNP"""
# pylint: disable= no-member, arguments-differ, invalid-name
import torch as th
import torch.nn.functional as F

from .lcgprgnn import MLP, pagerank
from .model_on_hops import check_sizes, ModelOnHops


class LCAPPNP(ModelOnHops):
    r"""LC version of APPNP, from `Predict then Propagate: Graph Neural
    Networks meet Personalized PageRank <https://arxiv.org/abs/1810.05997>`__

    APPNP propagates the output of a perceptron, :math:`H^{(k+1)} =
    (1-\alpha) S H^{(k)} + \alpha H^{(0)}`: a polynomial of the filter with
    constant coefficients. Its LC version is

    .. math::
      H = \sum_{k=0}^K \theta_k\, \mathrm{MLP}(S^k X), \quad
      \theta_k = \alpha(1-\alpha)^k, \quad \theta_K = (1-\alpha)^K

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of the perceptron's layers.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The number of steps of the propagation. Default: ``10``.
    alpha : float, optional
        The teleport probability. Default: ``0.1``.
    num_layers : int, optional
        The perceptron's layers. Default: ``2``.
    dropout : float, optional
        Dropout rate before each of the perceptron's layers. Default: ``0``.
    activation : callable activation function/layer, optional
        The activation between the perceptron's layers. Default: ``torch.nn.functional.relu``.

    Attributes
    ----------
    mlp : MLP
        The perceptron.
    theta : torch.Tensor
        The coefficients of hops 0 to K, which are constant.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl.nn import GraphConv
    >>> from dgl_lc.nn.plain import LCAPPNP

    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> g = dgl.add_self_loop(g)
    >>> aggregate = GraphConv(10, 10, weight=False, bias=False)
    >>> hops = [th.ones(6, 10)]
    >>> for _ in range(4):
    ...     hops.append(aggregate(g, hops[-1]))
    >>> model = LCAPPNP(10, 16, 3, K=4)
    >>> model(None, hops).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        K=10,
        alpha=0.1,
        num_layers=2,
        dropout=0.0,
        activation=F.relu,
    ):
        super().__init__(in_feats, hid_feats, out_feats)
        check_sizes(num_layers=num_layers)
        self._K = K
        self._alpha = alpha
        self.register_buffer("theta", pagerank(K, alpha), persistent=False)
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.mlp = MLP(widths, dropout, activation)

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
        self.mlp.reset_parameters()

    def forward(self, graph, feat):
        r"""

        Description
        -----------
        Compute the LC version of APPNP.

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
        rows = self.mlp(self.inputs(graph, feat))
        # Within autocast, rows have another type than the coefficients.
        return th.tensordot(self.theta, rows.to(self.theta.dtype), dims=1)

    def extra_repr(self):
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}, alpha={self._alpha}"
