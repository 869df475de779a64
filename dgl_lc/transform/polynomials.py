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

    def foldable(self, value: Value) -> tuple[Value, Polynomial] | None:
        """Return (source, polynomial) if a value should be one filter."""
        if not _is_float_rows(value):
            return None
        form = self._form(value)
        if len(form) != 1:
            return None
        ((source, words),) = form.items()
        if source is value or source.row_dim != 0:
            return None
        if len(words) == 1 and not (
            source.static and 1.0 not in words.values()
        ):
            return None
        if max(map(degree, words)) == 0:
            return None
        if source.static or self._fold or _is_normed(words):
            terms = sorted(
                ((c, w) for w, c in words.items()), key=lambda t: len(t[1])
            )
            return source, Polynomial(tuple(terms))
        return None

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
        return total


def _is_normed(words: dict[Word, float]) -> bool:
    """Return whether it is diag (A + I): an aggregation with self-loops."""
    if len(words) != 2 or len(set(words.values())) > 1:
        return False
    short, long = sorted(words, key=len)
    return (
        len(short) == 1
        and isinstance(short[0], Diagonal)
        and long[:1] == short
        and isinstance(long[1], Aggregate)
        and degree(long) == 1
    )


def _is_float_rows(value: Any) -> bool:
    """Return whether it has a row of floating-point numbers per node."""
    return (
        isinstance(value, Value)
        and value.data
        and isinstance(value.example, torch.Tensor)
        and value.example.is_floating_point()
        and value.row_dim == 0
    )
