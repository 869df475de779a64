"""The history of a training run, and its file."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dgl import DGLError

from .._common.file_access import open_regular, replace_buffered

if TYPE_CHECKING:
    import pandas as pd

#: What a row of the history holds, at the least.
COLUMNS = (
    "epoch", "train_loss", "valid_loss", "valid_accuracy", "train_seconds",
    "seconds",
)  # fmt: skip


@dataclass
class Fit:
    """What a training run did; the model holds the weights of the best epoch.

    Attributes
    ----------
    history : DataFrame
        A row for each epoch: train_loss, valid_loss, valid_accuracy,
        train_seconds (of the epoch's steps) and seconds (since the start,
        evaluation included).
    best_epoch : int
        The epoch whose weights were kept, from 1. Of several that are equally
        good, it is the first.
    """

    history: "pd.DataFrame"
    best_epoch: int

    @property
    def valid_accuracy(self) -> float:
        """Validation accuracy in the best epoch; nan if there is none."""
        found = self.history.valid_accuracy
        return float(found.get(self.best_epoch, math.nan))

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
            f"validation accuracy {self.valid_accuracy:.4f}; "
            f"{self.epoch_seconds:.3f} s per epoch, {self.seconds:.1f} s in all"
        )


def check_history_file(path: Path) -> None:
    """Refuse a file that exists and is not the history of a run."""
    if not path.exists():
        return
    begin = ",".join(COLUMNS).encode()
    with open_regular(path) as file:
        found = file.read(len(begin))
    if found and found != begin:
        raise DGLError(
            f"{path} exists, and is not a history that dgl-lc wrote: name "
            f"another file, or remove this one."
        )
