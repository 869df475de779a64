"""Assumptions: what was found to hold on some graphs, and is used as a fact.

A factor may be the same number at every node, and two filters may be equal.
Both are seen on probes and on the user's graph before they are used, and
are checked again on every other graph that inputs are computed for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from dgl import DGLError

from . import causes
from .apply_words import apply_word
from .evaluate import Evaluator
from .filter_words import Word
from .refusals import refusal, refuse, refuse_value
from .tracing.values import Value

#: Random columns that two filters are compared on.
_COLUMNS = 8

#: Nodes of a graph on which all these columns are computed at once.
_SMALL = 4096

_ADVICE = "Call lc_transform with this graph"


@dataclass(frozen=True)
class IsNumber:
    """A static value is the same number everywhere."""

    value: Value
    number: float

    def __str__(self) -> str:
        return f"{self.value.name} being {self.number:.6g} for every node"

    def holds(self, evaluate: Evaluator) -> bool:
        """Return whether it is this number on a graph."""
        found = evaluate(self.value)
        rtol = 8 * torch.finfo(found.dtype).eps
        wanted = torch.tensor(self.number, dtype=found.dtype)
        return torch.allclose(found, wanted.to(found.device), rtol=rtol, atol=0)

    def require(self, evaluate: Evaluator) -> None:
        """Refuse a graph on which it is not this number."""
        if not self.holds(evaluate):
            refuse_value(
                causes.OTHER_ON_OTHER_GRAPHS, self.value,
                f"is {self.number:.6g} for every node of the graph that "
                f"lc_transform was called with, but not on this graph",
                _ADVICE,
            )  # fmt: skip


@dataclass(frozen=True)
class SameFilter:
    """Two words are equal as products of filters."""

    first: Word
    second: Word

    def __str__(self) -> str:
        return "two filters being equal"

    def holds(self, evaluate: Evaluator) -> bool:
        """Return whether they are equal on a graph.

        Both are applied to random columns: on a large graph one after the
        other, so that this needs no more memory than some columns. The
        difference of a row is compared with the largest number that the row
        had in any column: of a row that differs, some column shows it.
        """
        n = evaluate.call.num_nodes
        generator = torch.Generator().manual_seed(n)
        size = torch.zeros(n, 1, dtype=torch.float64)
        difference = torch.zeros(n, 1, dtype=torch.float64)
        together = _COLUMNS if n <= _SMALL else 1
        for first in range(0, _COLUMNS, together):
            columns = torch.randn(
                n, together, generator=generator, dtype=torch.float64
            )
            if first == 0:
                # In a row without negative factors, nothing cancels out.
                columns[:, 0] = columns[:, 0].abs() + 0.5
            a = _apply(self.first, columns, evaluate)
            b = _apply(self.second, columns, evaluate)
            same = (a == b) | (a.isnan() & b.isnan())
            apart = torch.where(same, 0, (a - b).abs().nan_to_num(torch.inf))
            apart = apart.amax(dim=1, keepdim=True)
            difference = torch.maximum(difference, apart)
            largest = b.abs().nan_to_num(0, 0, 0).amax(dim=1, keepdim=True)
            size = torch.maximum(size, largest)
        return bool((difference <= 1e-5 * size).all())

    def require(self, evaluate: Evaluator) -> None:
        """Refuse a graph on which they differ."""
        if not self.holds(evaluate):
            refuse(
                causes.OTHER_ON_OTHER_GRAPHS, "", "two filters",
                "are equal on the graph that lc_transform was called with, "
                "but differ on this graph (a limit of degrees, or another "
                "rule for nodes without edges, can have an effect on one "
                "graph only)",
                _ADVICE,
            )  # fmt: skip


Assumption = IsNumber | SameFilter


def _apply(word: Word, columns: torch.Tensor, evaluate: Any) -> torch.Tensor:
    """Apply a word to columns, on a graph in memory or on disk."""
    if isinstance(evaluate, Evaluator):
        return apply_word(word, columns, evaluate)
    return evaluate.apply_word(word, columns)


def check_assumptions(assumptions: Iterable[Assumption], evaluate: Any) -> None:
    """Refuse a graph on which an assumption does not hold.

    ``evaluate`` is an :class:`Evaluator`, or evaluates on a graph on disk.
    """
    for assumption in assumptions:
        try:
            assumption.require(evaluate)
        except DGLError:
            raise
        except Exception as error:
            raise refusal(
                causes.OTHER_ON_OTHER_GRAPHS, "", str(assumption),
                "was found on the graph that lc_transform was called with, "
                "and can't be checked on a graph of this kind",
                "Write filters that are equal in the same way in all layers",
            ) from error  # fmt: skip
