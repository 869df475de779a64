"""LCError: what is refused, where, why, and what to do."""

from typing import NoReturn

from dgl import DGLError

#: Advice on a number that differs from graph to graph.
FIXED_NUMBERS = (
    "Store the number as a fixed attribute of the model, or compute what "
    "depends on it before the model is called"
)


class LCError(DGLError):
    """A model, or a part of one, that can't be transformed.

    Attributes
    ----------
    submodule : str
        Name of the submodule that has it; empty for the model itself.
    operation : str
        Operation that was refused.
    reason : str
        Reason why it can't be swapped with aggregation.
    advice : str
        Change of the model or the call that could help.
    """

    def __init__(
        self, submodule: str, operation: str, reason: str, advice: str
    ) -> None:
        self.submodule, self.operation = submodule, operation
        self.reason, self.advice = reason, advice
        where = f"in {submodule}" if submodule else "in the model's forward"
        super().__init__(f"{where}: {operation}: {reason}. {advice}.")

    def __reduce__(self) -> tuple:
        fields = (self.submodule, self.operation, self.reason, self.advice)
        return type(self), fields


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= 200 else f"{line[:200]}…"


def refuse(
    submodule: str, operation: str, reason: str, advice: str
) -> NoReturn:
    """Raise an LCError."""
    raise LCError(submodule, operation, reason, advice)
