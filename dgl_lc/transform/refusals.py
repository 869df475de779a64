"""What is refused, and how it is said."""

from typing import NoReturn

from dgl import DGLError

#: Advice on a number that differs from graph to graph.
FIXED_NUMBERS = (
    "Pass the number as a fixed attribute of the model, or compute what "
    "needs it before the model"
)


class LCError(DGLError):
    """A model, or a part of one, that can't be transformed.

    Attributes
    ----------
    submodule : str
        The name of the submodule it is in; empty for the model itself.
    operation : str
        What was refused.
    reason : str
        Why it can't be commuted with aggregation.
    advice : str
        What could be done about it.
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
    """What an error says, without the pages that some of them add."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0]
    return line if len(line) <= 200 else f"{line[:200]}…"


def refuse(
    submodule: str, operation: str, reason: str, advice: str
) -> NoReturn:
    raise LCError(submodule, operation, reason, advice)
