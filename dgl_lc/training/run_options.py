"""What a training run does in its steps and after its epochs."""

from dataclasses import dataclass, field
from typing import Any

from .consistency import Consistency
from .losses import Objective
from .metrics import Metric


@dataclass
class RunOptions:
    """The loss, the metric and what else changes the steps of a run.

    Attributes
    ----------
    objective : Objective
        What training minimises.
    metric : Metric
        The figure of the validation beside its loss.
    scheduler : LRScheduler or None
        What changes the learning rate after each epoch.
    clip_norm : float or None
        The largest norm of all gradients together.
    consistency : Consistency or None
        The loss between passes of a step.
    """

    objective: Objective = field(default_factory=Objective)
    metric: Metric = field(default_factory=Metric)
    scheduler: Any = None
    clip_norm: float | None = None
    consistency: Consistency | None = None
