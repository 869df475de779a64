"""The parts of a hop store that ranks write, in its subfolder ``parts``.

Each is a store of its own: some of the columns, at all rows or at those of
one edge shard.
"""

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from .folder import remove_folder
from .hop_store import KIND, PARTS

_NAME = re.compile(r"columns-(\d+)-(\d+)(?:-rows-(\d+)-of-(\d+))?")


def part_folder(
    store: Path, first: int, last: int, shard: int, shards: int
) -> Path:
    """Give the folder of a part: columns first to last, and an edge shard."""
    name = f"columns-{first}-{last}"
    if shards > 1:
        name += f"-rows-{shard}-of-{shards}"
    return store / PARTS / name


def part_columns(store: Path, shards: int) -> list[tuple[int, int]]:
    """List the columns of the parts that are of so many edge shards."""
    found = []
    for name in _names(store):
        match = _NAME.fullmatch(name)
        assert match is not None
        first, last, _, count = (int(group or 0) for group in match.groups())
        if (count or 1) == shards and first < last:
            found.append((first, last))
    return found


def remove_parts(
    store: Path, chosen: Callable[[str], bool] = lambda name: True
) -> None:
    """Delete the parts with these names; the subfolder too if it is empty."""
    for name in _names(store):
        if chosen(name):
            remove_folder(store / PARTS / name, KIND)
    with contextlib.suppress(OSError):
        (store / PARTS).rmdir()


def _names(store: Path) -> list[str]:
    folder = store / PARTS
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [name for name in names if _NAME.fullmatch(name)]
