"""The epochs of a training run, whatever their steps are made of."""

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from dgl import DGLError
from torch import nn
from tqdm.auto import tqdm

from .checkpoint import Checkpoint
from .consistency import Outputs, Passes
from .history import Fit, columns_of
from .model_rows import model_device
from .run_options import RunOptions
from .schedules import step_scheduler
from .targets import Targets
from .tensor_files import in_one_line, plain_copy
from .validation import Validation, as_targets

#: Seconds between two checkpoints.
_CHECKPOINT_SECONDS = 30.0

#: Gives (logits, targets) for each step of an epoch; classes may be a tensor,
#: and the logits of several passes are Outputs.
Source = Callable[[nn.Module, int], Iterator[tuple[Any, Any]]]
#: Functions that are called with each row of the history.
OnEpoch = Callable[[dict], Any]


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
    options: RunOptions = field(default_factory=RunOptions)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = copied(self.model.state_dict())
        #: What the steps call: the model, or its passes.
        self.stepped = self.model
        if self.options.consistency is not None:
            self.stepped = Passes(self.model, self.options.consistency.passes)
        #: The loss between passes in the last epoch, of one row.
        self._apart = 0.0
        #: The checkpoint that was taken up, until the optimizer made a step.
        self._untried: Checkpoint | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the start to the end of the last whole epoch."""
        return self.rows[-1]["seconds"] if self.rows else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether the validation has not improved for too long."""
        return self.epoch - self.best_epoch >= self.patience

    def until(
        self,
        epochs: int,
        source: Source,
        checked: Source,
        *,
        seed: int,
        saved: Checkpoint | None = None,
        resume: bool = True,
        progress: bool | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Fit:
        """Train up to an epoch; put back the weights of the best one.

        The arguments are those of :func:`~dgl_lc.training.fit`; ``source``
        gives the steps of training, ``checked`` those of the validation.
        """
        device = model_device(self.model)
        with torch.random.fork_rng(
            devices=[device] if device.type == "cuda" else []
        ):
            torch.manual_seed(seed)
            self._begin(saved, resume)
            start = time.perf_counter() - self.seconds
            written = time.perf_counter()
            # The state at the end of the last whole epoch, until it is
            # written. An interruption in the middle of an epoch writes it,
            # not the weights as they are by then.
            unwritten: dict[str, Any] | None = None
            try:
                with tqdm(
                    total=epochs, initial=self.epoch, unit="epoch",
                    desc=type(self.model).__name__,
                    delay=0 if progress else 2,
                    disable=None if progress is None else not progress,
                ) as bar:  # fmt: skip
                    while self.epoch < epochs and not self.exhausted:
                        row = self.one_epoch(source, checked, start)
                        if saved is not None:
                            unwritten = self.state()
                        bar.update()
                        bar.set_postfix(
                            loss=f"{row['train_loss']:.3f}",
                            valid=f"{row[self.options.metric.column]:.3f}",
                        )
                        self._report(row, on_epoch)
                        if on_epoch is not None and saved is not None:
                            # It may have changed the learning rate.
                            unwritten = self.state()
                        now = time.perf_counter()
                        if saved and now - written > _CHECKPOINT_SECONDS:
                            unwritten = _write(saved, unwritten)
                            written = now
            finally:
                try:
                    if saved is not None:
                        _write(saved, unwritten)
                finally:
                    self.restore_best()
        import pandas as pd  # takes half a second, and only fit needs it

        history = pd.DataFrame(self.rows).set_index("epoch")
        return Fit(history, self.best_epoch, self.options.metric.name)

    def _begin(self, saved: Checkpoint | None, resume: bool) -> None:
        """Take up the state of a checkpoint, if there is one to resume."""
        if saved is None:
            return
        # What a file can't hold is refused now, not after an epoch.
        self.state()
        if not resume or not saved.exists():
            saved.check_replaceable()
            return
        state = saved.read()
        try:
            self.load(state)
        except Exception as error:
            # The file is of a run like this one, but its state is not.
            self.restore_best()
            raise saved.refuse(in_one_line(error)) from error
        self._untried = saved

    def one_epoch(
        self, source: Source, checked: Source, start: float
    ) -> dict[str, Any]:
        """Train for an epoch and evaluate; return the row of the history."""
        began = time.perf_counter()
        loss = self._train(source)
        took = time.perf_counter() - began
        valid_loss, metric = self._evaluate(checked)
        self.epoch += 1
        row = {
            "epoch": self.epoch,
            "train_loss": loss,
            "valid_loss": valid_loss,
            self.options.metric.column: metric,
            "train_seconds": took,
            "seconds": time.perf_counter() - start,
        }
        if self.options.consistency is not None:
            row["train_consistency"] = self._apart
        scheduler = self.options.scheduler
        if scheduler is not None:
            row["lr"] = float(self.optimizer.param_groups[0]["lr"])
            step_scheduler(scheduler, row[self._monitored])
        row = self._agree(row)
        self.rows.append(row)
        score = self._score(row)
        # Of equal epochs the first is kept.
        if score < self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best = copied(self.model.state_dict())
        return row

    def _agree(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row of the history that all ranks have."""
        return row

    def _report(self, row: dict[str, Any], on_epoch: OnEpoch | None) -> None:
        """Give the user's function a row of the history."""
        if on_epoch is not None:
            on_epoch(row)

    def _score(self, row: dict[str, Any]) -> float:
        """Rate an epoch: the lower, the better."""
        value = row[self._monitored]
        lower = self.monitor == "loss" or self.options.metric.lower
        return value if lower else -value

    @property
    def _monitored(self) -> str:
        """The column of the history that has to improve."""
        if self.monitor == "loss":
            return "valid_loss"
        return self.options.metric.column

    def _train(self, source: Source) -> float:
        self.model.train()
        total, count = 0.0, 0.0
        apart, rows = 0.0, 0
        for number, (output, given) in enumerate(
            source(self.stepped, self.epoch)
        ):
            target = as_targets(given)
            self._check_step(number, output, target)
            loss, weight = self._of_labels(
                output, target, self.options.objective.mean
            )
            value = self._check_value(number, loss.item())
            if self.options.consistency is not None:
                more, others = self.options.consistency.total(output)
                apart += self._check_value(number, more.item())
                rows += others
                factor = self.options.consistency.weight / max(1, others)
                loss = loss + factor * more
            self._descend(loss)
            total += value * weight
            count += weight
        self._apart = apart / max(1, rows)
        return total / count

    @staticmethod
    def _of_labels(
        output: Any,
        target: Targets,
        compute: Callable[[torch.Tensor, Targets], tuple[torch.Tensor, float]],
    ) -> tuple[torch.Tensor, float]:
        """Compute the loss of labels; of several passes it is the mean."""
        if not isinstance(output, Outputs):
            return compute(output, target)
        found = [compute(logits, target) for logits in output.labelled]
        losses = torch.stack([loss for loss, _ in found])
        return losses.mean(), found[0][1]

    def _check_step(self, number: int, output: Any, target: Targets) -> None:
        """Refuse targets that do not fit the model, in the first step."""
        if self.epoch == 0 and number == 0:
            if isinstance(output, Outputs):
                output = output.labelled[0]
            self.options.objective.check(output, target)

    def _check_value(self, number: int, value: float) -> float:
        """Return the loss of a step; nan and inf are errors."""
        if not math.isfinite(value):
            raise DGLError(
                f"the loss is {value}{self._where} in epoch {self.epoch + 1}, "
                f"batch {number + 1}: {self._kept}. A smaller lr, or features "
                f"without nan and inf, may help."
            )
        return value

    def _descend(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.options.clip_norm is not None:
            groups = self.optimizer.param_groups
            nn.utils.clip_grad_norm_(
                [own for group in groups for own in group["params"]],
                self.options.clip_norm,
            )
        self._step()

    def _step(self) -> None:
        try:
            self.optimizer.step()
        except Exception as error:
            if self._untried is None:
                raise
            # Only the optimizer itself can tell what state it needs.
            raise self._untried.refuse(
                f"the optimizer can't use its state ({in_one_line(error)})"
            ) from error
        self._untried = None

    def _evaluate(self, source: Source) -> tuple[float, float]:
        found = self._validate(source)
        metric = found.right / found.entries if found.entries else math.nan
        if not self.options.metric.counted:
            metric = self.options.metric.value(*found.joined())
        return found.loss / found.weight, metric

    def _validate(self, source: Source) -> Validation:
        """Go through the validation once."""
        self.model.eval()
        objective, metric = self.options.objective, self.options.metric
        found = Validation()
        with torch.no_grad():
            for number, (logits, given) in enumerate(source(self.model, 0)):
                target = as_targets(given)
                objective.check(logits, target)
                value, weight = objective.checked_total(logits, target)
                if not math.isfinite(value):
                    raise DGLError(
                        f"the validation loss is {value}{self._where} in epoch "
                        f"{self.epoch + 1}, batch {number + 1}: {self._kept}. "
                        f"If the rows of valid hold nan or inf, take these "
                        f"nodes out of it; if not, a smaller lr may help."
                    )
                found.loss += value
                found.weight += weight
                if metric.counted:
                    right, entries = metric.hits(logits, target)
                    found.right += right
                    found.entries += entries
                else:
                    found.logits.append(logits.cpu())
                    found.values.append(target.values.cpu())
        return found

    @property
    def _where(self) -> str:
        """For a message: which rank this is, if there are several."""
        return ""

    @property
    def _kept(self) -> str:
        """For a message: which weights the model has after an error."""
        if self.best_epoch:
            return f"the model's weights are those of epoch {self.best_epoch}"
        return "the model's weights are those it began with"

    def restore_best(self) -> None:
        """Put back the weights of the best epoch."""
        self.model.load_state_dict(self.best)

    def state(self) -> dict[str, Any]:
        """Copy all it takes to resume, as tensors and plain values."""
        found = {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "rows": list(self.rows),
            "model": plain_copy(self.model.state_dict(), "model.state_dict()"),
            # It is a copy, and is never changed in place.
            "best": self.best,
            "optimizer": plain_copy(
                self.optimizer.state_dict(), "optimizer.state_dict()"
            ),
            "generator": torch.get_rng_state(),
        }
        if self.options.scheduler is not None:
            found["scheduler"] = plain_copy(
                self.options.scheduler.state_dict(), "scheduler.state_dict()"
            )
        device = model_device(self.model)
        if device.type == "cuda":
            found["cuda_generator"] = torch.cuda.get_rng_state(device)
        return found

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state; an error of any kind if it is not a whole one."""
        epoch, best_epoch = state["epoch"], state["best_epoch"]
        rows = state["rows"]
        columns = columns_of(self.options.metric.name)
        values = [row[column] for row in rows for column in columns]
        if (
            type(epoch) is not int
            or type(best_epoch) is not int
            or not 1 <= best_epoch <= epoch == len(rows)
            or not all(type(value) in (int, float) for value in values)
            or not all(map(math.isfinite, values))
        ):
            raise DGLError("its history is not that of a run")
        # Weights of other names or shapes are refused here.
        self.model.load_state_dict(state["best"])
        best = copied(self.model.state_dict())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.options.scheduler is not None:
            self.options.scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["generator"])
        device = model_device(self.model)
        if device.type == "cuda" and "cuda_generator" in state:
            torch.cuda.set_rng_state(state["cuda_generator"], device)
        self.epoch, self.best_epoch = epoch, best_epoch
        self.rows, self.best = list(rows), best
        self.best_score = self._score(rows[best_epoch - 1])


def _write(
    saved: Checkpoint, state: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Write a state if there is one; return it if that failed.

    A full disk must not cost the run: it is a warning.
    """
    if state is None:
        return None
    try:
        saved.write(state)
    except DGLError as error:
        warnings.warn(
            f"the checkpoint could not be written, and an earlier one is as "
            f"it was: {error} Training is not affected.",
            stacklevel=4,
        )
        return state
    return None


def copied(state: dict[str, Any]) -> dict[str, Any]:
    """Copy a state dict of a model."""
    # A state dict refers to the live weights: without a copy the weights of
    # the best epoch would change with every step.
    return {
        name: value.detach().clone()
        if isinstance(value, torch.Tensor)
        else copy.deepcopy(value)
        for name, value in state.items()
    }
