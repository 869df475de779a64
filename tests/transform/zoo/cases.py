"""The cases of the zoo: models, their calls, and what becomes of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import torch
from dgl import nn as dglnn
from torch import nn

IN, HID, OUT = 7, 8, 3


@dataclass
class Case:
    """A model, and how it is called with a graph and features."""

    model: nn.Module
    call: Callable = lambda g, x: ((g, x), {})
    options: dict = field(default_factory=dict)


class Taken(NamedTuple):
    """A model that is transformed."""

    make: Callable[[], Case]
    inputs: tuple[str, ...]
    exact: bool


class Refusal(NamedTuple):
    """A model that is refused: the operation, and a part of the reason.

    ``code`` is that of the cause, if the zoo says it.
    """

    make: Callable[[], Case]
    operation: str
    reason: str
    code: str | None = None


TAKEN: dict[str, Taken] = {}
REFUSED: dict[str, Refusal] = {}


def transformed(*inputs, exact=False):
    """Add a model to the zoo that is transformed to these inputs."""

    def add(make):
        TAKEN[make.__name__] = Taken(make, inputs, exact)
        return make

    return add


def refused(operation, reason, code=None):
    """Add a model to the zoo that is refused."""

    def add(make):
        REFUSED[make.__name__] = Refusal(make, operation, reason, code)
        return make

    return add


class Layers(nn.Module):
    """Convolutions with an activation between them."""

    def __init__(self, *convs, activation=torch.relu):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.activation = activation

    def forward(self, g, x):
        for number, conv in enumerate(self.convs):
            if number:
                x = self.activation(x)
            x = conv(g, x)
        return x


class Function(nn.Module):
    """A forward function with some modules: ``body(self, g, x)``."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.body(self, *args, **kwargs)


def gcn(*, norm="both", layers=2, **options):
    widths = [IN, *[HID] * (layers - 1), OUT]
    return [
        dglnn.GraphConv(a, b, norm=norm, **options) for a, b in pairwise(widths)
    ]
