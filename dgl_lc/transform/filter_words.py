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


@dataclass(frozen=True)
class NormedAggregate:
    """An aggregation between two diagonals, either of which may be ones."""

    left: Diagonal | None
    aggregate: Aggregate
    right: Diagonal | None


Unit = NormedAggregate | Diagonal | Polynomial


def units_of(word: Word) -> tuple[Unit, ...]:
    """A word as filters: every norm goes to the aggregation it belongs to."""
    found: list[Unit] = []
    place = 0
    while place < len(word):
        letter = word[place]
        place += 1
        if not isinstance(letter, Aggregate):
            found.append(letter)
            continue
        left = right = None
        if found and isinstance(found[-1], Diagonal):
            left = found.pop()
        if place < len(word) and isinstance(word[place], Diagonal):
            # The norm before the next aggregation is that one's own.
            following = word[place + 1 : place + 2]
            its_own = following and isinstance(following[0], Aggregate)
            if left is None or not its_own:
                right = word[place]
                place += 1
        found.append(
            NormedAggregate(left, letter, right)  # type: ignore[arg-type]
        )
    return tuple(found)
