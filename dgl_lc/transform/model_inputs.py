"""The inputs of the LC version: which filters are applied to which features."""

import keyword
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..row_programs.needs import NeededInput, Needs
from .feature_names import source_name
from .filter_words import (
    Diagonal,
    NormedAggregate,
    Polynomial,
    Unit,
    Word,
    units_of,
)
from .tracing.values import Value


@dataclass(frozen=True)
class Input:
    """What has to be precomputed: filters, applied to static features.

    Attributes
    ----------
    formula : str
        Formula for people to read: ``S² x``.
    name : str
        Name of the argument of the LC version: ``s2_x``.
    columns : int
        Number of columns: how many numbers each node has.
    value, word : Value, Word
        The features, and the filters that are applied to them.
    """

    formula: str
    name: str
    columns: int
    value: Value
    word: Word

    def __str__(self) -> str:
        return self.formula


class FilterNames:
    """Names of filters, in the order in which they appear: S₁, S₂, …"""

    def __init__(self, inputs: Sequence[tuple[Value, Word]]) -> None:
        self.units: dict[Unit, str] = {}
        every = [unit for _, word in inputs for unit in _all_units(word)]
        for kind, letter in (
            (NormedAggregate, "S"),
            (Polynomial, "P"),
            (Diagonal, "D"),
        ):
            mine = [u for u in dict.fromkeys(every) if isinstance(u, kind)]
            for number, unit in enumerate(mine, 1):
                several = str(number).translate(_BELOW)
                self.units[unit] = letter + (several if len(mine) > 1 else "")

    def formula(self, value: Value, word: Word) -> str:
        """Write a word on a value as a formula."""
        return f"{self.product(word)} {source_name(value)}".strip()

    def product(self, word: Word) -> str:
        """Write a word as a product of filters: ``S² D``."""
        powers: list[list] = []
        for unit in units_of(word):
            if powers and powers[-1][0] == unit:
                powers[-1][1] += 1
            else:
                powers.append([unit, 1])
        parts = [
            self.units[unit] + (str(k).translate(_ABOVE) if k > 1 else "")
            for unit, k in powers
        ]
        return " ".join(parts)


def _all_units(word: Word) -> Iterator[Unit]:
    """Yield the filters of a word, and those that polynomials are made of."""
    for unit in units_of(word):
        if isinstance(unit, Polynomial) and not unit.self_loops:
            for _, term in unit.terms:
                yield from _all_units(term)
        yield unit


_ABOVE = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉ .", "01234567890123456789__")


def name_inputs(inputs: Sequence[tuple[Value, Word]]) -> list[Input]:
    """Give each input a formula, and a name of its own."""
    names = FilterNames(inputs)
    found: list[Input] = []
    used: set[str] = set()
    formulas = _apart([names.formula(*entry) for entry in inputs])
    for (value, word), formula in zip(inputs, formulas, strict=True):
        # torch.fx writes variables in lower case.
        name = plain = _identifier(formula.translate(_PLAIN).lower())
        number = 2
        while name in used:
            name, number = f"{plain}_{number}", number + 1
        used.add(name)
        columns = prod(d for d in value.dims if isinstance(d, int))
        found.append(Input(formula, name, columns, value, word))
    return found


def _apart(formulas: list[str]) -> list[str]:
    """Number formulas that are alike: ``sin(scaled(x)) (2)``."""
    counts: dict[str, int] = {}
    found = []
    for formula in formulas:
        counts[formula] = counts.get(formula, 0) + 1
        several = formulas.count(formula) > 1
        found.append(f"{formula} ({counts[formula]})" if several else formula)
    return found


def needs_of(inputs: Sequence[Input], filters: Sequence[str]) -> Needs:
    """Return what a module that takes these inputs needs."""
    found = [
        NeededInput(
            entry.name, entry.formula, tuple(entry.value.example.shape[1:]),
            entry.value.example.dtype,
        )
        for entry in inputs
    ]  # fmt: skip
    return Needs(tuple(found), tuple(filters))


def _identifier(text: str) -> str:
    """Turn a text into a name that a variable of the code can have."""
    # Python reads letters that only look different as the same name.
    text = unicodedata.normalize("NFKC", text)
    name = "".join(c for c in text if c.isalnum() or c == "_")
    taken = name in ("self", "torch", "operator", "device", "inf", "nan")
    if not name.isidentifier() or keyword.iskeyword(name) or taken:
        return f"input_{name}"
    return name
