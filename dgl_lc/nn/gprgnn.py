"""Torch module for the LC version of GPRGNN."""

from collections.abc import Callable
from typing import Any

import torch as th
import torch.nn.functional as F
from dgl import DGLError

from . import plain
from .activations import activation_name, get_activation
from .hop_attention import WeighsHops
from .normalization import NormalizedMLP
from .plain.model_on_hops import check_sizes
from .sampled_hops import sample_hops


class LCGPRGNN(WeighsHops, plain.LCGPRGNN):
    r"""LC version of GPRGNN, from `GNN Transformation Framework for Improving
    Efficiency and Scalability <https://arxiv.org/abs/2207.12000>`__

    .. math::
      H = \sum_{k=0}^K \gamma_k
      \sigma(\dots\sigma(S^k X W_1)\dots) W_T

    The coefficients :math:`\gamma_k` are learned and start as those of
    personalised PageRank, :math:`\gamma_k = \alpha(1-\alpha)^k` and
    :math:`\gamma_K = (1-\alpha)^K`. Training should not decay them
    (``no_weight_decay``). :meth:`hop_attention` returns them for each row.

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
        Dropout rate before each of the perceptron's layers. Default: 0.
    dprate : float, optional
        Dropout rate of the perceptron's output (in GPRGNN, before the
        propagation). Default: 0.
    activation : callable or str, optional
        :math:`\sigma`. Default: ReLU.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.
    sampled_hops : int, optional
        Number of hops of each row that a training step reads, drawn at
        random, less likely where :math:`\gamma_k` is small. An epoch then
        takes about ``sampled_hops / (K + 1)`` of its time. Before the loss,
        the output is that of all hops in expectation, and so are its
        gradients; the loss itself is not linear in the output, so that its
        expectation is larger. Evaluation reads all hops. Default: all.
    **options
        ``input_dropout``, ``residual`` and ``normalization``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

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
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 5,
        num_layers: int = 4,
        alpha: float = 0.1,
        dropout: float = 0.0,
        dprate: float = 0.0,
        activation: Callable | str = F.relu,
        norm: str = "both",
        self_loop: bool = True,
        sampled_hops: int | None = None,
        **options: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, K, num_layers, alpha, dropout,
            dprate, get_activation(activation), norm=norm,
            self_loop=self_loop, **options,
        )  # fmt: skip
        if sampled_hops is not None:
            check_sizes(sampled_hops=sampled_hops)
            if sampled_hops > K + 1:
                raise DGLError(
                    f"sampled_hops={sampled_hops} is more than the {K + 1} "
                    f"hops that K={K} has: choose fewer, or omit it."
                )
        self._sampled_hops = sampled_hops
        if self._hidden_normalization is not None:
            self.mlp = NormalizedMLP(self.mlp, self._hidden_normalization)

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "num_layers": len(self.mlp.layers),
            "alpha": self._alpha,
            "dropout": self.mlp.dropout.p,
            "dprate": self.dprate.p,
            "activation": activation_name(self.mlp.activation),
            "sampled_hops": self._sampled_hops,
        }

    def _sum_hops(self, hops: th.Tensor) -> th.Tensor:
        """Compute the output from stacked hops, or an estimate of it."""
        if self._sampled_hops is None or not self.training:
            return super()._sum_hops(hops)
        drawn, factors = sample_hops(hops, self.gamma, self._sampled_hops)
        rows = self.dprate(self.mlp(drawn))
        return (factors.unsqueeze(-1) * rows).sum(0)

    def _weigh(self, rows: th.Tensor) -> th.Tensor:
        """Return the coefficients, which are the same for all rows."""
        return self.gamma.expand(rows.shape[1], -1)
