"""JSON files: objects that are read with care and replaced in one step."""

import json
from pathlib import Path
from typing import Any, BinaryIO

from dgl import DGLError

from .file_access import open_regular, replace_file, write_all

#: A larger file is not one of ours.
_MOST_BYTES = 1 << 28


def read_json(path: Path) -> dict[str, Any]:
    """Read an object; anything else is an error that names the file."""
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too large")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("it does not hold an object")
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise DGLError(f"{path} cannot be read: {error}.") from None


def write_json(
    path: Path, content: dict[str, Any], temporary: Path | None = None
) -> None:
    """Replace a file in one step (see :func:`.file_access.replace_file`)."""
    text = json.dumps(content, indent=1) + "\n"

    def write(file: BinaryIO) -> None:
        write_all(file, text.encode())

    replace_file(path, write, temporary)
