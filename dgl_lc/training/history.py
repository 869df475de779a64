"""The history of a training run, and its file."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgl import DGLError

from .._common.file_access import open_regular, replace_buffered

if TYPE_CHECKING:
    import pandas as pd


def columns_of(metric: str) -> tuple[str, ...]:
    """Return what a row of the history holds, at the least."""
    return (
        "epoch", "train_loss", "valid_loss", f"valid_{metric}",
        "train_seconds", "seconds",
    )  # fmt: skip


#: The columns with the metric that is the default.
COLUMNS = columns_of("accuracy")
#: Figures of which a lower value is better.
LOWER_IS_BETTER = ("loss", "mae", "rmse")
#: How the file of a history begins.
_BEGIN = b"epoch,train_loss,valid_loss,valid_"


@dataclass
class Fit:
    """The result of a training run: its history and its best epoch.

    The model holds the weights of the best epoch.

    Attributes
    ----------
    history : DataFrame
        A row for each epoch: train_loss, valid_loss, valid_accuracy (or
        valid_METRIC), train_seconds (of the epoch's steps) and seconds (since
        the start, evaluation included). With a scheduler it also has lr, the
        learning rate of the epoch.
    best_epoch : int
        The epoch whose weights were kept, from 1. Of several that are equally
        good, it is the first.
    metric : str
        The name of the metric.
    shuffle : str
        How training rows were shuffled: "full", or in which chunks.
    """

    history: "pd.DataFrame"
    best_epoch: int
    metric: str = "accuracy"
    shuffle: str = "full"

    @property
    def valid_metric(self) -> float:
        """The metric of the validation in the best epoch, or nan."""
        found = self.history[f"valid_{self.metric}"]
        return float(found.get(self.best_epoch, math.nan))

    @property
    def valid_accuracy(self) -> float:
        """Validation accuracy in the best epoch; nan if there is none."""
        if self.metric != "accuracy":
            raise DGLError(
                f"this run has the metric {self.metric}, not the accuracy: "
                f"read valid_metric."
            )
        return self.valid_metric

    @property
    def epoch_seconds(self) -> float:
        """Median seconds of an epoch's steps."""
        return float(self.history.train_seconds.median())

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return (
            float(self.history.seconds.iloc[-1]) if len(self.history) else 0.0
        )

    def write_history(self, path: Path) -> None:
        """Write the history as a csv file, in one step.

        A file that is not such a history is not replaced.
        """
        check_history_file(path)
        replace_buffered(path, lambda file: self.history.to_csv(file))

    def __str__(self) -> str:
        if self.best_epoch not in self.history.index:
            return f"no best epoch among {len(self.history)}"
        return (
            f"best of {len(self.history)} epochs: {self.best_epoch}, "
            f"validation {self.metric} {self.valid_metric:.4f}; "
            f"{self.epoch_seconds:.3f} s per epoch, {self.seconds:.1f} s in all"
        )


def is_better(row: dict[str, Any], other: dict[str, Any], monitor: str) -> bool:
    """Tell whether a row of a history is better than another one."""
    column = f"valid_{monitor}"
    if monitor in LOWER_IS_BETTER:
        return row[column] < other[column]
    return row[column] > other[column]


def check_history_file(path: Path) -> None:
    """Refuse a file that exists and is not the history of a run."""
    if not path.exists():
        return
    with open_regular(path) as file:
        found = file.read(len(_BEGIN))
    if found and found != _BEGIN:
        raise DGLError(
            f"{path} exists, and is not a history that dgl-lc wrote: name "
            f"another file, or remove this one."
        )
