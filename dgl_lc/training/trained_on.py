"""What a saved model knows of the task that it was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from dgl import DGLError
from torch import nn

from ..data import DiskData, NodeData
from ..nn.model import HopModel


@dataclass(frozen=True)
class TrainedOn:
    """The names in a task and the kind of its labels, if they are known.

    ``load_model`` and ``fit`` set it as the attribute ``trained_on`` of the
    model.

    Attributes
    ----------
    feat_names : tuple of str, or None
        The columns of the features, in their order.
    class_names : tuple of str, or None
        The classes, in their order.
    output : str or None
        What the model gives: "classes" (logits, of which the largest is that
        of the class), "labels" (logits of several classes per node, each of
        which holds or not) or "numbers".
    """

    feat_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    output: str | None = None


def check_same_task(model: HopModel, data: NodeData | DiskData) -> None:
    """Refuse a task with other features or classes than the model's.

    Names are compared where both the model and the task have them. Classes
    are compared only if the task has labels.
    """
    columns = model.config["in_feats"]
    if columns != data.num_feats:
        raise DGLError(
            f"the model reads {columns} columns of features, but {data.name} "
            f"has {data.num_feats}: give the data it was trained on, or data "
            f"of the same kind."
        )
    check_features(model, data)
    check_classes(model, model.config["out_feats"], data)


def check_features(model: nn.Module, data: NodeData | DiskData) -> None:
    """Refuse a task whose features have other names than the model's."""
    known: Any = getattr(model, "trained_on", TrainedOn())
    names = getattr(data, "feat_names", None)
    found = _first_difference(known.feat_names, names)
    if found is not None:
        place, expected, given = found
        rest = " …" if len(known.feat_names) > 5 else ""
        raise DGLError(
            f"the model was trained on other features than those of "
            f"{data.name}: column {place} was {expected!r}, and is {given!r} "
            f"here. Prepare the task with the columns "
            f"{', '.join(known.feat_names[:5])}{rest} in the order of the "
            f"training."
        )


def check_classes(
    model: nn.Module, classes: int, data: NodeData | DiskData
) -> None:
    """Refuse a task with other classes than those that the model predicts."""
    known: Any = getattr(model, "trained_on", TrainedOn())
    if known.output not in (None, "classes"):
        # It was trained on other labels than the classes of a task.
        return
    if data.num_classes == 0:
        # The task was prepared without labels.
        return
    found = _first_difference(known.class_names, data.class_names)
    if found is None and classes == data.num_classes:
        return
    what = f"it has {classes} classes, and {data.name} has {data.num_classes}"
    if found is not None:
        place, expected, given = found
        what = f"class {place} was {expected!r}, and is {given!r} here"
    raise DGLError(
        f"the model was trained on other classes than those of {data.name}: "
        f"{what}. Give data with the classes of the training, or without "
        f"labels."
    )


def _first_difference(
    expected: Sequence[str] | None, given: Sequence[str] | None
) -> tuple[int, str | None, str | None] | None:
    """Return the first place where names differ, and both names there."""
    if expected is None or given is None:
        return None
    pairs = enumerate(zip_longest(expected, given))
    return next(((place, *pair) for place, pair in pairs
                 if pair[0] != pair[1]), None)  # fmt: skip
