"""Letters, the filters of a model, and words, their products."""

from dataclasses import dataclass
from typing import Any

from .tracing.values import Value


@dataclass(frozen=True)
class Aggregate:
    """Sum over incoming edges, with weights or without."""

    graph: Any
    weight: Value | None = None
    inverse: bool = False  # divide by the weights


@dataclass(frozen=True)
class Diagonal:
    """A factor for each node: a degree norm, for instance."""

    factor: Value
    inverse: bool = False


@dataclass(frozen=True)
class Polynomial:
    """A sum of words with constant coefficients, as one filter."""

    terms: tuple[tuple[float, tuple], ...]


Letter = Aggregate | Diagonal | Polynomial
Word = tuple[Letter, ...]


def degree(word: Word) -> int:
    """How often a word aggregates."""
    total = 0
    for letter in word:
        if isinstance(letter, Polynomial):
            total += max(degree(term) for _, term in letter.terms)
        elif isinstance(letter, Aggregate):
            total += 1
    return total
