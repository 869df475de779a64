"""Places of all that is drawn: boxes with their texts, frames and arrows."""

from dataclasses import dataclass, field

from .box_layout import Point, lay_out
from .boxes import REPEAT, Box, Diagram, TextLine, cells, write_marks

#: Sizes of letters; a letter of a monospace font is as wide as 0.602 of it.
TEXT, SMALL = 12.0, 10.5
_WIDE = 0.61

LINE_HEIGHT, PADDING = 17.0, 8.0
_FOOT_HEIGHT = 14.0
_BETWEEN_COLUMNS = 14.0
_FRAME_SIDE, _FRAME_TOP = 16.0, 30.0

#: Room at the right of a repeated part for the arrow that leads back.
_BACK_ARROW = 18.0


@dataclass(frozen=True)
class PlacedText:
    """A text, by the left end of its base line."""

    x: float
    y: float
    text: str
    role: str  # "text", "plain", "note", "filter", "changed", "marks", "foot"
    width: float


@dataclass(frozen=True)
class PlacedBox:
    """A box with its place on the picture, and the texts in it."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    texts: tuple[PlacedText, ...]


@dataclass
class Placed:
    """All that is drawn of a diagram, relative to its upper left corner.

    Attributes
    ----------
    boxes : list of PlacedBox
        Boxes; a repeated part comes before the boxes in it.
    arrows : list of list of (float, float)
        Points of the arrows.
    back_arrows : list of (float, float, float)
        x, bottom and top of the arrows that lead back to the begin of a
        repeated part.
    """

    boxes: list[PlacedBox] = field(default_factory=list)
    arrows: list[list[Point]] = field(default_factory=list)
    back_arrows: list[tuple[float, float, float]] = field(default_factory=list)
    layers: list[Point] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


def text_width(text: str, size: float = TEXT) -> float:
    """Estimate the width of a text in a monospace font."""
    return cells(text) * size * _WIDE


def place(diagram: Diagram) -> Placed:
    """Find places for a diagram and for the parts that are repeated in it."""
    inner = [
        place(box.inner) if box.inner is not None else None
        for box in diagram.boxes
    ]
    sizes = [
        _size(box, part) for box, part in zip(diagram.boxes, inner, strict=True)
    ]
    layout = lay_out(sizes, diagram.arrows, diagram.lowest or None)
    placed = Placed(
        layers=layout.layers, width=layout.width, height=layout.height
    )
    placed.arrows += layout.paths
    for box, part, (width, height), (x, y) in zip(
        diagram.boxes, inner, sizes, layout.corners, strict=True
    ):
        texts = tuple(_texts(box, x, y, width, height))
        placed.boxes.append(PlacedBox(box, x, y, width, height, texts))
        if part is not None:
            _add(placed, part, x + _FRAME_SIDE, y + _FRAME_TOP)
            right = x + width - _BACK_ARROW / 2 - 4
            placed.back_arrows.append(
                (right, y + height - 10, y + _FRAME_TOP - 6)
            )
    return placed


def _add(placed: Placed, part: Placed, x: float, y: float) -> None:
    """Add the places of a repeated part, moved."""
    for b in part.boxes:
        texts = tuple(
            PlacedText(t.x + x, t.y + y, t.text, t.role, t.width)
            for t in b.texts
        )
        placed.boxes.append(
            PlacedBox(b.box, b.x + x, b.y + y, b.width, b.height, texts)
        )
    for path in part.arrows:
        placed.arrows.append([(px + x, py + y) for px, py in path])
    for bx, low, high in part.back_arrows:
        placed.back_arrows.append((bx + x, low + y, high + y))


def _size(box: Box, part: Placed | None) -> Point:
    """Return the width and the height of a box."""
    if part is not None:
        head = _line_width(box.lines[0]) + text_width(box.foot, SMALL)
        width = max(part.width + _FRAME_SIDE, head + _BETWEEN_COLUMNS)
        width += _FRAME_SIDE + _BACK_ARROW
        return width, part.height + _FRAME_TOP + _FRAME_SIDE
    width = max(map(_line_width, box.lines), default=0.0)
    width = max(width, text_width(box.foot, SMALL)) + 2 * PADDING
    height = len(box.lines) * LINE_HEIGHT + PADDING
    if box.foot:
        height += _FOOT_HEIGHT
    return max(width, 44.0), height


def _line_width(line: TextLine) -> float:
    width = text_width(line.text)
    if line.filter:
        width += text_width(line.filter) + 14
    if line.marks:
        width += text_width(write_marks(line.marks), SMALL) + 18
    if line.note:
        width += text_width(line.note, SMALL) + _BETWEEN_COLUMNS
    return width


def _texts(
    box: Box, x: float, y: float, width: float, height: float
) -> list[PlacedText]:
    """Return the texts of a box at a place."""
    found = []
    left, right = x + PADDING, x + width - PADDING
    base = y + PADDING / 2 + 12.5
    for line in box.lines:
        at = left
        if line.filter:
            wide = text_width(line.filter)
            found.append(PlacedText(at + 4, base, line.filter, "filter", wide))
            at += wide + 14
        if line.text:
            wide = text_width(line.text)
            role = "plain" if line.plain else "text"
            role = "changed" if line.changed else role
            found.append(PlacedText(at, base, line.text, role, wide))
            at += wide
        if line.marks:
            marks = write_marks(line.marks)
            wide = text_width(marks, SMALL)
            found.append(PlacedText(at + 12, base, marks, "marks", wide))
        if line.note:
            wide = text_width(line.note, SMALL)
            found.append(
                PlacedText(right - wide, base, line.note, "note", wide)
            )
        base += LINE_HEIGHT
    if box.foot:
        wide = text_width(box.foot, SMALL)
        if box.kind == REPEAT:
            at = left + _line_width(box.lines[0]) + _BETWEEN_COLUMNS
            base -= LINE_HEIGHT
        else:
            at = right - wide
            base -= 2
        found.append(PlacedText(at, base, box.foot, "foot", wide))
    return found
