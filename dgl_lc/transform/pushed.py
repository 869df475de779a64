"""The result of pushing: what emitting, checking and the report read.

Nothing here changes after :func:`dgl_lc.transform.push.push` has made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .assumptions import Assumption
from .filter_words import Polynomial, Word
from .tracing.values import Trace, Value

#: A static value at a word: what can be precomputed.
StaticAtWord = tuple[Value, Word]

#: An input that is computed from others: their coefficients.
InputSum = tuple[tuple[float, StaticAtWord], ...]


class Place(NamedTuple):
    """Where a value at a word ends up.

    Attributes
    ----------
    kind : str
        "op": the result of a row-wise operation, on rows at a word;
        "input": a static value at a word, which is precomputed, or a sum
        of those;
        "shared": a value that does not depend on nodes, such as a weight.
    value : Value
        The operation, the static value, or the shared value.
    word : Word
        The word that the operation or the static value is needed at.
    """

    kind: str
    value: Value
    word: Word


@dataclass(frozen=True)
class Pushed:
    """A model with its filters on its inputs.

    Attributes
    ----------
    trace : Trace
        All values of the model; some were added by pushing.
    num_nodes : int
        Number of nodes of the probe that the examples of values come from.
    needs : dict of Value to tuple of Word
        Words that each row-wise operation is needed at.
    inputs : tuple of (Value, Word)
        Static values at words that have to be precomputed.
    sums : dict of (Value, Word) to tuple
        Static values at words that are sums of inputs, with coefficients.
    kinds : dict of Value to str
        Kind of each operation in ``needs``: linear, bias, non-linear,
        dropout or batch norm.
    places : dict of (Value, Word) to Place
        Where each argument of an operation, and each output, is found.
    exact_biases : frozenset of Value
        Sums with a bias that is aggregated too, as S 1 b.
    ones : Value or None
        The column of ones that these biases are multiplied by.
    scaled : frozenset of Value
        Operations that multiply each row by a static number.
    folded : tuple of Polynomial
        Sums of filters of learned values that became one filter.
    assumptions : tuple
        What has to hold on a graph for this to be right.
    """

    trace: Trace
    num_nodes: int
    needs: Mapping[Value, tuple[Word, ...]]
    inputs: tuple[StaticAtWord, ...]
    sums: Mapping[StaticAtWord, InputSum]
    kinds: Mapping[Value, str]
    places: Mapping[tuple[Value, Word], Place]
    exact_biases: frozenset[Value]
    ones: Value | None
    scaled: frozenset[Value]
    folded: tuple[Polynomial, ...]
    assumptions: tuple[Assumption, ...]

    def place(self, value: Value, word: Word) -> Place:
        """Return where a value at a word is found."""
        if not value.data:
            return Place("shared", value, ())
        return self.places[value, word]
