"""What a folder on disk holds: comparing two of them, and crafting one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..storage.manifest import MANIFEST, _sha256

#: What a manifest says of the files themselves, not of their content.
_OF_THE_FILE = ("size", "mtime_ns", "inode")


def folder_content(path: Path) -> dict[str, Any]:
    """The content of every file below a folder, by its relative path.

    Of a manifest everything but the inodes and times of files, and the
    digest over these.
    """
    found: dict[str, Any] = {}
    for file in sorted(path.rglob("*")):
        if not file.is_file():
            continue
        name = str(file.relative_to(path))
        if file.name != MANIFEST:
            found[name] = file.read_bytes()
            continue
        manifest = json.loads(file.read_text())
        del manifest["digest"]
        for about in manifest["files"].values():
            for key in _OF_THE_FILE:
                del about[key]
        found[name] = manifest
    return found


def edit_manifest(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    """Change a manifest, and its digest with it: a folder that is crafted."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    del manifest["digest"]
    manifest["digest"] = _sha256(manifest)
    path.write_text(json.dumps(manifest))
