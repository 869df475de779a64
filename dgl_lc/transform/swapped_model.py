"""A model in which some operations are swapped with aggregation."""

from typing import Any

import torch

from .apply_words import apply_word
from .filter_words import Letter, Word
from .linearity import LINEAR
from .neighbourhoods import NodeEvaluator, Parts
from .number_types import has_numbers, real_parts
from .pushed import Pushed
from .recognise import DROPOUT
from .tracing.values import Value, arguments_of, callable_of, replace


class SwappedModel:
    """Evaluates a model in which only some operations are swapped.

    ``at(value, word)`` is the word applied to the value. For an operation to
    be swapped it is the operation on its arguments at that word; for any
    other that is not linear, the word is applied to its result.
    """

    def __init__(
        self, evaluate: NodeEvaluator, parts: Parts, pushed: Pushed,
        swapped: set[Value],
    ) -> None:  # fmt: skip
        self._evaluate = evaluate
        self._parts = parts
        self._kinds = pushed.kinds
        self._exact = pushed.exact_biases
        self._scaled = pushed.scaled
        self._swapped = swapped
        self._changed = self._find_changed(pushed)
        self._known: dict[tuple[Value, Word], Any] = {}

    def _find_changed(self, pushed: Pushed) -> set[Value]:
        """Return the values that depend on an operation to be swapped."""
        found = set(self._swapped)
        for value in pushed.trace.values:
            inside = self._parts.of(value) or ()
            if any(v in found for v in inside):
                found.add(value)
        return found

    def at(self, value: Value, word: Word) -> Any:
        """Return a word applied to a value.

        There is no recursion, for which deep models have too many values.
        """
        pending = [(value, word)]
        while pending:
            top = pending[-1]
            if top in self._known:
                pending.pop()
                continue
            needed = [p for p in self._needed(*top) if p not in self._known]
            if needed:
                pending.extend(needed)
            else:
                self._known[top] = self._compute(*top)
        return self._known[value, word]

    def _passes(self, value: Value) -> bool:
        """Return whether a word is handed on to the arguments of a value."""
        if value.is_item:
            return self._passes(value.args[0])
        linear = self._kinds.get(value) in (LINEAR, DROPOUT)
        return value in self._swapped or (linear and value not in self._exact)

    def _letter(self, value: Value, word: Word) -> tuple[Value, Letter] | None:
        """Return the letter that a value adds to a word, and its source."""
        # As in the LC version, scaling rows may be an operation at no word.
        if not word and value in self._scaled:
            return None
        return self._parts.letter(value)

    def _needed(self, value: Value, word: Word) -> list[tuple[Value, Word]]:
        """Return the values at words that this one is computed from."""
        if value not in self._changed:
            return []
        found = self._letter(value, word)
        if found is not None:
            source, letter = found
            return [(source, (*word, letter))]
        there = word if self._passes(value) else ()
        return [(arg, there) for arg in arguments_of(value)]

    def _compute(self, value: Value, word: Word) -> Any:
        evaluate = self._evaluate
        if value not in self._changed:
            return self._apply(word, evaluate(value), value)
        needed = self._needed(value, word)
        if self._letter(value, word) is not None:
            return self._known[needed[0]]
        there = needed[0][1]

        def argument(leaf: Any) -> Any:
            if isinstance(leaf, Value):
                return self._known[leaf, there]
            return evaluate._argument(leaf)

        args, kwargs = replace((value.args, value.kwargs), argument)
        result = callable_of(value, evaluate.call.model)(*args, **kwargs)
        return result if there == word else self._apply(word, result, value)

    def _apply(self, word: Word, result: Any, value: Value) -> Any:
        """Apply a word to the rows of a result."""
        dim = value.row_dim
        if not word or not value.data or dim is None:
            return result
        if not has_numbers(result):
            return result
        numbers = real_parts(result.movedim(dim, 0))
        rows = apply_word(word, numbers, self._evaluate)
        if result.is_complex():
            rows = torch.view_as_complex(rows.contiguous())
        return rows.movedim(0, dim)
