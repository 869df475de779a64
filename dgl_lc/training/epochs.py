"""The epochs of a training run, whatever their steps are made of."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from dgl import DGLError
from torch import nn
from tqdm.auto import tqdm

from .checkpoint import Checkpoint

#: Seconds between two checkpoints.
_CHECKPOINT_SECONDS = 30.0

#: Gives (logits, labels) for each step of an epoch.
Source = Callable[[nn.Module, int], Iterator[tuple[torch.Tensor, torch.Tensor]]]


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

    history: pd.DataFrame
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
        return float(self.history.seconds.max()) if len(self.history) else 0.0

    def __str__(self) -> str:
        if self.best_epoch not in self.history.index:
            return f"no best epoch among {len(self.history)}"
        return (
            f"best of {len(self.history)} epochs: {self.best_epoch}, "
            f"validation accuracy {self.valid_accuracy:.4f}; "
            f"{self.epoch_seconds:.3f} s per epoch, {self.seconds:.1f} s in all"
        )


@dataclass
class TrainingRun:
    """The state of a training run between epochs."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    monitor: str
    patience: int
    epoch: int = 0
    best_epoch: int = 0
    best_score: float = math.inf
    rows: list[dict[str, Any]] = field(default_factory=list)
    #: Whether the weights are those at the end of an epoch.
    whole: bool = False

    def __post_init__(self) -> None:
        self.best = _copy(self.model.state_dict())

    @property
    def seconds(self) -> float:
        return self.rows[-1]["seconds"] if self.rows else 0.0

    @property
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def until(
        self,
        epochs: int,
        source: Source,
        checked: Source,
        *,
        seed: int,
        device: torch.device,
        saved: Checkpoint | None = None,
        resume: bool = True,
        progress: bool | None = None,
        on_epoch: Callable[[dict], None] | None = None,
    ) -> Fit:
        """Train up to an epoch; put back the weights of the best one.

        The arguments are those of :func:`~dgl_lc.training.fit`; ``source``
        gives the steps of training, ``checked`` those of the validation.
        """
        with torch.random.fork_rng(
            devices=[device] if device.type == "cuda" else []
        ):
            torch.manual_seed(seed)
            if saved is not None and resume and saved.exists():
                self.load(saved.read())
            start = time.perf_counter() - self.seconds
            written = time.perf_counter()
            try:
                with tqdm(
                    total=epochs, initial=self.epoch, unit="epoch",
                    desc=type(self.model).__name__,
                    delay=0 if progress else 2,
                    disable=None if progress is None else not progress,
                ) as bar:  # fmt: skip
                    while self.epoch < epochs and not self.exhausted:
                        row = self.one_epoch(source, checked, start)
                        bar.update()
                        bar.set_postfix(
                            loss=f"{row['train_loss']:.3f}",
                            valid=f"{row['valid_accuracy']:.3f}",
                        )
                        if on_epoch is not None:
                            on_epoch(row)
                        now = time.perf_counter()
                        if saved and now - written > _CHECKPOINT_SECONDS:
                            saved.write(self.state())
                            written = now
            finally:
                # Also when it is interrupted: nothing is lost.
                if saved is not None and self.whole:
                    saved.write(self.state())
                self.restore_best()
        history = pd.DataFrame(self.rows).set_index("epoch")
        return Fit(history, self.best_epoch)

    def one_epoch(self, source: Source, checked: Source, start: float):
        self.whole = False
        began = time.perf_counter()
        loss = self._train(source)
        took = time.perf_counter() - began
        valid_loss, accuracy = self._evaluate(checked)
        self.epoch += 1
        row = {
            "epoch": self.epoch,
            "train_loss": loss,
            "valid_loss": valid_loss,
            "valid_accuracy": accuracy,
            "train_seconds": took,
            "seconds": time.perf_counter() - start,
        }
        self.rows.append(row)
        score = valid_loss if self.monitor == "loss" else -accuracy
        # Of equal epochs the first is kept.
        if score < self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best = _copy(self.model.state_dict())
        self.whole = True
        return row

    def _train(self, source: Source) -> float:
        self.model.train()
        total, count = 0.0, 0
        for number, (logits, target) in enumerate(
            source(self.model, self.epoch)
        ):
            if self.epoch == 0 and number == 0:
                _check_classes(logits, target)
            loss = F.cross_entropy(logits, target)
            value = loss.item()
            if not math.isfinite(value):
                raise DGLError(
                    f"the loss is {value} in epoch {self.epoch + 1}, batch "
                    f"{number + 1}: {self._kept}. A smaller lr, or features "
                    f"without nan and inf, may help."
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += value * len(target)
            count += len(target)
        return total / count

    def _evaluate(self, source: Source) -> tuple[float, float]:
        self.model.eval()
        total, right, count = 0.0, 0, 0
        with torch.no_grad():
            for number, (logits, target) in enumerate(source(self.model, 0)):
                _check_classes(logits, target)
                value = float(F.cross_entropy(logits, target))
                if not math.isfinite(value):
                    raise DGLError(
                        f"the validation loss is {value} in epoch "
                        f"{self.epoch + 1}, batch {number + 1}: {self._kept}. "
                        f"If the rows of valid hold nan or inf, take these "
                        f"nodes out of it; if not, a smaller lr may help."
                    )
                total += value * len(target)
                right += int((logits.argmax(dim=1) == target).sum())
                count += len(target)
        return total / count, right / count

    @property
    def _kept(self) -> str:
        """For a message: which weights the model has after an error."""
        if self.best_epoch:
            return f"the model's weights are those of epoch {self.best_epoch}"
        return "the model's weights are those it began with"

    def restore_best(self) -> None:
        self.model.load_state_dict(self.best)

    def state(self) -> dict[str, Any]:
        """All it takes to go on, in tensors and plain values."""
        return {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "rows": self.rows,
            "model": self.model.state_dict(),
            "best": self.best,
            "optimizer": self.optimizer.state_dict(),
            "generator": torch.get_rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]
        self.best_epoch = state["best_epoch"]
        self.best_score = state["best_score"]
        self.rows = state["rows"]
        self.model.load_state_dict(state["model"])
        self.best = state["best"]
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["generator"])
        self.whole = True


def _copy(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # A state dict refers to the live weights: without a copy the best
    # epoch's would go on changing.
    return {name: value.detach().clone() for name, value in state.items()}


def _check_classes(logits: torch.Tensor, target: torch.Tensor) -> None:
    if int(target.max()) >= logits.shape[1]:
        raise DGLError(
            f"labels holds {int(target.max())}, but the model gives "
            f"{logits.shape[1]} classes (0 to {logits.shape[1] - 1})."
        )


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Parameter groups: what decays, and what does not."""
    spared: frozenset[str] = getattr(model, "no_weight_decay", frozenset())
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise DGLError("the model has no parameters to train.")
    groups = [
        {
            "params": [p for n, p in named if n not in spared],
            "weight_decay": weight_decay,
        },
        {
            "params": [p for n, p in named if n in spared],
            "weight_decay": 0.0,
        },
    ]
    return [group for group in groups if group["params"]]
