"""Activations, which can be given by their names."""

from collections.abc import Callable

import torch as th
import torch.nn.functional as F
from dgl import DGLError

_ACTIVATIONS: dict[str, Callable] = {
    "relu": F.relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu,
    "leaky_relu": F.leaky_relu, "tanh": th.tanh, "sigmoid": th.sigmoid,
}  # fmt: skip


def get_activation(activation: Callable | str) -> Callable:
    """Return an activation that is given by its name, or as it is.

    >>> get_activation("relu") is F.relu
    True
    """
    if callable(activation):
        return activation
    if activation not in _ACTIVATIONS:
        raise DGLError(
            f"activation={activation!r} is not known: give a function, or "
            f"one of {', '.join(map(repr, _ACTIVATIONS))}."
        )
    return _ACTIVATIONS[activation]


def activation_name(activation: Callable) -> str | None:
    """Return the name of an activation, or None if it has none."""
    known = [name for name, f in _ACTIVATIONS.items() if f is activation]
    return known[0] if known else None
