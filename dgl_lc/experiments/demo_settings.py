"""The task of the demo, and the parameters of its models."""

from dataclasses import dataclass, field
from typing import Any

from ..data import NodeData, block_model

#: The models of the demo, in families: an original and its LC version, which
#: have the same parameters, or a model that was made for hop features.
FAMILIES: dict[str, tuple[str, ...]] = {
    "GCN": ("GCN", "LCGCN"),
    "JKNet": ("JKNet", "LCJKNet"),
    "GPRGNN": ("GPRGNN", "LCGPRGNN"),
    "SGC": ("SGC",),
    "FSGNN": ("FSGNN",),
}


@dataclass(frozen=True)
class Settings:
    """How the models of a family are made and trained.

    Attributes
    ----------
    lr, weight_decay : float
        Learning rate and weight decay of Adam.
    options : dict
        Options of the models.
    """

    lr: float
    weight_decay: float
    options: dict[str, Any] = field(default_factory=dict)


#: What ``python benchmarks/demo_parameters.py`` found on another graph of the
#: same kind: the best mean validation accuracy of a family's models.
SETTINGS: dict[str, Settings] = {
    "GCN": Settings(0.003, 1e-5, {"dropout": 0.5}),
    "JKNet": Settings(0.03, 1e-3, {"dropout": 0.5}),
    "GPRGNN": Settings(0.01, 1e-5, {"num_layers": 2, "dropout": 0.5}),
    "SGC": Settings(0.03, 1e-3),
    "FSGNN": Settings(0.01, 1e-3, {"dropout": 0.5}),
}


def demo_task(nodes: int, seed: int) -> NodeData:
    """Generate a task as the paper has them: few labels, useful edges.

    Nodes have 20 neighbours on average, half of them of their own class, and
    features that say little without these. One node in twenty is for
    training, as many are for validation, and one in five is for the test.
    """
    return block_model(
        nodes, avg_degree=20.0, signal=1.2, split=(0.05, 0.05, 0.2), seed=seed
    )


def family_of(name: str) -> str:
    """Return the family of a model.

    >>> family_of("LCGCN")
    'GCN'
    """
    return name.removeprefix("LC")
