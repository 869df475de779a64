"""The learning rate over the epochs of a training run."""

from typing import Any

import torch
from dgl import DGLError
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from .tensor_files import in_one_line

#: A scheduler, or a function that makes one for an optimizer.
SchedulerGiven = Any
#: Private entries of a state that say what a scheduler does.
_PARTS = ("_schedulers", "_milestones")


def make_scheduler(
    given: SchedulerGiven, optimizer: torch.optim.Optimizer
) -> Any:
    """Return the scheduler of an optimizer; None if there is none."""
    if given is None:
        return None
    found = given
    if not _is_scheduler(given):
        if not callable(given):
            raise DGLError(
                f"scheduler should be a scheduler of "
                f"torch.optim.lr_scheduler, or a function that makes one for "
                f"an optimizer, and is a {type(given).__name__}."
            )
        found = given(optimizer)
        if not _is_scheduler(found):
            raise DGLError(
                f"scheduler should make a scheduler of "
                f"torch.optim.lr_scheduler, and makes a "
                f"{type(found).__name__}."
            )
    if found.optimizer is not optimizer:
        raise DGLError(
            "scheduler is that of another optimizer: pass its optimizer as "
            "optimizer=, or pass a function such as lambda optimizer: "
            "torch.optim.lr_scheduler.StepLR(optimizer, 10)."
        )
    return found


def _is_scheduler(value: Any) -> bool:
    # Before torch 2.3 ReduceLROnPlateau was no LRScheduler.
    return isinstance(value, (LRScheduler, ReduceLROnPlateau))


def describe_scheduler(scheduler: Any) -> str:
    """Describe a scheduler before its first epoch, for comparisons."""
    if scheduler is None:
        return "None"
    kind = type(scheduler)
    return f"{kind.__module__}.{kind.__qualname__} " + _text(
        scheduler.state_dict()
    )


def _text(value: Any) -> str:
    """Write plain values in a fixed order; functions have no content."""
    if isinstance(value, dict):
        items = [
            f"{name}={_text(own)}"
            for name, own in sorted(value.items(), key=lambda pair: str(pair))
            # What begins so is torch's own, except parts of a sequence.
            if str(name) in _PARTS or not str(name).startswith("_")
        ]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return type(value).__name__


def step_scheduler(scheduler: Any, monitored: float) -> None:
    """Take the step of an epoch with this monitored value."""
    try:
        if isinstance(scheduler, ReduceLROnPlateau):
            scheduler.step(monitored)
        else:
            scheduler.step()
    except ValueError as error:
        # OneCycleLR, for one, has a last step.
        raise DGLError(
            f"the scheduler ended before the run ({in_one_line(error)}): it "
            f"makes one step per epoch."
        ) from error


def check_mode(scheduler: Any, lower: bool) -> None:
    """Refuse a plateau of which better values would be the worse ones."""
    if isinstance(scheduler, ReduceLROnPlateau):
        wanted = "min" if lower else "max"
        if scheduler.mode != wanted:
            raise DGLError(
                f"scheduler has mode={scheduler.mode!r}, and of the monitored "
                f"value a {'lower' if lower else 'higher'} one is better: "
                f"make it with mode={wanted!r}."
            )
