"""Normalisation of hidden layers, for rows of any number of hops."""

import torch as th
import torch.nn.functional as F
from dgl import DGLError
from torch import nn

from .plain.lcgprgnn import MLP

#: The kinds of normalisation, by their names.
NORMALIZATIONS = ("batch", "layer")


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` of rows with any axes before the last.

    Statistics are those of all rows of all hops together. Fewer than two
    rows have no variance: in training, as in the last and smallest batch of
    an epoch, they are normalised by the running statistics, where torch has
    an error.

    Examples
    --------
    >>> import torch as th
    >>> from dgl_lc.nn.normalization import BatchNorm
    >>> norm = BatchNorm(4)
    >>> norm(th.ones(2, 3, 4)).shape, norm(th.ones(1, 4)).shape
    (torch.Size([2, 3, 4]), torch.Size([1, 4]))
    """

    def forward(self, rows: th.Tensor) -> th.Tensor:
        flat = rows.reshape(-1, rows.shape[-1])
        if not self.training or len(flat) > 1:
            return super().forward(flat).view(rows.shape)
        return F.batch_norm(
            flat, self.running_mean, self.running_var, self.weight, self.bias,
            eps=self.eps,
        ).view(rows.shape)  # fmt: skip


def check_normalization(normalization: str | None) -> None:
    """Refuse an unknown kind of normalisation."""
    if normalization is not None and normalization not in NORMALIZATIONS:
        raise DGLError(
            f"normalization={normalization!r} should be 'batch', 'layer' or "
            f"None."
        )


def make_norm(normalization: str | None, width: int) -> nn.Module:
    """Make the normalisation of a layer with so many columns.

    >>> make_norm("layer", 8), make_norm(None, 8)
    (LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True), Identity())
    """
    check_normalization(normalization)
    if normalization is None:
        return nn.Identity()
    return BatchNorm(width) if normalization == "batch" else nn.LayerNorm(width)


def reset_norms(norms: nn.ModuleList) -> None:
    """Reset what normalisations have learned, if anything."""
    for norm in norms:
        if isinstance(norm, (BatchNorm, nn.LayerNorm)):
            norm.reset_parameters()


class NormalizedMLP(MLP):
    """The perceptron of LCGPRGNN and LCAPPNP, with normalised hidden layers.

    Parameters
    ----------
    mlp : MLP
        The perceptron, whose layers it takes over.
    normalization : str
        ``'batch'`` or ``'layer'``.
    """

    def __init__(self, mlp: MLP, normalization: str):
        super().__init__([], mlp.dropout.p, mlp.activation)
        self.layers = mlp.layers
        self.dropout = mlp.dropout
        self.norms = nn.ModuleList(
            make_norm(normalization, layer.out_features)
            for layer in mlp.layers[:-1]
        )

    def reset_parameters(self) -> None:
        """Reinitialize the learnable parameters of all layers."""
        super().reset_parameters()
        reset_norms(self.norms)

    def _activate(self, feat: th.Tensor, number: int) -> th.Tensor:
        return super()._activate(self.norms[number](feat), number)
