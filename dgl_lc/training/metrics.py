"""Figures of the validation beside its loss, by scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from .history import LOWER_IS_BETTER
from .targets import Targets

#: Names of metrics for classes, and for numbers.
CLASS_METRICS = ("accuracy", "macro_f1", "micro_f1", "roc_auc")
NUMBER_METRICS = ("r2", "mae", "rmse")
#: The default for each loss.
_DEFAULTS = {
    "cross_entropy": "accuracy", "bce": "micro_f1", "mse": "mae", "l1": "mae"
}  # fmt: skip

#: A metric: its name, or a function of logits and targets.
MetricGiven = str | Callable[[torch.Tensor, torch.Tensor], float] | None


class Metric:
    """A figure of the validation.

    Parameters
    ----------
    given : str or callable, optional
        As for :func:`~dgl_lc.training.fit`. Default: "accuracy".

    Attributes
    ----------
    name : str
        Its name: ``valid_NAME`` is its column in the history.
    lower : bool
        Whether a lower value is better.
    counted : bool
        Whether hits of batches are added up, instead of keeping all logits.
    """

    def __init__(self, given: MetricGiven = "accuracy"):
        self.own: Any = None
        if isinstance(given, str):
            if given not in (*CLASS_METRICS, *NUMBER_METRICS):
                raise DGLError(
                    f"metric={given!r} should be one of "
                    f"{', '.join((*CLASS_METRICS, *NUMBER_METRICS))}, or a "
                    f"function metric(logits, target)."
                )
            self.name = given
        elif callable(given):
            self.own = given
            name = getattr(given, "__name__", "metric")
            self.name = name if name.isidentifier() else "metric"
            if self.name in ("loss", *CLASS_METRICS, *NUMBER_METRICS):
                self.name = f"own_{self.name}"
        else:
            raise DGLError(f"metric={given!r} should be a name or a function.")
        self.lower = self.name in LOWER_IS_BETTER
        self.counted = self.name == "accuracy"

    @property
    def column(self) -> str:
        """The name of its column in the history."""
        return f"valid_{self.name}"

    def hits(self, logits: torch.Tensor, target: Targets) -> tuple[int, int]:
        """Count the entries of a batch that are right, and all entries."""
        if target.classes:
            right = logits.argmax(dim=1) == target.values
        else:
            right = (logits > 0) == (target.values > 0.5)
        return int(right.sum()), right.numel()

    def value(self, logits: torch.Tensor, values: torch.Tensor) -> float:
        """Compute it from all logits and targets of the validation."""
        if self.own is not None:
            found = self.own(logits, values)
        else:
            found = _VALUES[self.name](logits, values)
        found = float(found)
        if not np.isfinite(found):
            raise DGLError(
                f"the metric {self.name} of the validation is {found}: it is "
                f"not defined for these targets, or the model gives nan."
            )
        return found


def make_metric(given: MetricGiven, kind: str, valid: Targets) -> Metric:
    """Make the metric of a run, and refuse one that does not fit the loss.

    Parameters
    ----------
    given : str, callable or None
        As for :func:`~dgl_lc.training.fit`.
    kind : str
        The name of the loss, or "own".
    valid : Targets
        The targets of the validation.
    """
    if given is None:
        if kind == "own" and not valid.classes:
            raise DGLError(
                "metric should be given with a loss of your own and labels "
                f"that are not classes: one of {', '.join(NUMBER_METRICS)}, "
                f"{', '.join(CLASS_METRICS)}, or a function."
            )
        return Metric(_DEFAULTS.get(kind, "accuracy"))
    found = Metric(given)
    fitting = {
        "cross_entropy": CLASS_METRICS,
        "bce": CLASS_METRICS,
        "mse": NUMBER_METRICS,
        "l1": NUMBER_METRICS,
        "own": CLASS_METRICS if valid.classes
        else (*CLASS_METRICS, *NUMBER_METRICS),
    }[kind]  # fmt: skip
    if isinstance(given, str) and given not in fitting:
        loss = "these labels" if kind == "own" else f"loss={kind!r}"
        raise DGLError(
            f"metric={given!r} is not one for {loss}: choose one of "
            f"{', '.join(fitting)}, or give a function."
        )
    if given == "roc_auc":
        _check_two_sides(valid)
    return found


def _check_two_sides(valid: Targets) -> None:
    """Refuse a validation for which there is no ROC AUC."""
    if valid.classes:
        found = valid.values.unique().tolist()
        if found != [0, 1]:
            raise DGLError(
                f"metric='roc_auc' is for two classes, 0 and 1, both of which "
                f"occur among valid, or for columns of 0 and 1; these labels "
                f"have {len(found)} classes."
            )
    elif not len(_with_both_sides(valid.values.numpy() > 0.5)):
        raise DGLError(
            "metric='roc_auc' needs a column with a 0 and a 1 among valid."
        )


def _with_both_sides(right: np.ndarray) -> np.ndarray:
    """Return the columns in which both values occur."""
    return np.flatnonzero(right.any(axis=0) & ~right.all(axis=0))


def _f1(average: str) -> Callable[[torch.Tensor, torch.Tensor], float]:
    def value(logits: torch.Tensor, values: torch.Tensor) -> float:
        from sklearn.metrics import f1_score

        if values.dim() == 1:
            right, found = values, logits.argmax(dim=1)
        else:
            right, found = values > 0.5, logits > 0
            if right.shape[1] == 1:
                # One column stands for two classes.
                right, found = right[:, 0], found[:, 0]
        return f1_score(
            right.numpy(), found.numpy(), average=average, zero_division=0.0
        )

    return value


def _roc_auc(logits: torch.Tensor, values: torch.Tensor) -> float:
    from sklearn.metrics import roc_auc_score

    if values.dim() == 1:
        score = logits[:, -1] - logits[:, 0] if logits.shape[1] > 1 else logits
        return roc_auc_score(values.numpy(), score.view(-1).numpy())
    right, given = (values > 0.5).numpy(), logits.numpy()
    columns = _with_both_sides(right)
    return float(
        np.mean([roc_auc_score(right[:, c], given[:, c]) for c in columns])
    )


def _number(name: str) -> Callable[[torch.Tensor, torch.Tensor], float]:
    def value(logits: torch.Tensor, values: torch.Tensor) -> float:
        import sklearn.metrics

        function = getattr(sklearn.metrics, name)
        return function(values.numpy(), logits.numpy())

    return value


_VALUES: dict[str, Callable[[torch.Tensor, torch.Tensor], float]] = {
    "macro_f1": _f1("macro"),
    "micro_f1": _f1("micro"),
    "roc_auc": _roc_auc,
    "r2": _number("r2_score"),
    "mae": _number("mean_absolute_error"),
    "rmse": _number("root_mean_squared_error"),
}
