"""Torch module for GAMLP."""

from collections.abc import Callable
from typing import Any

import dgl
import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn
from torch.nn import init

from .dropout import Dropout
from .hop_attention import WeighsHops
from .model import Features
from .normalization import check_normalization
from .perceptrons import InitialResidualPerceptron, Perceptron, reset_activation
from .plain.model_on_hops import check_last_hop, check_sizes


def _leaky_relu(scores: th.Tensor) -> th.Tensor:
    return F.leaky_relu(scores, 0.2)


#: What is done to a score before the softmax over the hops.
_SCORES: dict[str, Callable] = {
    "leaky_relu": _leaky_relu, "sigmoid": th.sigmoid, "relu": F.relu
}  # fmt: skip
_MODES = ("recursive", "jk")


class GAMLP(WeighsHops):
    r"""GAMLP, from `Graph Attention Multi-Layer Perceptron
    <https://arxiv.org/abs/2206.04355>`__

    Each hop has an encoder, :math:`H_k = \mathrm{MLP}_k(S^k X)`, and each row
    weighs its hops by attention to a reference :math:`R_k`:

    .. math::
      w = \mathrm{softmax}(s), \quad
      s_k = \delta\big((R_k \Vert H_k)\, a + b\big), \quad
      H = \mathrm{MLP}\Big(\sum_{k=0}^K w_k \odot H_k\Big)

    In mode ``'recursive'`` the reference is the sum of the hops before,
    weighed by their own softmax; in mode ``'jk'`` it is a perceptron of all
    hops:

    .. math::
      R_k = \sum_{j<k} \mathrm{softmax}(s_0, \dots, s_{k-1})_j \odot H_j,
      \quad R_0 = H_0; \qquad
      R_k = \mathrm{MLP}_R(H_0 \Vert \dots \Vert H_K)

    The last perceptron and that of the reference have initial residual
    connections; see
    :class:`~dgl_lc.nn.perceptrons.InitialResidualPerceptron`. All activations
    are PReLU. The defaults are those that the authors train ogbn-products
    with, there with ``hid_feats=512``. For ogbn-papers100M they use
    ``hid_feats=1024, K=6, num_layers=6, input_dropout=0,
    attention_dropout=0, score="sigmoid", residual=False``; the learning rate
    is 0.001, without weight decay. Edges of that graph go in both directions,
    and the filter is the default one; for products it is the mean over
    neighbours, ``norm="right", self_loop=False``. Their label model, of four
    layers, reads the ninth hop of the labels, also a mean over neighbours.

    Parameters
    ----------
    in_feats : int
        Input feature size.
    hid_feats : int
        Columns of each hop and of the hidden layers.
    out_feats : int
        Output feature size; the number of classes.
    K : int, optional
        The last hop. Default: 5.
    mode : str, optional
        ``'recursive'`` or ``'jk'``. Default: ``'recursive'``.
    num_layers : int, optional
        The number of layers of the last perceptron. Default: 4.
    jk_layers : int, optional
        The number of layers of the reference in mode ``'jk'``. Default: 4.
    dropout : float, optional
        Dropout rate after each activation. Default: 0.5.
    input_dropout : float, optional
        Dropout rate of the features. Default: 0.2.
    attention_dropout : float, optional
        Dropout rate of the weights of the hops. Default: 0.5.
    score : str, optional
        :math:`\delta`: ``'leaky_relu'`` (of slope 0.2), ``'sigmoid'`` or
        ``'relu'``. Default: ``'leaky_relu'``.
    encode : bool, optional
        Whether hops are encoded, by perceptrons of two layers. If not,
        :math:`H_k = S^k X`. Default: True.
    residual : bool, optional
        Whether a linear map of hop 0 is added to the sum of the hops, and
        PReLU and dropout follow. Default: True.
    alpha : float, optional
        Share of the first layer's output in the later layers of perceptrons
        with initial residual connections. Default: 0.5.
    normalization : str, optional
        Normalisation of hidden layers, ``'batch'``, ``'layer'`` or None; as
        published, ``'batch'`` also normalises the output. Default:
        ``'batch'``.
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
    >>> from dgl_lc.nn import GAMLP
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> x = th.ones(6, 10)
    >>> model = GAMLP(10, 16, 3, K=3, mode="jk")
    >>> model(g, x).shape
    torch.Size([6, 3])
    >>> batch = model.precompute(g, x).rows(th.tensor([4, 0]))
    >>> model.hop_attention(batch).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 5,
        mode: str = "recursive",
        num_layers: int = 4,
        jk_layers: int = 4,
        dropout: float = 0.5,
        input_dropout: float = 0.2,
        attention_dropout: float = 0.5,
        score: str = "leaky_relu",
        encode: bool = True,
        residual: bool = True,
        alpha: float = 0.5,
        normalization: str | None = "batch",
        norm: str = "both",
        self_loop: bool = True,
        **labels: Any,
    ):
        super().__init__(
            in_feats, hid_feats, out_feats, norm=norm, self_loop=self_loop,
            **labels,
        )  # fmt: skip
        check_last_hop(K)
        check_sizes(num_layers=num_layers, jk_layers=jk_layers)
        check_normalization(normalization)
        if mode not in _MODES:
            raise DGLError(f"mode={mode!r} should be 'recursive' or 'jk'.")
        if score not in _SCORES:
            raise DGLError(
                f"score={score!r} should be one of "
                f"{', '.join(map(repr, _SCORES))}."
            )
        if not 0 <= alpha <= 1:
            raise DGLError(f"alpha={alpha!r} should be between 0 and 1.")
        self._K = K
        self._mode = mode
        self._jk_layers = jk_layers
        self._score = score
        self._alpha = alpha
        self._normalization = normalization
        width = hid_feats if encode else in_feats
        self.encoders = nn.ModuleList(
            Perceptron(
                [in_feats, hid_feats, hid_feats], dropout, nn.PReLU(),
                normalization,
            )
            for _ in range(K + 1 if encode else 0)
        )  # fmt: skip
        self.reference: InitialResidualPerceptron | None = None
        if mode == "jk":
            self.reference = InitialResidualPerceptron(
                (K + 1) * width, hid_feats, hid_feats, jk_layers, dropout,
                alpha, normalization,
            )  # fmt: skip
        self.att_reference = nn.Parameter(
            th.empty(hid_feats if mode == "jk" else width)
        )
        self.att_hop = nn.Parameter(th.empty(width))
        self.att_bias = nn.Parameter(th.empty(()))
        self.first = nn.Linear(in_feats, width) if residual else None
        used = residual or mode == "jk"
        self.activation = nn.PReLU() if used else nn.Identity()
        self.output = InitialResidualPerceptron(
            width, hid_feats, out_feats, num_layers, dropout, alpha,
            normalization,
        )  # fmt: skip
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
            "mode": self._mode,
            "num_layers": len(self.output.layers),
            "jk_layers": self._jk_layers,
            "dropout": self.dropout.p,
            "input_dropout": self.input_dropout.p,
            "attention_dropout": self.attention_dropout.p,
            "score": self._score,
            "encode": len(self.encoders) > 0,
            "residual": self.first is not None,
            "alpha": self._alpha,
            "normalization": self._normalization,
        }

    def reset_parameters(self) -> None:
        r"""

        Description
        -----------
        Reinitialize learnable parameters and the statistics of the norms.
        """
        gain = init.calculate_gain("relu")
        parts = [*self.encoders, self.output]
        if self.reference is not None:
            parts.append(self.reference)
        for part in parts:
            part.reset_parameters()
        # Both vectors are the weight of one layer with one output.
        size = len(self.att_reference) + len(self.att_hop)
        bound = gain * (6 / (size + 1)) ** 0.5
        init.uniform_(self.att_reference, -bound, bound)
        init.uniform_(self.att_hop, -bound, bound)
        init.zeros_(self.att_bias)
        if self.first is not None:
            init.xavier_uniform_(self.first.weight, gain)
            init.zeros_(self.first.bias)
        reset_activation(self.activation)
        self.reset_options()

    def forward(self, graph: dgl.DGLGraph | None, feat: Features) -> th.Tensor:
        r"""

        Description
        -----------
        Compute GAMLP.

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
        rst = weights[0].unsqueeze(-1) * encoded[0]
        for weight, hop in zip(weights[1:], encoded[1:], strict=True):
            rst = rst + weight.unsqueeze(-1) * hop
        if self.first is not None:
            rst = rst + self.first(rows[0])
            rst = self.dropout(self.activation(rst))
        return self.add_labels(self.output(rst), feat)

    def _encode(self, rows: th.Tensor) -> list[th.Tensor]:
        """Encode each hop."""
        if len(self.encoders) == 0:
            return list(rows)
        return [
            encoder(hop)
            for encoder, hop in zip(self.encoders, rows, strict=True)
        ]

    def _attend(self, encoded: list[th.Tensor]) -> th.Tensor:
        """Weigh encoded hops, shape (hops, rows)."""
        score = _SCORES[self._score]
        # A score is linear in what is concatenated, so that hops and
        # references are mapped to numbers first, and then added up.
        own = [hop @ self.att_hop + self.att_bias for hop in encoded]
        if self.reference is not None:
            every = self.reference(th.cat(encoded, dim=1))
            every = self.dropout(self.activation(every)) @ self.att_reference
            return score(th.stack([every + part for part in own])).softmax(0)
        as_reference = [hop @ self.att_reference for hop in encoded]
        scores = [score(as_reference[0] + own[0])]
        for k in range(1, len(encoded)):
            weights = self.attention_dropout(th.stack(scores).softmax(dim=0))
            history = (weights * th.stack(as_reference[:k])).sum(dim=0)
            scores.append(score(history + own[k]))
        return th.stack(scores).softmax(dim=0)

    def _weigh(self, rows: th.Tensor) -> th.Tensor:
        """Compute the weights of stacked hops, shape (rows, hops)."""
        return self._attend(self._encode(rows)).T

    def extra_repr(self) -> str:
        """Describe the arguments of the module, for printing it."""
        return f"K={self._K}, mode={self._mode}"
