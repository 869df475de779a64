"""Steps: what a model does, in order."""

import re
from collections.abc import Hashable
from dataclasses import dataclass

#: Numbers in texts, in which repeated steps may differ.
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class ModelStep:
    """An operation, an aggregation or an input, and the steps it uses.

    Attributes
    ----------
    kind : str
        Kind of its box (see :mod:`.boxes`).
    text : str
        What it does: "@ weight".
    where : str
        Name of its submodule.
    args : tuple of int
        Numbers of earlier steps whose results it takes.
    size : str
        Size of its weight: "10 → 16".
    shape : str
        Shape of a row of its result: "16".
    rows : tuple of str
        What its rows are: "N", or "3B" for a batch at three words. Of a step
        that stands for several, one for each.
    marks : tuple of int
        Numbers of the aggregations that it stands for.
    filter : str
        Name of the filter that it applies, or that was moved to it.
    changed : bool
        Whether swapping it makes the result another function.
    scale : bool
        Whether it is a factor that belongs to a filter, such as a norm.
    detail : str
        More about it, shown when the mouse is over it.
    """

    kind: str
    text: str
    where: str = ""
    args: tuple[int, ...] = ()
    size: str = ""
    shape: str = ""
    rows: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()
    filter: str = ""
    changed: bool = False
    scale: bool = False
    detail: str = ""

    @property
    def pattern(self) -> Hashable:
        """What repeated steps have in common: all but numbers and words."""
        return (
            self.kind, NUMBER.sub("#", self.text),
            NUMBER.sub("#", self.where), len(self.args), self.size, self.shape,
            self.filter, self.scale,
        )  # fmt: skip
