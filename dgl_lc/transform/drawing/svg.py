"""Writing SVG: elements with escaped text, one to a line.

Colours and fonts are attributes of elements. A style sheet would act on the
whole page of a notebook.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

#: Characters that XML does not allow, not even escaped.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def escape(text: str) -> str:
    """Write a text so that XML reads it as text.

    >>> escape('<a href="x">')
    '&lt;a href=&quot;x&quot;&gt;'
    """
    text = _FORBIDDEN.sub("\ufffd", text)
    for plain, written in (
        ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"),
        ("'", "&#39;"),
    ):  # fmt: skip
        text = text.replace(plain, written)
    return text


class SvgWriter:
    """Collects the elements of a picture."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(
        self, name: str, text: str | None = None, **attributes: object
    ) -> None:
        """Add an element: ``add("rect", x=1, y=2, stroke_width=1)``."""
        head = self._head(name, attributes)
        if text is None:
            self._put(f"<{head}/>")
        else:
            self._put(f"<{head}>{escape(text)}</{name}>")

    @contextmanager
    def inside(self, name: str, **attributes: object) -> Iterator[None]:
        """Add an element around those that are added in a with statement."""
        self._put(f"<{self._head(name, attributes)}>")
        self._depth += 1
        yield
        self._depth -= 1
        self._put(f"</{name}>")

    def written(self) -> str:
        """Return all elements as text."""
        return "\n".join(self._lines) + "\n"

    def _put(self, line: str) -> None:
        self._lines.append("  " * self._depth + line)

    @staticmethod
    def _head(name: str, attributes: dict[str, object]) -> str:
        parts = [name]
        for key, value in attributes.items():
            written = number(value) if isinstance(value, float) else str(value)
            parts.append(f'{key.replace("_", "-")}="{escape(written)}"')
        return " ".join(parts)


def number(value: float) -> str:
    """Write a number with at most one decimal.

    >>> number(3.0), number(2.26), number(-0.01)
    ('3', '2.3', '0')
    """
    written = f"{value:.1f}".removesuffix(".0")
    return "0" if written == "-0" else written


def path_of(points: list[tuple[float, float]]) -> str:
    """Write the path of an arrow: straight down, and bent to another x."""
    x, y = points[0]
    parts = [f"M{number(x)},{number(y)}"]
    for next_x, next_y in points[1:]:
        if (next_x, next_y) == (x, y):
            continue
        if next_x == x:
            parts.append(f"V{number(next_y)}")
        else:
            middle = number((y + next_y) / 2)
            parts.append(
                f"C{number(x)},{middle} {number(next_x)},{middle} "
                f"{number(next_x)},{number(next_y)}"
            )
        x, y = next_x, next_y
    return " ".join(parts)
