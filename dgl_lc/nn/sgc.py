"""Torch module for SGC."""

from typing import Any

from dgl import DGLError

from . import plain
from .model import HopModel


class SGC(HopModel, plain.SGC):
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
        The hop; by name only, as all options. Default: 2.
    bias : bool, optional
        If True, adds a learnable bias. Default: True.
    norm : str, optional
        The norm of the filter. Default: ``'both'``.
    self_loop : bool, optional
        Whether the filter gives every node one self-loop. Default: True.
    **options
        ``input_dropout`` and ``residual``, as for
        :class:`~dgl_lc.nn.model.HopModel`, and ``label_feats``,
        ``label_hops`` and ``label_dropout``, for models that read label
        features.

    Examples
    --------
    >>> import dgl
    >>> import torch as th
    >>> from dgl_lc.nn import SGC
    >>> g = dgl.graph(([0, 1, 2, 3, 2, 5], [1, 2, 3, 4, 0, 3]))
    >>> model = SGC(10, 3)
    >>> model.hops
    [2]
    >>> model(g, th.ones(6, 10)).shape
    torch.Size([6, 3])
    """

    def __init__(
        self,
        in_feats: int,
        out_feats: int,
        *others: Any,
        K: int = 2,
        bias: bool = True,
        norm: str = "both",
        self_loop: bool = True,
        **options: Any,
    ):
        if others:
            # Other models take (in_feats, hid_feats, out_feats).
            raise DGLError(
                f"SGC takes in_feats={in_feats!r} and out_feats={out_feats!r} "
                f"by position, got {others[0]!r} as well. It has no hidden "
                f"features; give K and other options by name, as in "
                f"SGC(128, 16, K=2)."
            )
        super().__init__(
            in_feats, out_feats, K=K, bias=bias, norm=norm,
            self_loop=self_loop, **options,
        )  # fmt: skip
        if self._hidden_normalization is not None:
            raise DGLError(
                "SGC has no hidden layers to normalise: omit normalization."
            )

    @property
    def config(self) -> dict[str, Any]:
        """The arguments that make such a model again."""
        return {
            **super().config,
            "K": self._K,
            "bias": self.fc.bias is not None,
        }
