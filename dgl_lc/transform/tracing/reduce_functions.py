"""Reduce functions of users: which sums of the mailbox they are.

DGL calls a reduce function once for each degree, with the messages of all
nodes that have it: a mailbox of shape (nodes, degree, …). What is a function
of each node's sum of messages can be transformed, so a reduce function is
run on random mailboxes of several degrees to see whether it is one.
"""

import math
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import torch

#: Degrees of the mailboxes that a function is tested on. A limit in it, such
#: as ``max(100, degree)`` or the first 50 messages, shows at the large ones.
DEGREES = (1, 2, 3, 7, 12, 60, 350, 2000)
#: Numbers that a mailbox has at most.
_MOST_NUMBERS = 1 << 23
#: Number of nodes of these mailboxes; it is none of the degrees.
NODES = 5


class Law(NamedTuple):
    """A factor of the sum of d messages: ``scale * d ** power``."""

    scale: float
    power: float


class NodesOfMailbox:
    """The argument of a reduce function: mailboxes, and nothing else."""

    def __init__(self, mailbox: Mapping[str, torch.Tensor]) -> None:
        self.mailbox = dict(mailbox)
        self._size = len(next(iter(self.mailbox.values())))

    def batch_size(self) -> int:
        return self._size

    __len__ = batch_size


def random_mailbox(like: torch.Tensor, degree: int, seed: int) -> torch.Tensor:
    """Draw a mailbox of messages that have the shape of others."""
    generator = torch.Generator().manual_seed(seed)
    nodes = NODES if degree <= DEGREES[-1] else 1
    shape = (nodes, degree, *like.shape[1:])
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def degrees_to_test(width: int, largest: int) -> tuple[int, ...]:
    """Return the degrees that a function of messages is tested on.

    ``width`` is the number of columns of a message, and ``largest`` the largest
    degree of the user's graph.
    """
    width = max(1, width)
    degrees = (*DEGREES, largest) if largest > DEGREES[-1] else DEGREES
    fitting = [
        min(d, _MOST_NUMBERS // (width * (NODES if d <= DEGREES[-1] else 1)))
        for d in degrees
    ]
    small = DEGREES[:5]
    return (*small, *sorted({d for d in fitting if d > small[-1]}))


def laws_of(
    reduce: Callable[[Any], dict[str, Any]],
    messages: Mapping[str, torch.Tensor],
    largest: int = 0,
) -> dict[str, dict[str, Law]] | None:
    """Find the results of a reduce function that are sums of messages.

    ``largest`` is the largest degree of the user's graph.

    Returns
    -------
    dict or None
        For each result, the factor of the sum of each field of the mailbox
        that it depends on. None if the function reads anything else, or if
        any of its results is not such a sum.
    """
    if not all(m.is_floating_point() for m in messages.values()):
        return None
    try:
        width = max(prod(m.shape[1:]) for m in messages.values())
        degrees = degrees_to_test(width, largest)
        return _laws_of(reduce, messages, degrees)
    except Exception:
        # It needs features of the nodes, or single precision, for instance.
        return None


def _laws_of(
    reduce: Callable[[Any], dict[str, Any]],
    messages: Mapping[str, torch.Tensor],
    degrees: tuple[int, ...],
) -> dict[str, dict[str, Law]] | None:
    """Run a reduce function with each field alone, and with all together."""
    factors: dict[tuple[str, str], dict[int, float]] = {}
    for degree in degrees:
        mail = {
            field: random_mailbox(message, degree, 100 * number + degree)
            for number, (field, message) in enumerate(messages.items())
        }
        zeros = {field: torch.zeros_like(m) for field, m in mail.items()}
        together = reduce(NodesOfMailbox(mail))
        rest = {key: result.clone() for key, result in together.items()}
        for field, box in mail.items():
            alone = reduce(NodesOfMailbox({**zeros, field: box}))
            if set(alone) != set(together):
                return None
            for key, result in alone.items():
                factor = factor_of(result, box)
                if factor is None:
                    return None
                factors.setdefault((key, field), {})[degree] = factor
                if factor:
                    rest[key] = rest[key] - result
        if any(not _is_close(r, torch.zeros_like(r)) for r in rest.values()):
            return None
    found: dict[str, dict[str, Law]] = {key: {} for key in together}
    for (key, field), by_degree in factors.items():
        if any(by_degree.values()):
            law = law_of(by_degree)
            if law is None:
                return None
            found[key][field] = law
    return found if all(found.values()) else None


def factor_of(result: Any, mailbox: torch.Tensor) -> float | None:
    """Return by what a result is the sum of messages; None if it is not."""
    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return None
    if not result.any():
        return 0.0
    total = mailbox.sum(1)
    if result.shape != total.shape:
        return None
    factor = float((result * total).sum() / (total * total).sum())
    return factor if _is_close(result, factor * total) else None


def law_of(factors: Mapping[int, float]) -> Law | None:
    """Return the power of the degree (a half or whole one) they follow."""
    scale = round(factors[1], 12)
    if scale == 0:
        return None
    if any(factor / scale <= 0 for factor in factors.values()):
        return None
    power = math.log2(factors[2] / scale)
    power = round(2 * power) / 2
    same = all(
        math.isclose(factor, scale * d**power, rel_tol=1e-6)
        for d, factor in factors.items()
    )
    return Law(scale, power) if same else None


def _is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-8)
