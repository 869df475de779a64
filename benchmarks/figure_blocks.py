"""Blocks of pages that are filled with figures.

A block is the text between ``<!-- figures: NAME -->`` and
``<!-- end figures -->``. Where the first marker ends its line, the block is
lines of its own; else it is a few words within a line.
"""

import re
from collections.abc import Callable, Iterator

START = re.compile(r"<!-- figures: *(?P<name>[^\s>]*) *-->")
END = re.compile(r"<!-- end figures -->")
#: Markers in backticks are text about markers.
CODE = re.compile(r"`[^`\n]+`")
#: What stands in a block whose section was not collected.
MISSING = "not measured yet: run `make bench`"


def find_blocks(page: str, where: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each block, and where its text begins and ends.

    >>> page = "It takes <!-- figures: a -->1 s<!-- end figures -->."
    >>> [(name, page[i:j]) for name, i, j in find_blocks(page, "page")]
    [('a', '1 s')]
    """
    open_block: re.Match | None = None
    code = [span.span() for span in CODE.finditer(page)]
    marks = [
        mark for mark in (*START.finditer(page), *END.finditer(page))
        if not any(a < mark.start() < b for a, b in code)
    ]  # fmt: skip
    for mark in sorted(marks, key=lambda m: m.start()):
        starts = mark.re is START
        if starts is not (open_block is None):
            break
        if open_block is not None:
            yield open_block["name"], open_block.end(), mark.start()
        open_block = mark if starts else None
    else:
        if open_block is None:
            return
    if open_block is not None:
        raise ValueError(
            f"{where}: the block '{open_block['name']}' does not end: write "
            f"'<!-- end figures -->' behind it"
        )
    raise ValueError(f"{where}: '<!-- end figures -->' ends no block")


def fill(page: str, text_of: Callable[[str], str | None], where: str) -> str:
    """Return the page with the text of every block.

    Where the text is None, a block stays as it is; an empty one says that
    nothing was measured yet.

    >>> fill("<!-- figures: a -->\\n<!-- end figures -->", str.upper, "page")
    '<!-- figures: a -->\\n\\nA\\n\\n<!-- end figures -->'
    """
    parts, place = [], 0
    for name, begin, end in find_blocks(page, where):
        text = text_of(name)
        if text is None and page[begin:end].strip():
            continue
        text = MISSING if text is None else text
        if page[begin : begin + 1] == "\n":
            # Markdown reads a table only after an empty line.
            text = f"\n\n{text}\n\n"
        elif "\n" in text:
            raise ValueError(
                f"{where}: the block '{name}' has several lines: its marker "
                f"has to end its line"
            )
        parts += [page[place:begin], text]
        place = end
    return "".join([*parts, page[place:]])
