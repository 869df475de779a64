"""Boxes and arrows: a picture before it has sizes and places."""

import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

#: What a box stands for; it decides how the box looks.
SOURCE, AGGREGATION, INPUTS, OPERATIONS, OUTPUT, REPEAT = (
    "source", "aggregation", "inputs", "operations", "output", "repeat",
)  # fmt: skip

#: Signs of texts: that of a product, of a range and of a difference.
TIMES, DASH, MINUS = "\u00d7", "\u2013", "\u2212"

#: A longer text is cut in its middle.
_LONGEST = 34

#: Ranges of numbers that are written; others are left out.
_MOST_RANGES = 5


@dataclass(frozen=True)
class TextLine:
    """A line of a box.

    Attributes
    ----------
    text : str
        What is at the left.
    note : str
        What is at the right, in grey: the name of a submodule.
    marks : tuple of int
        Numbers of aggregations, as a badge after the text.
    filter : str
        First part of the text, in the colour of aggregations: "S²".
    changed : bool
        Whether swapping this operation makes the result another function.
    plain : bool
        Whether it is not bold where other lines of such a box are.
    """

    text: str
    note: str = ""
    marks: tuple[int, ...] = ()
    filter: str = ""
    changed: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Box:
    """A box of a picture, or a part that is repeated.

    Attributes
    ----------
    kind : str
        One of the kinds of this file.
    lines : tuple of TextLine
        What is written in it. Of a repeated part: its heading.
    foot : str
        What is written below the lines, in grey: the shape of the result.
    detail : str
        What is shown when the mouse is over it: names in full.
    inner : Diagram or None
        Boxes and arrows of the part that is repeated.
    """

    kind: str
    lines: tuple[TextLine, ...]
    foot: str = ""
    detail: str = ""
    inner: "Diagram | None" = None


@dataclass(frozen=True)
class Diagram:
    """Boxes, and arrows between them by their numbers; arrows go down.

    Attributes
    ----------
    lowest : tuple of int
        For each box, the first layer that it may be in; empty for any.
    """

    boxes: tuple[Box, ...]
    arrows: tuple[tuple[int, int], ...]
    lowest: tuple[int, ...] = ()


def write_marks(marks: Sequence[int]) -> str:
    """Write numbers of aggregations, as short as possible.

    >>> write_marks([1, 2, 3, 7]), write_marks([1, 3, 5, 7])
    ('1–3, 7', '1, 3 … 7')
    """
    marks = sorted(set(marks))
    steps = {b - a for a, b in itertools.pairwise(marks)}
    if len(marks) > 3 and len(steps) == 1 and steps != {1}:
        return f"{marks[0]}, {marks[1]} … {marks[-1]}"
    ranges: list[list[int]] = []
    for mark in marks:
        if ranges and ranges[-1][1] == mark - 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    parts = [
        str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}{DASH}{b}"
        for a, b in ranges
    ]
    if len(parts) > _MOST_RANGES:
        parts[_MOST_RANGES - 1 : -1] = ["…"]
    return ", ".join(parts)


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Cut a long text in its middle, and replace what can't be printed.

    >>> shorten("encoder.blocks.0.attention", 13)
    'encode…ention'
    """
    text = "".join(c if c.isprintable() else "�" for c in text)
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[-half:]}"


def cells(text: str) -> int:
    """Return how many columns a text has in a font of fixed width.

    >>> cells("S² x"), cells("層")
    (4, 2)
    """
    total = 0
    for character in text:
        if unicodedata.east_asian_width(character) in "WF":
            total += 2
        elif not unicodedata.combining(character):
            total += 1
    return total
