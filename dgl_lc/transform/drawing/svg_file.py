"""Files of pictures: written in one step, and never over a user's file."""

import hashlib
import os
import re
from pathlib import Path
from typing import BinaryIO

from dgl import DGLError

from ..._common.file_access import open_regular, replace_file, write_all

#: The first line of a file says that it is ours, and what the rest is.
_FIRST_LINE = re.compile(
    rb"<!-- Drawn by dgl-lc; sha256 of the rest: ([0-9a-f]{64}) -->"
)

#: A larger file is not read.
_MOST_BYTES = 1 << 28


def write_svg(path: str | os.PathLike, svg: str) -> Path:
    """Write a picture to a file whose name ends in ``.svg``.

    A file that dgl-lc drew, and nobody changed since, is replaced. Any other
    file is an error.
    """
    target = Path(path)
    if target.suffix.lower() != ".svg":
        raise DGLError(
            f"draw writes SVG files, and {str(path)!r} does not end in .svg. "
            f"Give a name such as 'model.svg'; a browser or Inkscape turns "
            f"the file into other formats."
        )
    if not target.parent.is_dir():
        raise DGLError(
            f"{target} can't be written: {target.parent} is not a folder. "
            f"Make the folder first."
        )
    if os.path.lexists(target) and not _is_ours(target):
        raise DGLError(
            f"{target} exists, and is not a picture as dgl-lc drew it. Give "
            f"another name, or delete it first."
        )
    content = svg.encode()
    digest = hashlib.sha256(content).hexdigest()
    line = f"<!-- Drawn by dgl-lc; sha256 of the rest: {digest} -->\n"

    def write(file: BinaryIO) -> None:
        write_all(file, line.encode() + content)

    try:
        replace_file(target, write)
    except OSError as error:
        raise DGLError(
            f"{target} can't be written ({error.strerror or error}). Give a "
            f"path in a folder that you may write to."
        ) from error
    return target


def _is_ours(path: Path) -> bool:
    """Return whether a file is a picture of ours, unchanged."""
    if path.is_symlink() or not path.is_file():
        return False
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            return False
        line, _, rest = file.read().partition(b"\n")
    found = _FIRST_LINE.fullmatch(line)
    if found is None:
        return False
    return hashlib.sha256(rest).hexdigest().encode() == found[1]
