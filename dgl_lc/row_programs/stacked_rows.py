"""Stacked rows: the same nodes at several words, one below the other.

Generated code needs nothing else beside torch.
"""

from collections.abc import Sequence

import torch


def stack_words(parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """Stack the rows at several words.

    >>> stack_words([torch.zeros(2, 1), torch.ones(2, 1)]).flatten()
    tensor([0., 0., 1., 1.])
    """
    return torch.cat(list(parts), dim)


def take_words(
    stack: torch.Tensor, places: Sequence[int], of: int, dim: int = 0
) -> torch.Tensor:
    """Take the rows at some of the ``of`` words of a stack.

    >>> take_words(torch.arange(6), [1, 2], of=3)
    tensor([2, 3, 4, 5])
    """
    rows = stack.shape[dim] // of
    first, count = places[0], len(places)
    if list(places) == list(range(first, first + count)):
        return stack.narrow(dim, first * rows, count * rows)
    return torch.cat(
        [stack.narrow(dim, place * rows, rows) for place in places], dim
    )
