"""Blocks of pages that are filled with figures.

A block is the text between ``<!-- figures: NAME -->`` and
``<!-- end figures -->``. Where the first marker ends its line, the block is
lines of its own; else it is a few words within a line.
"""

import re
from collections.abc import Callable, Iterator

START = re.compile(r"<!-- figures: *(?P<name>[^\s>]*) *-->")
END = "<!-- end figures -->"
#: What stands in a block whose section was not collected.
MISSING = "not measured yet: run `make bench`"


def find_blocks(page: str, where: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each block, and where its text begins and ends.

    >>> page = "It takes <!-- figures: a -->1 s<!-- end figures -->."
    >>> [(name, page[i:j]) for name, i, j in find_blocks(page, "page")]
    [('a', '1 s')]
    """
    place = 0
    while True:
        start, end = START.search(page, place), page.find(END, place)
        if start is None:
            if end >= 0:
                raise ValueError(f"{where}: '{END}' ends no block")
            return
        # The end marker, and no other start, comes next.
        end = page.find(END, start.end())
        following = START.search(page, start.end())
        if end < 0 or (following is not None and following.start() < end):
            raise ValueError(
                f"{where}: the block '{start['name']}' does not end: write "
                f"'{END}' behind it"
            )
        if page.find(END, place) < start.start():
            raise ValueError(f"{where}: '{END}' ends no block")
        yield start["name"], start.end(), end
        place = end + len(END)


def fill(page: str, text_of: Callable[[str], str], where: str) -> str:
    """Return the page with the text of every block.

    >>> fill("<!-- figures: a -->\\n<!-- end figures -->", str.upper, "page")
    '<!-- figures: a -->\\n\\nA\\n\\n<!-- end figures -->'
    """
    parts, place = [], 0
    for name, begin, end in find_blocks(page, where):
        text = text_of(name)
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
