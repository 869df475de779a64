"""Writes into tensors, as functions that return a new tensor.

A model may write ``norm[norm == 0] = 1``, or write into a view. The LC
version, and whatever is precomputed, calls these functions instead.
"""

from typing import Any

import torch

#: Methods of a tensor that return a view of it.
VIEWS = frozenset({
    "__getitem__", "diagonal", "flatten", "movedim", "moveaxis", "narrow",
    "permute", "ravel", "reshape", "select", "squeeze", "swapaxes",
    "swapdims", "t", "transpose", "unflatten", "unsqueeze", "view",
})  # fmt: skip


def write_items(tensor: torch.Tensor, index: Any, items: Any) -> torch.Tensor:
    """Return the tensor after ``tensor[index] = items``.

    >>> write_items(torch.zeros(3), slice(1, None), 1.0)
    tensor([0., 1., 1.])
    """
    made = tensor.clone()
    made[index] = items
    return made


def write_view(
    tensor: torch.Tensor, items: torch.Tensor, view: str, *args: Any,
    **kwargs: Any,
) -> torch.Tensor:  # fmt: skip
    """Return the tensor after its view was given other items.

    >>> write_view(torch.zeros(2, 2), torch.ones(2), "select", 1, 0)
    tensor([[1., 0.],
            [1., 0.]])
    """
    if view not in VIEWS:
        raise ValueError(f"{view!r} does not return a view of a tensor.")
    # Every method of the list returns a view of a contiguous tensor.
    made = tensor.clone(memory_format=torch.contiguous_format)
    getattr(made, view)(*args, **kwargs).copy_(items)
    return made
