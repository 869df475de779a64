"""LCError: what is refused, where, why, and what to do."""

import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from dgl import DGLError

from .causes import CAUSES, Cause

if TYPE_CHECKING:
    from .tracing.values import Value

#: Advice on a number that differs from graph to graph.
FIXED_NUMBERS = (
    "Store the number as a fixed attribute of the model, or compute what "
    "depends on it before the model is called"
)
#: How many problems after the first are named in the message of an error.
_ALSO = 3


@dataclass(frozen=True)
class Line:
    """A line of source code: the user's, as far as there is one."""

    file: str = ""
    number: int = 0

    @property
    def text(self) -> str:
        """The source line itself, or an empty string."""
        return linecache.getline(self.file, self.number).strip()


@dataclass(frozen=True)
class Problem:
    """One reason why a model can't be transformed.

    Attributes
    ----------
    code : str
        Stable code of the cause, such as "LC003"; docs/lc_errors.md has a
        section for each.
    submodule : str
        Name of the submodule that has it; empty for the model itself.
    operation : str
        Operation that is refused.
    reason : str
        Reason why it can't be swapped with aggregation.
    advice : str
        Change of the model or the call that could help.
    file, line, text : str, int, str
        Line of the user's code that calls the operation; empty and 0 where
        there is none.
    """

    code: str
    submodule: str
    operation: str
    reason: str
    advice: str
    file: str = ""
    line: int = 0
    text: str = ""

    @property
    def name(self) -> str:
        """The short name of the cause."""
        return CAUSES[self.code].name

    @property
    def where(self) -> str:
        """The submodule and the line of code: ``in conv1, model.py:12``."""
        where = f"in {self.submodule}" if self.submodule else "in the model"
        return f"{where}, {self.place}" if self.file else where

    @property
    def place(self) -> str:
        """The file and the line: ``model.py:12``."""
        return f"{_short_path(self.file)}:{self.line}" if self.file else ""

    def __str__(self) -> str:
        return (
            f"{self.code} {self.where}: {self.operation}: {self.reason}. "
            f"{self.advice}."
        )


class LCError(DGLError):
    """A model, or a part of one, that can't be transformed.

    Attributes
    ----------
    problems : list of Problem
        All problems that were found, the most important one first. The other
        attributes are those of the first problem.
    code : str
        Stable code of the cause, such as "LC003".
    submodule : str
        Name of the submodule that has it; empty for the model itself.
    operation : str
        Operation that was refused.
    reason : str
        Reason why it can't be swapped with aggregation.
    advice : str
        Change of the model or the call that could help.
    """

    def __init__(self, problems: Problem | Sequence[Problem]) -> None:
        if isinstance(problems, Problem):
            problems = [problems]
        self.problems = list(problems)
        first = self.problems[0]
        self.code, self.submodule = first.code, first.submodule
        self.operation, self.reason = first.operation, first.reason
        self.advice = first.advice
        super().__init__(_message(self.problems))

    def __reduce__(self) -> tuple:
        return type(self), (self.problems,)


def _message(problems: list[Problem]) -> str:
    """Write the first problem whole, and name the next ones."""
    first, *others = problems
    if not others:
        return str(first)
    named = [f"{p.code} {p.where}: {p.operation}" for p in others[:_ALSO]]
    more = len(others) - len(named)
    rest = f"; and {more} more" if more else ""
    return (
        f"{first} Other problems: {'; '.join(named)}{rest} "
        f"(dgl_lc.lc_explain shows all)."
    )


def _short_path(file: str) -> str:
    """Return a path relative to the working directory, if it is inside."""
    try:
        short = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if short.startswith(os.pardir) else short


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= 200 else f"{line[:200]}…"


def refusal(
    cause: Cause,
    submodule: str,
    operation: str,
    reason: str,
    advice: str,
    at: Line | None = None,
) -> LCError:
    """Make an LCError, to be raised ``from`` another error."""
    at = at or Line()
    return LCError(
        Problem(
            cause.code, submodule, operation, reason, advice, at.file,
            at.number, at.text,
        )
    )  # fmt: skip


def refuse(
    cause: Cause,
    submodule: str,
    operation: str,
    reason: str,
    advice: str,
    at: Line | None = None,
) -> NoReturn:
    """Raise an LCError: causes are in :mod:`dgl_lc.transform.causes`."""
    raise refusal(cause, submodule, operation, reason, advice, at)


def problem_of(
    cause: Cause, value: "Value", reason: str, advice: str
) -> Problem:
    """Make the problem of a value, which knows its submodule and line."""
    error = refusal(cause, value.where, value.name, reason, advice, value.line)
    return error.problems[0]


def refuse_value(
    cause: Cause, value: "Value", reason: str, advice: str
) -> NoReturn:
    """Raise an LCError for a value, which knows its submodule and line."""
    refuse(cause, value.where, value.name, reason, advice, value.line)
