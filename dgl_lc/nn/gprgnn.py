"""Torch module for the LC version of GPRGNN."""

import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from .dropout import Dropout
from .mlp import MLP
from .model import HopModel, activation_name, check_sizes


class LCGPRGNN(HopModel):
    r"""LC version of GPRGNN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sum_{k=0}^K \gamma_k
      \sigma(\dots\sigma(S^k X W_1)\dots) W_T

    The coefficients :math:`\gamma_k` are learned and start as those of
    personalised PageRank, :math:`\gamma_k = \alpha(1-\alpha)^k` and
    :math:`\gamma_K = (1-\alpha)^K`. Training should not decay them
    (``no_weight_decay``).

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
        The last hop. Default: 5.
    num_layers : int, optional
        T, the perceptron's layers. Default: 4.
    alpha : float, optional
        :math:`\alpha` of the coefficients' start, 0 to 1. Default: 0.1.
    dropout : float, optional
        Dropped before each of the perceptron's layers. Default: 0.
    dprate : float, optional
        Dropped from the perceptron's output (before the propagation in
        GPRGNN). Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: ReLU.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import LCGPRGNN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = LCGPRGNN(10, 16, 3, K=2)
    >>> model.gamma.detach()
    tensor([0.1000, 0.0900, 0.8100])
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> batch = model.precompute(g, x).rows(th.tensor([4, 0]))
    >>> model(None, batch).shape
    torch.Size([2, 3])
    """

    no_weight_decay = frozenset({"gamma"})

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
        if num_layers > 2:
            widths[-1] = max(1, hid_feats // 2)
        self.mlp = MLP([in_feats, *widths, out_feats], dropout, activation)
        self.dprate = Dropout(dprate)
        self.gamma = nn.Parameter(th.empty(K + 1))
        self.reset_parameters()

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
            "num_layers": len(self.mlp.layers),
            "alpha": self._alpha,
            "dropout": self.mlp.dropout.p,
            "dprate": self.dprate.p,
            "activation": activation_name(self.mlp.activation),
            "norm": self.filter.norm,
            "self_loop": self.filter.self_loop,
        }

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
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features with hops 0 to K, hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.dprate(self.mlp(self.inputs(graph, feat)))
        return th.tensordot(self.gamma, rows, dims=1)

    def extra_repr(self):
        """Set the extra representation of the module, which will come into
        effect when printing the model.
        """
        return f"K={self._K}, alpha={self._alpha}"


def pagerank(K: int, alpha: float) -> th.Tensor:
    r"""Coefficients of K steps of personalised PageRank.

    >>> pagerank(2, 0.5)
    tensor([0.5000, 0.2500, 0.2500])
    """
    steps = th.arange(K + 1)
    found = alpha * (1 - alpha) ** steps.double()
    found[K] = (1 - alpha) ** K
    return found.float()


def check_propagation(K: int, alpha: float) -> None:
    """Refuse hops or a teleport probability that mean nothing."""
    if isinstance(K, bool) or not isinstance(K, int) or K < 0:
        raise DGLError(f"K={K!r} should be an integer, 0 or more.")
    if not 0 <= alpha <= 1:
        raise DGLError(f"alpha={alpha!r} should be between 0 and 1.")
