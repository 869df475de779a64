"""Words: products of the filters that a model applies.

A letter is one filter: an aggregation, a factor for each node, or a
polynomial of such. A word is a product of letters, applied from right to
left: ``(D, A, D)`` for ``D A D x``.
"""

from dataclasses import dataclass
from typing import Any

from .tracing.values import Value


@dataclass(frozen=True)
class Aggregate:
    """A sum over incoming edges, with or without edge weights."""

    graph: Any
    weight: Value | None = None
    inverse: bool = False  # whether messages are divided by the weights


@dataclass(frozen=True)
class Diagonal:
    """A factor for each node: a degree norm, for instance."""

    factor: Value
    inverse: bool = False


@dataclass(frozen=True)
class Polynomial:
    """A sum of words with constant coefficients, as one filter.

    ``self_loops``: whether it is an aggregation with self-loops, D (A + I),
    which is not written as a sum of others.
    """

    terms: tuple[tuple[float, tuple], ...]
    self_loops: bool = False


Letter = Aggregate | Diagonal | Polynomial
Word = tuple[Letter, ...]


def degree(word: Word) -> int:
    """Return how many aggregations a word has."""
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


#: A letter, or an aggregation together with its norms.
Unit = NormedAggregate | Diagonal | Polynomial


def units_of(word: Word) -> tuple[Unit, ...]:
    """Group a word: every norm goes to the aggregation it belongs to."""
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
            # A norm before the next aggregation belongs to that one.
            following = word[place + 1 : place + 2]
            its_own = following and isinstance(following[0], Aggregate)
            # Without one at its left, it is clear only if the next
            # aggregation has two different norms, as GraphConv's has.
            after = word[place + 2 : place + 3]
            both = after and isinstance(after[0], Diagonal)
            if not its_own or (
                left is None and not (both and after[0] != word[place])
            ):
                right = word[place]
                place += 1
        found.append(
            NormedAggregate(left, letter, right)  # type: ignore[arg-type]
        )
    return tuple(found)
