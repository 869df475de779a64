"""Polynomials: sums of words with constant coefficients, as one filter."""

import operator
from typing import Any

import torch

from .filter_words import Aggregate, Diagonal, Polynomial, Word, degree
from .find_filters import FilterFinder
from .tracing.values import Value, after_parts

#: The words a value is a sum of: source -> word -> coefficient.
Form = dict[Value, dict[Word, float]]


class PolynomialFinder:
    """Finds values that are a polynomial of filters times another value.

    Parameters
    ----------
    fold : bool
        Whether every polynomial becomes one filter, or only those of
        features and those that are a norm with self-loops.
    """

    def __init__(self, filters: FilterFinder, fold: bool) -> None:
        self._filters = filters
        self._fold = fold
        self._forms: dict[int, Form] = {}

    def foldable(self, value: Value) -> tuple[Value, Word] | None:
        """Return (source, word) if sums in a value should be one filter."""
        if not _is_float_rows(value):
            return None
        form = self._form(value)
        if len(form) != 1:
            return None
        ((source, words),) = form.items()
        if source is value or source.row_dim != 0 or not words:
            return None
        if max(map(degree, words)) == 0 and not source.static:
            return None
        ((word, coefficient),) = list(words.items())[:1]
        if len(words) == 1 and coefficient == 1:
            # Without a sum, the letters are found one after the other.
            summed = any(isinstance(letter, Polynomial) for letter in word)
            return (source, word) if summed else None
        if not source.static and (not self._fold or len(words) == 1):
            return None
        terms = sorted(
            ((c, w) for w, c in words.items()), key=lambda t: len(t[1])
        )
        return source, (Polynomial(tuple(terms)),)

    def _form(self, value: Value) -> Form:
        """Return a value as a sum of words times sources."""
        return after_parts(value, self._forms, self._summands, self._sum_up)

    def _summands(self, value: Value) -> list[Value]:
        """Return the values whose forms this value's form is made of."""
        terms = self._terms(value)
        return [source for _, _, source in terms] if terms else []

    def _terms(self, value: Value) -> list[tuple[float, Word, Value]] | None:
        """Return (coefficient, letter, value) for each term of a sum."""
        if not _is_float_rows(value) or value.trouble:
            return None
        found = self._filters.letter(value)
        if found is not None:
            source, letter = found
            return [(1.0, (letter,), source)]
        if value.op != "call" or value.kwargs:
            return None
        target, args = value.target, value.args
        if target is operator.neg:
            return [(-1.0, (), args[0])]
        if len(args) != 2:
            return None
        rows = [_is_float_rows(a) and a.dims == value.dims for a in args]
        numbers = [type(a) in (int, float) for a in args]
        if target in (operator.add, operator.sub):
            sign = 1.0 if target is operator.add else -1.0
            if all(rows):
                return [(1.0, (), args[0]), (sign, (), args[1])]
            if rows[1] and numbers[0] and args[0] == 0:
                return [(sign, (), args[1])]
        if target is operator.mul and rows[0] and numbers[1]:
            return [(float(args[1]), (), args[0])]
        if target is operator.mul and rows[1] and numbers[0]:
            return [(float(args[0]), (), args[1])]
        if target is operator.truediv and rows[0] and numbers[1] and args[1]:
            return [(1.0 / args[1], (), args[0])]
        return None

    def _sum_up(self, value: Value) -> Form:
        """Compute the form of a value from those of its terms."""
        terms = self._terms(value)
        if not terms:
            return {value: {(): 1.0}}
        total: Form = {}
        for coefficient, letters, source in terms:
            for origin, words in self._forms[source.id].items():
                sums = total.setdefault(origin, {})
                for word, factor in words.items():
                    longer = letters + word
                    sums[longer] = sums.get(longer, 0.0) + coefficient * factor
        return {
            origin: _with_self_loops(
                {word: c for word, c in words.items() if c != 0}
            )
            for origin, words in total.items()
        }


def _with_self_loops(words: dict[Word, float]) -> dict[Word, float]:
    """Write diag (A + I), an aggregation with self-loops, as one filter."""
    if len(words) != 2 or len(set(words.values())) > 1:
        return words
    short, long = sorted(words, key=len)
    if not short or not isinstance(short[0], Diagonal):
        return words
    rest = short[1:]
    norm, aggregated = long[:1], long[1 : len(long) - len(rest)]
    if norm != short[:1] or long[len(long) - len(rest) :] != rest:
        return words
    if not aggregated or not isinstance(aggregated[0], Aggregate):
        return words
    if rest and isinstance(rest[0], Aggregate):
        # The diagonal is the norm of that aggregation.
        return words
    if degree(aggregated) != 1:
        return words
    looped = Polynomial(((1.0, norm), (1.0, norm + aggregated)), True)
    return {(looped, *rest): words[short]}


def _is_float_rows(value: Any) -> bool:
    """Return whether it has a row of floating-point numbers per node."""
    return (
        isinstance(value, Value)
        and value.data
        and isinstance(value.example, torch.Tensor)
        and value.example.is_floating_point()
        and value.row_dim == 0
    )
