"""What a model can do to the hops that it reads, before its own layers."""

from typing import Any

import torch as th
from torch import nn
from torch.nn import init

from .dropout import Dropout


class Front(nn.Module):
    r"""Input dropout, and a residual of hop 0 in every hop.

    With the residual, a model reads :math:`S^k X + X R` where it reads
    :math:`S^k X` without. :math:`R` is learned and starts as zeros, so that
    the model starts as the one without.

    Parameters
    ----------
    in_feats : int
        Columns of the features.
    input_dropout : float
        Dropout rate of the features.
    residual : bool
        Whether there is a residual of hop 0.

    Examples
    --------
    >>> import torch as th
    >>> from dgl_lc.nn.front import Front
    >>> front = Front(2, 0.0, residual=True)
    >>> with th.no_grad():
    ...     _ = front.residual.weight.copy_(10 * th.eye(2))
    >>> front(th.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), hops=1)
    tensor([[[13., 24.]]], grad_fn=<AddBackward0>)
    """

    def __init__(self, in_feats: int, input_dropout: float, residual: bool):
        super().__init__()
        self.dropout = Dropout(input_dropout)
        self.residual: nn.Linear | None = None
        if residual:
            # Without drawing numbers, so that the model's own stay the same.
            self.residual = nn.utils.skip_init(
                nn.Linear, in_feats, in_feats, bias=False
            )
        self.reset_parameters()

    @property
    def config(self) -> dict[str, Any]:
        """The arguments of a model that make it again."""
        found: dict[str, Any] = {}
        if self.dropout.p:
            found["input_dropout"] = self.dropout.p
        if self.residual is not None:
            found["residual"] = True
        return found

    def reset_parameters(self) -> None:
        """Reinitialize the residual, to zeros."""
        if self.residual is not None:
            init.zeros_(self.residual.weight)

    def forward(self, rows: th.Tensor, hops: int) -> th.Tensor:
        """Return the last so many hops; hop 0 is the first of ``rows``."""
        rows = self.dropout(rows)
        if self.residual is None:
            return rows
        return rows[len(rows) - hops :] + self.residual(rows[0])
