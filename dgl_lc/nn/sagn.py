"""Torch module for SAGN."""

from collections.abc import Callable
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from torch import nn
from torch.nn import init

from .activations import activation_name, get_activation
from .dropout import Dropout
from .hop_attention import WeighsHops
from .model import Features
from .normalization import make_norm, reset_norms
from .perceptrons import Perceptron
from .plain.model_on_hops import check_last_hop, check_sizes

#: Slope of LeakyReLU below zero, as in GAT.
_SLOPE = 0.2


class SAGN(WeighsHops):
    r"""SAGN, from `Scalable and Adaptive Graph Neural Networks with
    Self-Label-Enhanced Training <https://arxiv.org/abs/2104.09376>`__

    Each hop has an encoder, and each row weighs its hops by attention whose
    query is hop 0. A linear map of hop 0 is added to the sum:

    .. math::
      H_k = \mathrm{MLP}_k(S^k X), \quad
      \theta_k = \mathrm{softmax}_k\big(\mathrm{LeakyReLU}(
      H_k a_l + H_0 a_r)\big)

      H = \mathrm{MLP}\Big(\sigma\Big(\mathrm{norm}\Big(
      \sum_{k=0}^K \theta_k \odot H_k + X W_r\Big)\Big)\Big)

    With several heads this is done for each of them, and the output is their
    mean. The defaults are those that the authors train ogbn-products with,
    there with ``hid_feats=512``. For ogbn-papers100M they use
    ``hid_feats=1024, K=3, input_dropout=0, attention_dropout=0``, for
    products with labels ``K=3, zero_attention=False``; the learning rate is
    0.001, without weight decay. Their hop features are means over
    neighbours, ``norm="right", self_loop=False``, and edges of
    ogbn-papers100M go in both directions. Their label model, of four layers,
    reads the last of 9 to 14 hops; ours is that of ``label_feats``.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of each head.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: 5.
    num_layers : int, optional
        The number of layers of each perceptron. Default: 2.
    num_heads : int, optional
        The number of heads. Default: 1.
    dropout : float, optional
        Dropout rate after each activation. Default: 0.5.
    input_dropout : float, optional
        Dropout rate of the features. Default: 0.2.
    attention_dropout : float, optional
        Dropout rate of the weights of the hops. Default: 0.4.
    activation : callable or str, optional
        :math:`\sigma`, also that of the perceptrons. Default: ReLU.
    normalization : str, optional
        Normalisation before each activation: ``'batch'``, ``'layer'`` or
        None. Default: ``'batch'``.
    zero_attention : bool, optional
        Whether :math:`a_l` and :math:`a_r` start as zeros, so that all hops
        weigh the same at first. Default: True.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.
    **labels
        ``label_feats``, ``label_hops`` and ``label_dropout``, for models
        that read label features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import SAGN
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = SAGN(10, 16, 3, K=3)
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> batch = model.precompute(g, x).rows(th.tensor([4, 0]))
    >>> model.hop_attention(batch)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 5,
        num_layers: int = 2,
        num_heads: int = 1,
        dropout: float = 0.5,
        input_dropout: float = 0.2,
        attention_dropout: float = 0.4,
        activation: Callable | str = F.relu,
        normalization: str | None = "batch",
        zero_attention: bool = True,
        norm: str = "both",
        self_loop: bool = True,
        **labels: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, norm=norm, self_loop=self_loop,
            **labels,
        )  # fmt: skip
        check_last_hop(K)
        check_sizes(num_layers=num_layers, num_heads=num_heads)
        self._K = K
        self._num_layers = num_layers
        self._activation = get_activation(activation)
        self._normalization = normalization
        self._zero_attention = zero_attention

        def perceptrons(width: int, out: int, count: int) -> nn.ModuleList:
            widths = [width, *[hid_feats] * (num_layers - 1), out]
            return nn.ModuleList(
                Perceptron(widths, dropout, self._activation, normalization)
                for _ in range(count)
            )

        # Those of all heads of hop 0, then those of hop 1, and so on.
        self.encoders = perceptrons(in_feats, hid_feats, num_heads * (K + 1))
        self.att_hop = nn.Parameter(th.empty(num_heads, hid_feats))
        self.att_first = nn.Parameter(th.empty(num_heads, hid_feats))
        width = num_heads * hid_feats
        self.first = nn.Linear(in_feats, width, bias=False)
        self.norms = nn.ModuleList([make_norm(normalization, width)])
        self.outputs = perceptrons(hid_feats, out_feats, num_heads)
        self.input_dropout = Dropout(input_dropout)
        self.attention_dropout = Dropout(attention_dropout)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    @property
    def hops(self) -> list[int]:
        """The hops that the model needs: 0 to K."""
        return list(range(self._K + 1))

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "num_layers": self._num_layers,
            "num_heads": len(self.outputs),
            "dropout": self.dropout.p,
            "input_dropout": self.input_dropout.p,
            "attention_dropout": self.attention_dropout.p,
            "activation": activation_name(self._activation),
            "normalization": self._normalization,
            "zero_attention": self._zero_attention,
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters and the statistics of the norms.
        """
        gain = init.calculate_gain("relu")
        for perceptron in [*self.encoders, *self.outputs]:
            perceptron.reset_parameters()
        for vector in (self.att_hop, self.att_first):
            if self._zero_attention:
                init.zeros_(vector)
            else:
                init.xavier_normal_(vector, gain)
        init.xavier_uniform_(self.first.weight, gain)
        reset_norms(self.norms)
        self.reset_options()

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute SAGN.

        Parameters
        ----------
        graph : DGLGraph or None
            The graph, if ``feat`` is a tensor; else not used.
        feat : HopFeatures, sequence of torch.Tensor, or torch.Tensor
            Hop features of hops 0 to K, plain hop tensors, or the features.

        Returns
        -------
        torch.Tensor
            Shape (rows, out_feats).
        """
        rows = self.input_dropout(self.inputs(graph, feat))
        encoded = self._encode(rows)
        weights = self.attention_dropout(self._attend(encoded))
        rst = self.first(rows[0])
        for k, hop in enumerate(encoded):
            rst = rst + (weights[k].unsqueeze(-1) * hop).flatten(1)
        rst = self.dropout(self._activation(self.norms[0](rst)))
        parts = rst.split(self.att_hop.shape[1], dim=1)
        outputs = [
            head(part) for head, part in zip(self.outputs, parts, strict=True)
        ]
        mean = th.stack(outputs).mean(0) if len(outputs) > 1 else outputs[0]
        return self.add_labels(mean, feat)

    def _encode(self, rows: th.Tensor) -> list[th.Tensor]:
        """Encode each hop, shape (rows, heads, hid_feats)."""
        heads = len(self.outputs)
        found = [
            encoder(rows[place // heads])
            for place, encoder in enumerate(self.encoders)
        ]
        return [
            th.stack(found[place : place + heads], dim=1)
            for place in range(0, len(found), heads)
        ]

    def _attend(self, encoded: list[th.Tensor]) -> th.Tensor:
        """Weigh encoded hops, shape (hops, rows, heads)."""
        query = (encoded[0] * self.att_first).sum(-1)
        scores = [query + (hop * self.att_hop).sum(-1) for hop in encoded]
        return F.leaky_relu(th.stack(scores), _SLOPE).softmax(dim=0)

    def _weigh(self, rows: th.Tensor) -> th.Tensor:
        """Compute the mean weights of all heads, shape (rows, hops)."""
        return self._attend(self._encode(rows)).mean(-1).T

    def extra_repr(self) -> str:
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}, num_heads={len(self.outputs)}"
