"""Dropout that costs a fifth of torch's on a CPU.

A model on hop features drops from wide inputs, and on a CPU torch then
spends more of an epoch on drawing what to drop than on multiplying.
"""

import torch as th
import torch.nn.functional as F
from torch import nn
from torch.overrides import handle_torch_function, has_torch_function_unary

#: Values of a draw of 16 bits.
_LEVELS = 2**16

#: Below this many values the calls take longer than the drawing.
_FEW = 2048


class Dropout(nn.Dropout):
    """:class:`torch.nn.Dropout` that draws 16 bits per value on a CPU.

    The probability is ``p`` to the next of 65536 steps, and what is kept is
    scaled by exactly its inverse, so that the mean stays. On other devices,
    and for few values, it is torch's own.

    Examples
    --------
    >>> import torch as th
    >>> from dgl_lc.nn.dropout import Dropout
    >>> dropout = Dropout(0.5)
    >>> dropout(th.ones(100, 100)).unique()
    tensor([0., 2.])
    >>> dropout.eval()(th.ones(100, 100)).unique()
    tensor([1.])
    """

    def forward(self, feat: th.Tensor) -> th.Tensor:
        if self.inplace or not self.training:
            return super().forward(feat)
        return dropout(feat, self.p)


def use_quick_dropout(model: nn.Module) -> None:
    """Replace torch's own dropouts of a model by :class:`Dropout`.

    An activation that the user gave stays as it is.
    """
    for name, child in model.named_children():
        if type(child) is nn.Dropout:
            setattr(model, name, Dropout(child.p, child.inplace))
        elif not name.endswith("activation"):
            use_quick_dropout(child)


def dropout(feat: th.Tensor, p: float) -> th.Tensor:
    """Drop values with a probability and scale the others."""
    if has_torch_function_unary(feat):
        # Hop features, which then call it with all their rows.
        return handle_torch_function(dropout, (feat,), feat, p)
    dropped = round(p * _LEVELS)
    if (
        not 0 < dropped < _LEVELS
        or feat.device.type != "cpu"
        or not feat.is_floating_point()
        or feat.numel() < _FEW
    ):
        return F.dropout(feat, p)
    kept = _draw(feat.numel()) >= dropped - _LEVELS // 2
    scale = kept.view(feat.shape).to(feat.dtype)
    return feat * scale.mul_(_LEVELS / (_LEVELS - dropped))


def _draw(count: int) -> th.Tensor:
    """Draw int16, each of the 65536 as likely; torch draws four at a time."""
    drawn = th.empty(-(-count // 4), dtype=th.int64)
    return drawn.random_(-(2**63), None).view(th.int16)[:count]
