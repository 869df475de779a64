"""Pushing filters through the model, down to its inputs.

A word is a product of letters: filters that are still to be applied to a
value. ``resolve(value, word)`` returns what becomes of a value when a word is
swapped with the operations inside it: an aggregation adds its letter to the
word, a row-wise operation becomes the same operation on its arguments at that
word, and a static value at a word is an input, to be precomputed.
"""

import operator
from typing import NoReturn

import torch
from torch import nn

from . import causes
from .assumptions import Assumption
from .check_inputs import check_input
from .equal_words import EqualWords
from .evaluate import refuse_trouble
from .filter_words import Aggregate, Diagonal, Polynomial, Word, degree
from .find_filters import FilterFinder
from .input_basis import find_basis
from .linearity import LINEAR
from .polynomials import PolynomialFinder
from .pushed import Place, Pushed, StaticAtWord
from .recognise import OperationKinds
from .refusals import refuse, refuse_value
from .simplify import Simplified
from .tracing.values import (
    Trace,
    Value,
    after_parts,
    arguments_of,
    leaves,
    values_in,
)

#: Operations that only join rows: their arguments become the inputs.
_TRANSPARENT = frozenset({
    "cat", "concat", "concatenate", "stack", "complex",
})  # fmt: skip

#: Words of one operation after which counting stops.
_MOST_WORDS = 500


def push(
    simplified: Simplified,
    kinds: OperationKinds,
    words: EqualWords,
    fold: bool,
    exact_bias: bool,
    max_inputs: int = 256,
) -> Pushed:
    """Push all filters of a model down to its inputs.

    Parameters
    ----------
    words : EqualWords
        Finder of words that are equal as products: they become one.
    fold : bool
        Whether every polynomial with constant coefficients becomes one
        filter.
    exact_bias : bool
        Whether a bias at a word is aggregated too, as S 1 b.
    max_inputs : int
        Number of inputs above which the model is refused.
    """
    check_outputs(simplified.trace)
    pusher = _Pusher(
        simplified.trace, kinds, words, fold, exact_bias, max_inputs
    )
    return pusher.push(simplified.assumptions)


class _Pusher:
    """Decides for every value and word what becomes of it."""

    def __init__(
        self, trace: Trace, kinds: OperationKinds, words: EqualWords,
        fold: bool, exact_bias: bool, max_inputs: int,
    ) -> None:  # fmt: skip
        self._max_inputs = max_inputs
        # Pushing adds values: products of edge weights, a column of ones.
        self._trace = Trace(list(trace.values), trace.guards, trace.output)
        self._kinds = kinds
        self._words = words
        self._filters = FilterFinder(self._trace)
        self._polynomials = PolynomialFinder(self._filters, fold)
        self._ones = _add_ones(self._trace) if exact_bias else None
        self._attached: dict[int, bool] = {}
        self._places: dict[tuple[Value, Word], Place] = {}
        self._needs: dict[Value, list[Word]] = {}
        self._needed: set[tuple[Value, Word]] = set()
        self._inputs: dict[tuple[Value, Word], None] = {}
        self._folded: dict[Polynomial, None] = {}

    def push(self, assumptions: tuple[Assumption, ...]) -> Pushed:
        """Find all operations and inputs that the output needs."""
        for value in values_in(self._trace.output):
            self._need(value, ())
        # Arguments have smaller ids, so one pass from the end is enough.
        for value in reversed(self._trace.values):
            for word in self._needs.get(value, ()):
                for arg in arguments_of(value):
                    self._need(arg, word, value)
                if self._ones is not None and self._is_exact_bias(value):
                    self._need(self._ones, word)
        if not self._inputs:
            refuse(
                causes.WRONG_CALL, "",
                "the output", "does not depend on the features",
                "Pass the features too: lc_transform(model, g, x)",
            )  # fmt: skip
        needs = self._sorted_needs()
        inputs, sums = find_basis(
            sorted(self._inputs, key=_by_length), self._words.normal
        )
        if len(inputs) > self._max_inputs:
            self._refuse_number(f"{len(inputs):,}")
        return Pushed(
            trace=self._trace,
            num_nodes=self._kinds.num_nodes,
            needs=needs,
            inputs=tuple(inputs),
            sums=sums,
            kinds={value: self._kinds.of(value) for value in needs},
            places=self._places,
            exact_biases=frozenset(filter(self._is_exact_bias, needs)),
            ones=self._ones,
            scaled=frozenset(filter(self._scales_rows, needs)),
            folded=tuple(self._folded),
            assumptions=(*assumptions, *self._words.assumptions),
        )

    def _sorted_needs(self) -> dict[Value, tuple[Word, ...]]:
        """Return the words of each operation, shorter ones first."""
        found: dict[Value, tuple[Word, ...]] = {}
        # In the order of the trace, a tuple comes before its items.
        for value in sorted(self._needs, key=lambda value: value.id):
            if value.is_item:
                whole = value.args[0]
                found[value] = found[whole]
                for word in found[whole]:
                    # Another item may be needed at more words than this one.
                    self._need(whole, word)
            else:
                words = self._needs[value]
                words.sort(key=lambda word: (degree(word), len(word)))
                found[value] = tuple(words)
        return found

    def _need(
        self, value: Value, word: Word, user: Value | None = None
    ) -> None:
        """Note that a value is needed at a word, by the operation ``user``."""
        if (value, word) in self._places:
            return
        place = self._resolve(value, word, user)
        self._places[value, word] = place
        if place.kind == "op":
            words = self._needs.setdefault(place.value, [])
            if (place.value, place.word) not in self._needed:
                self._needed.add((place.value, place.word))
                words.append(place.word)
            most = max(self._max_inputs, _MOST_WORDS)
            if len(words) > most:
                self._refuse_number(f"more than {self._max_inputs:,}")
        elif place.kind == "input":
            self._inputs[place.value, place.word] = None

    def _refuse_number(self, count: str) -> NoReturn:
        """Refuse a model that has too many inputs."""
        refuse(
            causes.TOO_MANY_INPUTS, "", "the number of inputs",
            f"would be {count}: each product of filters is an input, and "
            f"their number grows exponentially with the layers of a model "
            f"that adds several filters (one for each type of edges, for "
            f"instance), and at most {self._max_inputs:,} are allowed",
            "Use fewer layers or types, fold=True, or raise max_inputs if "
            "there is room for them",
        )  # fmt: skip

    def _scales_rows(self, value: Value) -> bool:
        """Return whether it multiplies each row by a static number."""
        found = self._filters.letter(value)
        return found is not None and isinstance(found[1], Diagonal)

    def _is_exact_bias(self, value: Value) -> bool:
        """Return whether it is a bias that is aggregated, at some words."""
        words = self._needs.get(value, ())
        return self._ones is not None and any(words) and _is_bias(value)

    # What becomes of a value at a word

    def _resolve(self, value: Value, word: Word, user: Value | None) -> Place:
        """Follow letters from a value at a word; return where they end."""
        while True:
            if value.trouble:
                refuse_trouble(value)
            if not value.data:
                return Place("shared", value, ())
            step = self._step(value, word)
            if step is not None:
                value, letters = step
                word = word + letters
            elif word and value.counted is not None:
                value = _counted(value)
            else:
                break
        if value.op == "number" or value.count is not None:
            return Place("shared", value, ())
        turned = value.node_rows is not None and value.row_dim != 0
        made = turned or _is_transparent(value) or _is_zeros(value)
        if value.static and not made:
            check_input(value, word, user)
            return Place("input", value, self._words.normal(word))
        if "E" in value.dims or value.op in ("edges", "softmax"):
            refuse_value(
                causes.LEARNED_EDGE_WEIGHTS, value,
                "is computed from learned or random values: attention, or "
                "any other learned edge weight, can't be precomputed",
                "Use fixed edge weights, or a model without attention",
            )  # fmt: skip
        self._kinds.of(value)  # refuses what is not row-wise
        return Place("op", value, self._words.normal(word))

    def _step(self, value: Value, word: Word) -> tuple[Value, Word] | None:
        """Return the next letter, and the value it is applied to."""
        folded = self._polynomials.foldable(value)
        if folded is not None:
            origin, letters = folded
            for letter in () if origin.static else letters:
                if isinstance(letter, Polynomial) and not letter.self_loops:
                    self._folded[letter] = None
            return folded
        found = self._filters.letter(value)
        if found is None:
            return None
        source, letter = found
        # At the empty word, scaling rows is a row-wise operation, unless it
        # follows an aggregation: then it is the norm of a filter.
        free = isinstance(letter, Diagonal) and not word and not value.static
        if free and not self._is_attached(source):
            return None
        return source, (letter,)

    def _is_attached(self, value: Value) -> bool:
        """Return whether only linear operations follow an aggregation."""

        def parts(value: Value) -> list[Value]:
            below = self._below(value)
            return [] if isinstance(below, bool) else below

        def attached(value: Value) -> bool:
            below = self._below(value)
            if isinstance(below, bool):
                return below
            return all(self._attached[v.id] for v in below)

        return after_parts(value, self._attached, parts, attached)

    def _below(self, value: Value) -> bool | list[Value]:
        """Return whether it is attached, or the values this depends on."""
        if not value.data or value.row_dim is None or value.trouble:
            return False
        if self._polynomials.foldable(value) is not None:
            return True
        found = self._filters.letter(value)
        if found is not None:
            source, letter = found
            return True if isinstance(letter, Aggregate) else [source]
        if value.op not in ("call", "module") or value.static:
            return False
        if self._kinds.of(value) != LINEAR:
            return False
        return [v for v in arguments_of(value) if v.data]


def _by_length(item: StaticAtWord) -> tuple:
    value, word = item
    return value.id, degree(word), len(word)


def _is_zeros(value: Value) -> bool:
    """Return whether it is zeros, which stay zeros at every word."""
    made = value.op == "call" and value.target is torch.zeros
    return made and value.row_dim == 0 and value.example.is_floating_point()


def _counted(value: Value) -> Value:
    """Return an embedding as a function of one-hot columns, or refuse it."""
    if isinstance(value.counted, Value):
        return value.counted
    return refuse_value(
        causes.INTEGERS, value,
        f"is an embedding that is aggregated, and {value.counted}",
        "Give fewer categories, or pass floating-point features",
    )  # fmt: skip


def _is_transparent(value: Value) -> bool:
    """Return whether it only joins rows of other values, or zeros."""
    pads = value.target is nn.functional.pad and len(value.args) == 2
    zeros = pads and not value.kwargs
    if value.op != "call" or not (value.name in _TRANSPARENT or zeros):
        return False
    parts = arguments_of(value)
    return value.row_dim is not None and all(
        part.data and part.row_dim is not None for part in parts
    )


def _is_bias(value: Value) -> bool:
    """Return whether it adds the same to every row."""
    if value.op != "call" or len(value.args) != 2:
        return False
    if value.target not in (operator.add, operator.sub):
        return False
    rows = [isinstance(a, Value) and a.data for a in value.args]
    return sum(rows) == 1 and value.args[rows.index(True)].row_dim == 0


def _add_ones(trace: Trace) -> Value:
    """Add the column of ones: a bias is its product with a row."""
    rows = next(v for v in trace.values if v.target == "N")
    dtype = next(
        v.example.dtype
        for v in trace.values
        if v.op in ("param", "input")
        and isinstance(v.example, torch.Tensor)
        and v.example.is_floating_point()
    )
    made = Value(
        len(trace.values), "call", torch.ones, ((rows, 1),),
        {"dtype": dtype}, "", torch.ones(rows.example, 1, dtype=dtype),
        data=True, dims=("N", 1),
    )  # fmt: skip
    trace.values.append(made)
    return made


def check_outputs(trace: Trace) -> None:
    """Refuse outputs that are not rows of nodes."""
    for leaf in leaves(trace.output):
        if not isinstance(leaf, Value):
            continue
        if not leaf.data:
            refuse(
                causes.NO_ROWS_IN_OUTPUT, leaf.where, "the output",
                "contains a value that does not depend on the graph or the "
                "features",
                "Return only tensors with a row for each node", leaf.line,
            )  # fmt: skip
        if "E" in leaf.dims:
            refuse(
                causes.NO_ROWS_IN_OUTPUT, leaf.where, "the output",
                f"has shape {leaf.dims}, with a row for each edge (scores of "
                f"links, for instance), and not for each node",
                "Transform the encoder, which returns a row for each node, "
                "and compute values of edges from its output", leaf.line,
            )  # fmt: skip
        if leaf.row_dim is None and isinstance(leaf.example, torch.Tensor):
            refuse(
                causes.NO_ROWS_IN_OUTPUT, leaf.where, "the output",
                f"has shape {leaf.dims}, without a row for each node: it "
                f"mixes nodes (a readout)",
                "Transform the part of the model that returns a row for each "
                "node", leaf.line,
            )  # fmt: skip
