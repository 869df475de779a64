"""Equal filters are one letter, wherever and however a model rebuilds them.

``d ** -0.5`` and ``1 / d.sqrt()`` are the same diagonal, and norms may be
applied to nodes in one layer and to edges in the next. Words are compared as
matrices: on probes, and then on the user's graph.
"""

from collections.abc import Iterator, Sequence
from math import isfinite, log

import torch

from .apply_words import apply_word
from .assumptions import SameFilter
from .evaluate import Evaluator
from .filter_words import Letter, Word, degree

#: Random rows that words are multiplied by on probes.
_ROWS = 4

#: Words of more aggregations are not compared: high powers of any filter
#: become more and more alike, although they are not equal.
_MOST_HOPS = 2


class EqualWords:
    """Finds for each word the first one that is equal as a product.

    Parameters
    ----------
    probes : sequence of Evaluator
        Calls on random graphs of different degrees.
    real : Evaluator
        The call on the user's graph, on which words have to be equal too.
    """

    def __init__(self, probes: Sequence[Evaluator], real: Evaluator) -> None:
        # The smallest probe, on which most words differ, comes first.
        self._probes = [
            _Probe(evaluate)
            for evaluate in sorted(probes, key=lambda e: e.call.num_nodes)
        ]
        # What costs least is asked first.
        self._graphs = sorted(
            [*probes, real], key=lambda evaluate: evaluate.call.num_nodes
        )
        self._normal: dict[Word, Word] = {(): ()}
        self._longer: dict[Word, Word] = {(): ()}
        self._words = _Buckets(self._probes)
        self._filter: dict[Word, Word] = {(): ()}
        self._filters = _Buckets(self._probes)
        self._same: dict[SameFilter, bool] = {}

    @property
    def assumptions(self) -> tuple[SameFilter, ...]:
        """The pairs of words that were found to be equal."""
        return tuple(pair for pair, same in self._same.items() if same)

    def normal(self, word: Word) -> Word:
        """Return the first word that is equal to a word as a product."""
        # Most words are a known one and a few letters.
        known = len(word)
        while word[:known] not in self._normal:
            known -= 1
        found = self._normal[word[:known]]
        for end in range(known + 1, len(word) + 1):
            longer = self._with_filters((*found, word[end - 1]))
            if longer not in self._longer:
                self._longer[longer] = self._find_word(longer)
            found = self._longer[longer]
            self._normal[word[:end]] = found
            self._normal.setdefault(found, found)
        return found

    # Filters: single letters, and aggregations with their norms

    def _with_filters(self, word: Word) -> Word:
        """Replace the filter that a word ends with by the first equal one."""
        for length in (1, 2, 3):
            end = word[-length:]
            one_filter = length == 1 or degree(end) == 1
            if len(end) == length and one_filter:
                first = self._first_filter(end)
                if first != end:
                    return word[:-length] + first
        return word

    def _first_filter(self, word: Word) -> Word:
        """Return the first filter that is equal to a filter."""
        if word not in self._filter:
            self._filter[word] = word
            for other in self._filters.near(word):
                same = SameFilter(word, other)
                if self._alike(word, other) and self._is_same(same):
                    self._filter[word] = other
                    break
            else:
                self._filters.add(word)
        return self._filter[word]

    # Words: their filters may be grouped in several ways

    def _find_word(self, word: Word) -> Word:
        """Find a word that is equal to a new one, or keep the new one."""
        for other in self._words.near(word):
            if self._alike(word, other) and self._differ_nowhere(word, other):
                return other
        self._words.add(word)
        return word

    def _differ_nowhere(self, word: Word, other: Word) -> bool:
        """Return whether words are equal where they differ in letters."""
        pair = SameFilter(*_difference(word, other))
        hops = max(degree(pair.first), degree(pair.second))
        return hops <= _MOST_HOPS and self._is_same(pair)

    def _alike(self, a: Word, b: Word) -> bool:
        return all(probe.equal(a, b) for probe in self._probes)

    def _is_same(self, pair: SameFilter) -> bool:
        if pair not in self._same:
            self._same[pair] = all(pair.holds(graph) for graph in self._graphs)
        return self._same[pair]


class _Probe:
    """Words on one probe, as products of random rows with matrices."""

    def __init__(self, evaluate: Evaluator) -> None:
        self._evaluate = evaluate
        n = evaluate.call.num_nodes
        generator = torch.Generator().manual_seed(n)
        rows = torch.randn(_ROWS, n, generator=generator, dtype=torch.float64)
        # Means keep the sum of a row, so that not all columns count alike.
        self._weights = torch.linspace(0.1, 1, n, dtype=torch.float64) ** 2
        self._eye = torch.eye(n, dtype=torch.float64)
        self._matrices: dict[Letter, torch.Tensor] = {}
        self._products: dict[Word, torch.Tensor] = {(): rows}

    def equal(self, a: Word, b: Word) -> bool:
        """Return whether two words are equal on this probe."""
        mine, its = self._product(a), self._product(b)
        scale = float(its.abs().max())
        return torch.allclose(mine, its, rtol=1e-5, atol=1e-6 * scale)

    def size(self, word: Word) -> float:
        """Return a number that is the same for equal words."""
        return float((self._product(word).abs() @ self._weights).sum())

    def _product(self, word: Word) -> torch.Tensor:
        """Return the random rows times a word, letter by letter."""
        known = len(word)
        while word[:known] not in self._products:
            known -= 1
        for end in range(known + 1, len(word) + 1):
            before = self._products[word[: end - 1]]
            matrix = self._matrix(word[end - 1])
            self._products[word[:end]] = before @ matrix
        return self._products[word]

    def _matrix(self, letter: Letter) -> torch.Tensor:
        if letter not in self._matrices:
            self._matrices[letter] = apply_word(
                (letter,), self._eye, self._evaluate
            )
        return self._matrices[letter]


class _Buckets:
    """Words by their sizes on probes: equal words are near each other.

    On a small probe alone, many products of sparse filters are 0.
    """

    def __init__(self, probes: Sequence[_Probe]) -> None:
        self._probes = probes
        self._found: dict[int, list[Word]] = {}
        self.add(())

    def add(self, word: Word) -> None:
        """Add a word that is equal to no other."""
        self._found.setdefault(self._place(word), []).append(word)

    def near(self, word: Word) -> Iterator[Word]:
        """Yield the words of about the same size."""
        place = self._place(word)
        for near in (place - 1, place, place + 1):
            yield from self._found.get(near, ())

    def _place(self, word: Word) -> int:
        size = sum(probe.size(word) for probe in self._probes)
        # Sizes of equal words differ by rounding, less than 1 in 10,000.
        return round(log(size) * 1e4) if isfinite(size) and size > 0 else 0


def _difference(a: Word, b: Word) -> tuple[Word, Word]:
    """Leave out the letters that two words begin or end with."""
    shorter = min(len(a), len(b))
    start = 0
    while start < shorter and a[start] == b[start]:
        start += 1
    end = 0
    while end < shorter - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return a[start : len(a) - end], b[start : len(b) - end]
