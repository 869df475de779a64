"""Manifests: what a whole folder says of itself, and whether that is true.

A manifest holds the type, shape and checksums of every file, and a digest of
itself. It is written last and in one step.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgl import DGLError

from .._common.json_files import read_json, write_json
from .npy_file import FileEntry, check_size, is_unchanged, verify_file

MANIFEST = "manifest.json"
STATE = "state.json"
VERSION = 2
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
#: How version 1 of a hop store named itself.
OLD_FORMATS = (1,)


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder.

    Attributes
    ----------
    name : str
        Such as "graph".
    maker : str
        The function that writes such a folder.
    subfolders : tuple of str
        Folders of other kinds that may lie in it.
    """

    name: str
    maker: str
    subfolders: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        return f"dgl-lc {self.name}"


@dataclass(frozen=True)
class Manifest:
    """What a whole folder says of itself.

    Attributes
    ----------
    content : dict
        The file, as it was read.
    files : dict
        The npy files by their names.
    key : str
        Stands for the content of the folder: equal content has equal keys.
    """

    content: dict[str, Any]
    files: dict[str, FileEntry]
    key: str

    def __getitem__(self, name: str) -> Any:
        return self.content[name]


def check_version(file: Path, kind: FolderKind, found: dict[str, Any]) -> None:
    """Refuse a folder of another version, and say how to have a new one."""
    if found.get("format") != kind.format:
        if found.get("format") not in OLD_FORMATS:
            raise DGLError(
                f"{file} is that of {found.get('format')!r}, not of "
                f"{kind.format!r}: this is the folder of something else."
            )
        version: Any = 1
    else:
        version = found.get("version")
    if version != VERSION:
        raise DGLError(
            f"{file} has version {version}, and this dgl-lc reads version "
            f"{VERSION}: write the folder again with {kind.maker} and "
            f"resume=False."
        )


def write_draft(path: Path, content: dict[str, Any]) -> None:
    """Replace a state or manifest of a folder that is locked."""
    write_json(path, content, path.with_name(f".{path.name}.part"))


def write_manifest(
    path: Path,
    head: dict[str, Any],
    facts: dict[str, Any],
    files: dict[str, FileEntry],
) -> None:
    """Make a folder whole."""
    facts = json.loads(json.dumps(facts))
    contents = {name: files[name].content() for name in sorted(files)}
    text = {"format": head["format"], **facts, "files": contents}
    listed = {name: files[name].to_json() for name in sorted(files)}
    content = head | facts | {"files": listed, "key": _sha256(text)}
    content["digest"] = _sha256(content)
    write_draft(path / MANIFEST, content)


def _sha256(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_manifest(path: Path, kind: FolderKind) -> Manifest:
    """The manifest of a whole folder; files of a wrong size are an error."""
    file = path / MANIFEST
    if path.exists() and not path.is_dir():
        raise DGLError(f"{path} is a file, not the folder of a {kind.name}.")
    if not path.is_dir():
        raise DGLError(f"{path} does not exist: write it with {kind.maker}.")
    if not file.exists():
        if (path / STATE).exists():
            raise DGLError(
                f"{path} was not finished: call {kind.maker} again, with the "
                f"same arguments, and it resumes where it stopped."
            )
        raise DGLError(
            f"{path} has no {MANIFEST}: it is not the folder of a "
            f"{kind.name}, or {kind.maker} did not finish it."
        )
    content = read_json(file)
    check_version(file, kind, content)
    without = {k: v for k, v in content.items() if k != "digest"}
    if content.get("digest") != _sha256(without):
        raise DGLError(
            f"{file} is damaged: its digest is not that of its content. Write "
            f"the folder again with {kind.maker} and resume=False."
        )
    if not isinstance(content.get("files"), dict):
        raise DGLError(f"{file} names no files: write the folder again.")
    if not isinstance(content.get("key"), str):
        raise DGLError(f"{file} has no key: write the folder again.")
    files = {}
    for name, about in content["files"].items():
        try:
            if not PLAIN_NAME.fullmatch(name):
                raise ValueError("its name is not that of a file")
            files[name] = FileEntry.from_json(about)
        except ValueError as error:
            raise DGLError(f"{file}: {name!r}: {error}.") from None
        check_size(path / name, files[name])
    return Manifest(content, files, content["key"])


def check_outside(path: Path) -> None:
    """Refuse a file of the user's that would lie in a folder of ours.

    Such a folder is refused later, because of what is strange in it. Results
    of a task may lie beside it.
    """
    for name in (MANIFEST, STATE):
        file = path.absolute().parent / name
        if not file.is_file():
            continue
        try:
            found = str(read_json(file).get("format"))
        except DGLError:
            continue
        if found.startswith("dgl-lc ") and found != "dgl-lc task":
            raise DGLError(
                f"{path} would lie in the folder of a {found}, which holds "
                f"nothing else: name a file in another folder."
            )


def expect_files(
    path: Path,
    manifest: Manifest,
    expected: Mapping[str, tuple[str, tuple[int, ...]]],
    without_checksums: str | None = None,
) -> None:
    """Refuse a manifest whose files are not of these types and shapes.

    All of them have checksums, except one whose rows are checked otherwise.
    """
    for name, entry in manifest.files.items():
        if entry.checksums is None and name != without_checksums:
            raise DGLError(
                f"{path / MANIFEST} has no checksums of {name}: write the "
                f"folder again."
            )
    found = {
        name: (entry.dtype.str, entry.shape)
        for name, entry in manifest.files.items()
    }
    if found != dict(expected):
        wrong = sorted(
            name
            for name in {*found, *expected}
            if found.get(name) != expected.get(name)
        )
        raise DGLError(
            f"{path / MANIFEST} contradicts itself: {wrong[0]} is "
            f"{found.get(wrong[0])}, and {expected.get(wrong[0])} follows "
            f"from the rest. Write the folder again."
        )


def check_unchanged(path: Path, manifest: Manifest) -> None:
    """Whether the files are still what the manifest's key stands for.

    Those that nobody has written to since are taken to be. Others, such as
    copies, are read whole.
    """
    for name, entry in manifest.files.items():
        if not is_unchanged(path / name, entry):
            verify_file(path / name, entry)


def verify_files(path: Path, manifest: Manifest) -> None:
    """Read every file; an error names one that is not as it was written."""
    for name, entry in manifest.files.items():
        verify_file(path / name, entry)
