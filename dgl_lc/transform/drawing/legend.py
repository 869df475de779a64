"""The legend: what colours and marks mean, and what the filters are."""

import textwrap
from collections.abc import Sequence

from .boxes import AGGREGATION, INPUTS, OPERATIONS
from .looks import LOOKS, sans_width, write_line, write_text
from .place import PlacedText, text_width
from .svg import SvgWriter

_SIZE, _LINE = 11.5, 20.0
_SWATCH = 34.0

_ENTRIES = (
    (AGGREGATION, "aggregation over edges"),
    ("filter", "aggregations moved to an input, computed once"),
    ("marks", "number of an aggregation, on both sides"),
    (OPERATIONS, "operation on rows"),
    ("changed", "swapped with aggregations, which changes the function"),
    ("N, B", "nodes, rows of a batch (3B: at three words, stacked)"),
)


_ENTRIES_OF_REPEATS = (
    ("↻", "result of the time before; the first time, from above"),
    ("↓", "the same every time, from above"),
)


class Legend:
    """Lines about filters, and an entry for each mark.

    Parameters
    ----------
    notes : list of str
        Lines about filters.
    repeats : bool
        Whether the picture has a part that is repeated.
    """

    def __init__(self, notes: Sequence[str], repeats: bool) -> None:
        self._notes = notes
        self._entries = _ENTRIES + (_ENTRIES_OF_REPEATS if repeats else ())
        self.least_width = 440.0

    def height(self, width: float) -> float:
        """Return the height in a picture of some width."""
        rows = len(self._wrapped(width)) + len(self._rows(width))
        return _LINE * rows

    def write(self, svg: SvgWriter, x: float, y: float, width: float) -> None:
        """Write the legend at a place."""
        y += 12
        for line in self._wrapped(width):
            write_text(svg, x, y, line, _SIZE)
            y += _LINE
        for row in self._rows(width):
            at = x
            for sign, text in row:
                _write_swatch(svg, at, y, sign)
                write_text(svg, at + _SWATCH, y, text, _SIZE)
                at += _entry_width(text)
            y += _LINE

    def _wrapped(self, width: float) -> list[str]:
        most = max(int(width / (_SIZE * 0.6)), 20)
        return [
            line
            for note in self._notes
            for line in textwrap.wrap(note, most, subsequent_indent="    ")
        ]

    def _rows(self, width: float) -> list[list[tuple[str, str]]]:
        rows: list[list[tuple[str, str]]] = [[]]
        used = 0.0
        for sign, text in self._entries:
            wide = _entry_width(text)
            if rows[-1] and used + wide > width:
                rows.append([])
                used = 0.0
            rows[-1].append((sign, text))
            used += wide
        return rows


def _entry_width(text: str) -> float:
    return _SWATCH + sans_width(text, _SIZE) + 16


def _write_swatch(svg: SvgWriter, x: float, y: float, sign: str) -> None:
    if sign in LOOKS:
        svg.add("rect", x=x, y=y - 10.5, width=24.0, height=13.0,
                **LOOKS[sign])  # fmt: skip
        return
    words = {"filter": "S²", "marks": "1", "changed": "≈"}
    text = words.get(sign, sign)
    wide = text_width(text)
    role = sign if sign in words else "text"
    at = x + max((24.0 - wide) / 2, 0.0)
    write_line(svg, PlacedText(at, y, text, role, wide), INPUTS)
