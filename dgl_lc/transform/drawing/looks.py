"""How things look: colours, fonts, boxes, texts and arrows.

The colours are those of Okabe and Ito, which the colour-blind can tell apart.
The paper is drawn too, so that a picture is as readable on a dark page.
"""

from collections.abc import Sequence
from typing import Any

from .boxes import (
    AGGREGATION,
    INPUTS,
    OPERATIONS,
    OUTPUT,
    REPEAT,
    SOURCE,
    cells,
)
from .place import SMALL, TEXT, PlacedBox, PlacedText
from .svg import SvgWriter, number, path_of

MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
SANS = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"

INK, GREY, PAPER, EDGE = "#1a1a1a", "#595959", "#ffffff", "#4d4d4d"
FILTER, FILTER_EDGE, FILTER_PALE = "#f5b32e", "#7a4f00", "#fff3d6"
CHANGED, ROWS, ROWS_EDGE = "#a33b00", "#e8f1f8", "#33658a"

LOOKS: dict[str, dict[str, Any]] = {
    SOURCE: {"fill": PAPER, "stroke": EDGE, "rx": 12.0, "stroke_width": 1.2},
    OUTPUT: {"fill": PAPER, "stroke": EDGE, "rx": 12.0, "stroke_width": 1.2},
    AGGREGATION: {
        "fill": FILTER, "stroke": FILTER_EDGE, "rx": 4.0, "stroke_width": 2.2,
    },
    INPUTS: {
        "fill": FILTER_PALE, "stroke": FILTER_EDGE, "rx": 4.0,
        "stroke_width": 2.2,
    },
    OPERATIONS: {
        "fill": ROWS, "stroke": ROWS_EDGE, "rx": 4.0, "stroke_width": 1.2,
    },
    REPEAT: {
        "fill": "none", "stroke": EDGE, "rx": 10.0, "stroke_width": 1.2,
        "stroke_dasharray": "6 4",
    },
}  # fmt: skip


def sans_width(text: str, size: float) -> float:
    """Estimate the width of a text in a font whose letters differ in width."""
    return cells(text) * size * 0.6


def write_text(
    svg: SvgWriter, x: float, y: float, text: str, size: float,
    bold: bool = False, fill: str = INK,
) -> None:  # fmt: skip
    """Write a text that is in no box."""
    weight = {"font_weight": "bold"} if bold else {}
    svg.add("text", text, x=x, y=y, font_family=SANS, font_size=size,
            fill=fill, **weight)  # fmt: skip


def write_box(svg: SvgWriter, box: PlacedBox) -> None:
    """Write a box and its texts."""
    with svg.inside("g"):
        if box.box.detail:
            svg.add("title", box.box.detail)
        svg.add(
            "rect", x=box.x, y=box.y, width=box.width, height=box.height,
            **LOOKS[box.box.kind],
        )  # fmt: skip
        for text in box.texts:
            write_line(svg, text, box.box.kind)


def write_line(svg: SvgWriter, text: PlacedText, kind: str) -> None:
    """Write a text of a box as its role demands."""
    size, fill, bold = TEXT, INK, text.role in ("filter", "changed", "marks")
    if text.role in ("note", "foot"):
        size, fill = SMALL, INK if kind == AGGREGATION else GREY
    elif text.role == "changed":
        fill = CHANGED
    elif text.role == "filter":
        svg.add(
            "rect", x=text.x - 4, y=text.y - 11.5, width=text.width + 8,
            height=15.0, rx=3.0, fill=FILTER, stroke=FILTER_EDGE,
            stroke_width=1.0,
        )  # fmt: skip
    elif text.role == "marks":
        size, fill = SMALL, PAPER
        svg.add(
            "rect", x=text.x - 5, y=text.y - 10.5, width=text.width + 10,
            height=13.5, rx=6.5, fill=FILTER_EDGE,
        )  # fmt: skip
    elif text.role == "text" and kind in (AGGREGATION, SOURCE, OUTPUT):
        bold = True
    weight = {"font_weight": "bold"} if bold else {}
    svg.add("text", text.text, x=text.x, y=text.y, font_size=size, fill=fill,
            **weight)  # fmt: skip


def write_arrow(svg: SvgWriter, path: Sequence[tuple[float, float]]) -> None:
    """Write an arrow, which ends at the top of a box."""
    x, y = path[-1]
    line = [*path[:-1], (x, y - 6)]
    svg.add("path", d=path_of(line), fill="none", stroke=EDGE,
            stroke_width=1.3)  # fmt: skip
    _write_head(svg, x, y, -7)


def write_back_arrow(
    svg: SvgWriter, x: float, bottom: float, top: float
) -> None:
    """Write the arrow that leads back to the begin of a repeated part."""
    svg.add(
        "path", fill="none", stroke=EDGE, stroke_width=1.2,
        stroke_dasharray="3 3",
        d=f"M{number(x - 10)},{number(bottom)} H{number(x - 5)} "
        f"Q{number(x)},{number(bottom)} {number(x)},{number(bottom - 5)} "
        f"V{number(top + 6)}",
    )  # fmt: skip
    _write_head(svg, x, top, 7)


def _write_head(svg: SvgWriter, x: float, y: float, back: float) -> None:
    points = [(x, y), (x - 3.5, y + back), (x + 3.5, y + back)]
    written = " ".join(f"{number(a)},{number(b)}" for a, b in points)
    svg.add("polygon", points=written, fill=EDGE)
