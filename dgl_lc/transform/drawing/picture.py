"""The picture: panels side by side and a legend, written as SVG."""

from dataclasses import dataclass
from typing import Any

from .boxes import Diagram
from .legend import Legend
from .looks import (
    FILTER_EDGE,
    GREY,
    INK,
    MONO,
    PAPER,
    SANS,
    sans_width,
    write_arrow,
    write_back_arrow,
    write_box,
    write_text,
)
from .place import TEXT, Placed, place
from .svg import SvgWriter, number

_MARGIN, _BETWEEN_PANELS = 24.0, 56.0
_TITLE, _HEADING = 17.0, 14.0
_SIDE = 34.0


@dataclass(frozen=True)
class Panel:
    """A heading, and the diagram below it.

    Attributes
    ----------
    once, often : str
        What is written beside the first two layers, which are the features
        and the inputs, and beside those below. Empty if there are no inputs.
    """

    heading: str
    diagram: Diagram
    once: str = ""
    often: str = ""


@dataclass(frozen=True)
class Picture:
    """What is drawn.

    Attributes
    ----------
    title, description : str
        Title, and what can be seen, for those who can't see it.
    panels : tuple of Panel
        Panels, from left to right.
    notes : tuple of str
        Lines below the panels: what the filters are.
    """

    title: str
    description: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()


def write_picture(picture: Picture) -> str:
    """Write a picture as an SVG document.

    The text depends on the picture alone: the same picture gives the same
    bytes.
    """
    placed = [place(panel.diagram) for panel in picture.panels]
    widths = [
        max(p.width + _side(panel), sans_width(panel.heading, _HEADING))
        for panel, p in zip(picture.panels, placed, strict=True)
    ]
    legend = Legend(picture.notes, any(p.back_arrows for p in placed))
    gaps = _BETWEEN_PANELS * (len(widths) - 1)
    title = sans_width(picture.title, _TITLE)
    inner = max(sum(widths) + gaps, title, legend.least_width)
    # Room that is left is shared, so that panels are not at one side.
    spare = (inner - sum(widths) - gaps) / max(len(widths), 1)
    top = _MARGIN + 64
    below = top + max((p.height for p in placed), default=0.0) + 30
    size: dict[str, Any] = {
        "width": round(inner + 2 * _MARGIN),
        "height": round(below + legend.height(inner) + _MARGIN),
    }
    svg = SvgWriter()
    with svg.inside(
        "svg", xmlns="http://www.w3.org/2000/svg", **size, role="img",
        viewBox=f"0 0 {size['width']} {size['height']}",
        font_family=MONO, font_size=TEXT, fill=INK,
    ):  # fmt: skip
        svg.add("title", picture.title)
        svg.add("desc", picture.description)
        svg.add("rect", **size, fill=PAPER, rx=8.0)
        write_text(svg, _MARGIN, _MARGIN + 16, picture.title, _TITLE, True)
        x = _MARGIN
        for panel, p, width in zip(picture.panels, placed, widths, strict=True):
            width += spare
            write_text(svg, x, _MARGIN + 44, panel.heading, _HEADING, True)
            left = x + _side(panel)
            left += max((width - _side(panel) - p.width) / 2, 0.0)
            _write_panel(svg, panel, p, round(left), top)
            x += width + _BETWEEN_PANELS
        legend.write(svg, _MARGIN, below, inner)
    return svg.written()


def _side(panel: Panel) -> float:
    return _SIDE if panel.once else 0.0


def _write_panel(
    svg: SvgWriter, panel: Panel, placed: Placed, x: float, y: float
) -> None:
    """Write the boxes and arrows of a panel at a place."""
    with svg.inside("g", transform=f"translate({number(x)},{number(y)})"):
        if panel.once and len(placed.layers) > 2:
            _write_sides(svg, panel, placed)
        for box in placed.boxes:
            write_box(svg, box)
        for path in placed.arrows:
            write_arrow(svg, path)
        for back in placed.back_arrows:
            write_back_arrow(svg, *back)


def _write_sides(svg: SvgWriter, panel: Panel, placed: Placed) -> None:
    """Write beside the layers what is done once, and what is done often."""
    border = (placed.layers[1][1] + placed.layers[2][0]) / 2
    svg.add(
        "line", x1=-_SIDE, y1=border, x2=placed.width, y2=border,
        stroke=FILTER_EDGE, stroke_width=1.0, stroke_dasharray="2 3",
    )  # fmt: skip
    for text, begin, end in (
        (panel.once, 0.0, border),
        (panel.often, border, placed.height),
    ):
        middle = number((begin + end) / 2)
        svg.add(
            "text", text, font_family=SANS, font_size=11.0, fill=GREY,
            text_anchor="middle",
            transform=f"translate({number(-_SIDE + 12)},{middle}) rotate(-90)",
        )  # fmt: skip
