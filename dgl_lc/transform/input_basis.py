"""As few inputs as can be: some of them are sums of others.

Layers of polynomials of one filter (ChebConv, for instance) need many
polynomials of S on the same features, all of which are sums of a few powers
of S. Those are precomputed, and the LC version computes the sums.
"""

from collections.abc import Callable
from itertools import groupby

import numpy as np

from .filter_words import Polynomial, Word, degree
from .pushed import InputSum, StaticAtWord
from .tracing.values import Value

#: Polynomials of more terms than this are not written out.
_MOST_TERMS = 300

#: A sum of words: word -> coefficient.
_Form = dict[Word, float]


def find_basis(
    inputs: list[StaticAtWord], normal: Callable[[Word], Word]
) -> tuple[list[StaticAtWord], dict[StaticAtWord, InputSum]]:
    """Return inputs to precompute, and the sums of them that others are.

    Parameters
    ----------
    inputs : list of (Value, Word)
        Static values at words, sorted by the ids of the values.
    normal : callable
        A function that returns one word for all that are equal as products.
    """
    basis: list[StaticAtWord] = []
    sums: dict[StaticAtWord, InputSum] = {}
    for value, group in groupby(inputs, key=lambda item: item[0]):
        words = [word for _, word in group]
        kept, made = _basis_of(value, words, normal)
        basis += kept
        sums |= made
    return basis, sums


def _basis_of(
    value: Value, words: list[Word], normal: Callable[[Word], Word]
) -> tuple[list[StaticAtWord], dict[StaticAtWord, InputSum]]:
    """Return a basis of the inputs that are made of one static value."""
    as_they_are: tuple[list[StaticAtWord], dict] = (
        [(value, word) for word in words],
        {},
    )
    forms = [_written_out(word, normal) for word in words]
    if not any(_has_sums(word) for word in words) or None in forms:
        return as_they_are
    found: list[_Form] = [form for form in forms if form is not None]
    plain = sorted(
        dict.fromkeys(word for form in found for word in form),
        key=lambda word: (degree(word), len(word)),
    )
    matrix = np.array([[f.get(word, 0.0) for word in plain] for f in found])
    rank = _rank(matrix)
    if rank == len(plain):
        chosen, rows = plain, np.eye(len(plain))
    elif rank < len(words):
        places = _independent(matrix)
        chosen, rows = [words[p] for p in places], matrix[places]
    else:
        return as_they_are
    kept = [(value, word) for word in chosen]
    sums = {}
    for word, form in zip(words, matrix, strict=True):
        if word in chosen:
            continue
        factors = np.linalg.lstsq(rows.T, form, rcond=None)[0]
        factors[np.abs(factors) < 1e-12 * np.abs(factors).max()] = 0
        sums[value, word] = tuple(
            (float(factor), item)
            for factor, item in zip(factors, kept, strict=True)
            if factor
        )
    return kept, sums


def _has_sums(word: Word) -> bool:
    return any(isinstance(x, Polynomial) and not x.self_loops for x in word)


def _written_out(word: Word, normal: Callable[[Word], Word]) -> _Form | None:
    """Write a word as a sum of words without polynomials."""
    total: _Form = {(): 1.0}
    for letter in word:
        terms: tuple = ((1.0, (letter,)),)
        if isinstance(letter, Polynomial) and not letter.self_loops:
            terms = letter.terms
        longer: _Form = {}
        for start, factor in total.items():
            for coefficient, end in terms:
                both = normal(start + end)
                sum_ = longer.get(both, 0.0) + factor * coefficient
                longer[both] = sum_
        total = {word: c for word, c in longer.items() if c}
        if len(total) > _MOST_TERMS:
            return None
    return total or None


def _rank(matrix: np.ndarray) -> int:
    """Return the number of rows that are no sums of others."""
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(matrix / largest, tol=1e-9))


def _independent(matrix: np.ndarray) -> list[int]:
    """Return the places of rows that are no sums of those before them."""
    places: list[int] = []
    for place in range(len(matrix)):
        if _rank(matrix[[*places, place]]) > len(places):
            places.append(place)
    return places
