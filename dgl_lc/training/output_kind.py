"""What the output of a model stands for, by the loss of its training."""

from dataclasses import replace
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .trained_on import TrainedOn

#: One class per node; any number of classes per node; numbers.
CLASSES, LABELS, NUMBERS = KINDS = ("classes", "labels", "numbers")


def check_kind(kind: Any) -> None:
    """Refuse what is not one of :data:`KINDS`."""
    if kind not in KINDS:
        raise DGLError(
            f"output={kind!r} should be one of {', '.join(map(repr, KINDS))}."
        )


def remember_output(model: nn.Module, loss: str, of_classes: bool) -> None:
    """Let a model know what its output stands for.

    Parameters
    ----------
    model : nn.Module
        The model, whose ``trained_on`` is set.
    loss : str
        The name of the loss it is trained with, or "own".
    of_classes : bool
        Whether the targets are classes; a loss of the user's own does not
        tell.
    """
    kind = {"cross_entropy": CLASSES, "bce": LABELS}.get(loss, NUMBERS)
    if loss == "own" and of_classes:
        kind = CLASSES
    known: Any = replace(getattr(model, "trained_on", TrainedOn()), output=kind)
    model.trained_on = known


def kind_of(model: nn.Module) -> str:
    """Return what the output of a model stands for: classes, if unknown."""
    known: Any = getattr(model, "trained_on", TrainedOn())
    return known.output or CLASSES


def as_values(output: torch.Tensor, kind: str) -> torch.Tensor:
    """Turn the output of a model into probabilities, or numbers.

    >>> as_values(torch.zeros(1, 2), "classes")
    tensor([[0.5000, 0.5000]])
    >>> as_values(torch.tensor([[0.0, 9.0]]), "labels")
    tensor([[0.5000, 0.9999]])
    """
    output = output.float()
    if kind == CLASSES:
        return output.softmax(dim=1)
    return output.sigmoid() if kind == LABELS else output
