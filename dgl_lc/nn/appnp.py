"""Torch module for the LC version of APPNP."""

import torch as th
import torch.nn.functional as F

from .gprgnn import check_propagation, pagerank
from .mlp import MLP
from .model import HopModel, activation_name, check_sizes


class LCAPPNP(HopModel):
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
        The steps of the propagation. Default: 10.
    alpha : float, optional
        The teleport probability. Default: 0.1.
    num_layers : int, optional
        The perceptron's layers. Default: 2.
    dropout : float, optional
        Dropped before each of the perceptron's layers. Default: 0.
    activation : callable or str, optional
        Between the perceptron's layers. Default: ReLU.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCAPPNP
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = LCAPPNP(10, 16, 3, K=4)
    >>> model(g, th.ones(6, 10)).shape
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
        norm="both",
        self_loop=True,
    ):
        super().__init__(in_feats, norm, self_loop)
        check_sizes(
            in_feats=in_feats,
            hid_feats=hid_feats,
            out_feats=out_feats,
            num_layers=num_layers,
        )
        check_propagation(K, alpha)
        self._hid_feats = hid_feats
        self._out_feats = out_feats
        self._K = K
        self._alpha = alpha
        widths = [hid_feats] * (num_layers - 1)
        self.mlp = MLP([in_feats, *widths, out_feats], dropout, activation)
        self.register_buffer("theta", pagerank(K, alpha), persistent=False)

    @property
    def hops(self):
        """The hops the model needs: 0 to K."""
        return list(range(self._K + 1))

    @property
    def config(self):
        """The arguments that make such a model again."""
        return {
            "in_feats": self._in_feats,
            "hid_feats": self._hid_feats,
            "out_feats": self._out_feats,
            "K": self._K,
            "alpha": self._alpha,
            "num_layers": len(self.mlp.layers),
            "dropout": self.mlp.dropout.p,
            "activation": activation_name(self.mlp.activation),
            "norm": self.filter.norm,
            "self_loop": self.filter.self_loop,
        }

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
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with hops 0 to K, hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.mlp(self.inputs(graph, feat))
        return th.tensordot(self.theta, rows, dims=1)

    def extra_repr(self):
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"K={self._K}, alpha={self._alpha}"
