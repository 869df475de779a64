"""The loss of a training run: what is computed from logits and targets.

Losses are sums over rows, with a weight for each row. The mean that training
minimises is the sum divided by the sum of weights, so that ranks can add up
both: P ranks have the loss of one process.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from dgl import DGLError

from .targets import Targets

#: A loss: its name, or a function of logits and targets.
Loss = str | Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None

#: Names of losses; those of classes come first.
LOSSES = ("cross_entropy", "bce", "mse", "l1")


def loss_kind(loss: Loss) -> str:
    """Return the name of a loss, or "own" for a function."""
    if loss is None:
        return "cross_entropy"
    if isinstance(loss, str) and loss in LOSSES:
        return loss
    if not isinstance(loss, str) and callable(loss):
        return "own"
    raise DGLError(
        f"loss={loss!r} should be one of {', '.join(LOSSES)}, or a function "
        f"loss(logits, target)."
    )


class Objective:
    """What training minimises.

    Parameters
    ----------
    loss : str or callable, optional
        As for :func:`~dgl_lc.training.fit`. Default: cross entropy.
    class_weight : Tensor, optional
        Weights of classes; for "bce" those of the positives of each column.
    padded : bool, optional
        Whether classes after those of ``class_weight`` weigh 1. Default:
        False, which makes them an error.
    """

    def __init__(
        self,
        loss: Loss = None,
        class_weight: torch.Tensor | None = None,
        padded: bool = False,
    ):
        self.kind = loss_kind(loss)
        self.own: Any = loss if self.kind == "own" else None
        self.class_weight, self._padded = class_weight, padded

    def check(self, logits: torch.Tensor, target: Targets) -> None:
        """Refuse targets that the columns of the logits do not fit."""
        columns = logits.shape[1]
        if not len(target):
            return
        if target.classes:
            last = int(target.values.max())
            # What a function of the user's makes of classes is its matter.
            if last >= columns and self.kind != "own":
                raise DGLError(
                    f"labels holds {last}, but the model gives {columns} "
                    f"classes (0 to {columns - 1})."
                )
            if target.soft is not None and target.soft.shape[1] != columns:
                raise DGLError(
                    f"labels has probabilities of {target.soft.shape[1]} "
                    f"classes, but the model gives {columns}."
                )
        elif self.kind != "own" and target.values.shape[1] != columns:
            raise DGLError(
                f"labels has {target.values.shape[1]} columns, but the model "
                f"gives {columns}: with loss={self.kind!r} they should be "
                f"equal."
            )
        given = self.class_weight
        if (
            self.kind == "cross_entropy"
            and given is not None
            and not self._padded
            and len(given) != columns
        ):
            raise DGLError(
                f"class_weight has {len(given)} entries, but the model gives "
                f"{columns} classes."
            )

    def mean(
        self, logits: torch.Tensor, target: Targets
    ) -> tuple[torch.Tensor, float]:
        """Compute the loss of a batch, and the sum of weights of its rows."""
        if self._is_plain(target):
            return F.cross_entropy(logits, target.values), len(target)
        total, weight = self.total(logits, target)
        return total / weight, weight

    def total(
        self, logits: torch.Tensor, target: Targets
    ) -> tuple[torch.Tensor, float]:
        """Add up the losses of rows, and their weights."""
        if self._is_plain(target):
            found = F.cross_entropy(logits, target.values, reduction="sum")
            return found, len(target)
        losses, weight = self._each(logits, target)
        if weight is None:
            return losses.sum(), len(target)
        return (losses * weight).sum(), float(weight.double().sum())

    def checked_total(
        self, logits: torch.Tensor, target: Targets
    ) -> tuple[float, float]:
        """Add up the losses of rows in float64, and their weights."""
        losses, weight = self._each(logits, target)
        # In float64 the sum does not depend on how rows are cut.
        losses = losses.double()
        if weight is None:
            return float(losses.sum()), len(target)
        weight = weight.double()
        return float((losses * weight).sum()), float(weight.sum())

    def _is_plain(self, target: Targets) -> bool:
        return (
            self.kind == "cross_entropy"
            and self.class_weight is None
            and target.weight is None
            and target.soft is None
        )

    def _each(
        self, logits: torch.Tensor, target: Targets
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Compute the loss of each row, and the weights of rows."""
        if not len(target):
            # A function of the user's need not know what an empty batch is.
            return logits.sum(dim=1), target.weight
        if self.kind == "cross_entropy":
            return self._cross_entropy(logits, target)
        if self.kind == "own":
            return self._of_function(logits, target), None
        wanted = target.values.to(logits.dtype)
        if self.kind == "bce":
            factor = self.class_weight
            losses = F.binary_cross_entropy_with_logits(
                logits, wanted, reduction="none",
                pos_weight=None if factor is None else factor.to(logits),
            )  # fmt: skip
        elif self.kind == "mse":
            losses = F.mse_loss(logits, wanted, reduction="none")
        else:
            losses = F.l1_loss(logits, wanted, reduction="none")
        return losses.mean(dim=1), None

    def _cross_entropy(
        self, logits: torch.Tensor, target: Targets
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        # A row counts as the weight of its class; one with probabilities
        # counts as the mean weight, and so does each of its terms.
        factor = self._weights(logits)
        losses = F.cross_entropy(logits, target.values, reduction="none")
        weight = None if factor is None else factor[target.values]
        if target.soft is not None and target.place is not None:
            which = (target.place >= 0).nonzero().view(-1)
            soft = target.soft.to(logits.dtype)[target.place[which]]
            mixed = F.cross_entropy(
                logits[which], soft, weight=factor, reduction="none"
            )
            if weight is not None and factor is not None:
                mean = soft @ factor
                mixed = mixed / mean
                weight = weight.index_copy(0, which, mean)
            losses = losses.index_copy(0, which, mixed)
        if target.weight is not None:
            own = target.weight.to(logits.dtype)
            weight = own if weight is None else weight * own
        return losses, weight

    def _weights(self, logits: torch.Tensor) -> torch.Tensor | None:
        """Return the weight of each class that the model gives."""
        if self.class_weight is None:
            return None
        found = self.class_weight.to(logits)
        more = logits.shape[1] - len(found)
        if more > 0 and self._padded:
            found = torch.cat([found, found.new_ones(more)])
        return found

    def _of_function(
        self, logits: torch.Tensor, target: Targets
    ) -> torch.Tensor:
        found = self.own(logits, target.values)
        rows = len(target)
        if isinstance(found, torch.Tensor) and found.dim() == 0:
            return found.expand(rows)
        if (
            not isinstance(found, torch.Tensor)
            or found.dim() not in (1, 2)
            or len(found) != rows
        ):
            shape = getattr(found, "shape", None)
            text = type(found).__name__ if shape is None else tuple(shape)
            raise DGLError(
                f"loss should give a tensor with the loss of each of {rows} "
                f"rows, or their mean, and gives {text}."
            )
        return found if found.dim() == 1 else found.mean(dim=1)


def make_class_weight(
    given: Any, kind: str, train: Targets
) -> torch.Tensor | None:
    """Check weights of classes, or compute those that balance them.

    Parameters
    ----------
    given : Tensor, "balanced" or None
        As for :func:`~dgl_lc.training.fit`.
    kind : str
        The name of the loss.
    train : Targets
        The targets of all training nodes.
    """
    if given is None:
        return None
    if kind not in ("cross_entropy", "bce"):
        raise DGLError(
            "class_weight is for loss='cross_entropy' and 'bce': a function of "
            "your own can weigh rows itself."
        )
    if isinstance(given, str):
        if given != "balanced":
            raise DGLError(
                f"class_weight={given!r} should be 'balanced' or a tensor."
            )
        return _balanced(kind, train)
    found = torch.as_tensor(given, dtype=torch.float64).cpu().detach()
    if found.dim() != 1 or not bool(((found > 0) & found.isfinite()).all()):
        raise DGLError(
            f"class_weight should hold one finite number above 0 for each "
            f"class, got {_shown(given)}. To ignore a class, leave its nodes "
            f"out of the split."
        )
    columns = train.values.shape[1] if kind == "bce" else None
    least = int(train.values.max()) + 1 if columns is None else columns
    if len(found) < least or (columns is not None and len(found) != columns):
        raise DGLError(
            f"class_weight has {len(found)} entries, and the labels have "
            f"{least} {'classes' if columns is None else 'columns'}."
        )
    return found


def _balanced(kind: str, train: Targets) -> torch.Tensor:
    if kind == "bce":
        positive = train.values.double().sum(0)
        negative = len(train) - positive
        found = torch.where(positive > 0, negative / positive, 1.0)
        # Without negatives, a weight of 0 would leave the column out.
        return torch.where(negative > 0, found, 1.0)
    counts = class_counts(train)
    there = counts > 0
    # As scikit-learn: rows divided by (classes that occur times rows of one).
    found = len(train) / (int(there.sum()) * counts)
    return torch.where(there, found, 1.0)


def class_counts(train: Targets) -> torch.Tensor:
    """Count the rows of each class, with parts of those that are soft."""
    if train.soft is None or train.place is None:
        return torch.bincount(train.values).double()
    hard = train.values[train.place < 0]
    soft = train.soft[train.place[train.place >= 0]].double().sum(0)
    return soft + torch.bincount(hard, minlength=len(soft))


def _shown(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, torch.Tensor) else value)
    return text if len(text) <= 60 else text[:60] + "…"
