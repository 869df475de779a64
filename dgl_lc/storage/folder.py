"""Folders that are written part by part, or not at all.

A folder belongs to us if it was empty when we began to write it, or if its
``state.json`` or ``manifest.json`` is ours. Only files that these name are
ever overwritten or deleted; a folder with anything else in it is refused.

While a folder is being written, ``state.json`` names its files and says how
much of each one counts; what lies behind that is cut off when a killed run is
resumed. ``manifest.json`` comes last and in one step: a folder that has it is
whole. It holds the checksums of all files, and a digest of itself.
"""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dgl import DGLError

from .._common.json_files import read_json
from .differences import describe_differences
from .manifest import (
    MANIFEST,
    OLD_FORMATS,
    PLAIN_NAME,
    STATE,
    VERSION,
    FolderKind,
    Manifest,
    check_version,
    read_manifest,
    write_draft,
    write_manifest,
)
from .npy_file import FileEntry, GrowingArray

try:
    import fcntl
except ImportError:  # only on Windows
    fcntl = None  # type: ignore[assignment]

#: Where the state and the manifest are written first.
_DRAFTS = (f".{MANIFEST}.part", f".{STATE}.part")


class HoldsSomethingElse(DGLError):
    """A folder of ours was made from other things, or with other options."""


class Build:
    """A folder being written: arrays that grow, and notes, committed at once.

    Get one from :func:`build`.
    """

    def __init__(
        self,
        path: Path,
        head: dict[str, Any],
        names: Sequence[str],
        state: dict[str, Any],
    ):
        self.path = path
        self._head = head | {"names": list(names)}
        self._arrays: dict[str, GrowingArray] = {}
        self._counts: dict[str, dict[str, Any]] = state.get("files", {})
        self.notes: dict[str, Any] = state.get("notes", {})

    def array(
        self, name: str, dtype: Any, columns: int | None = None
    ) -> GrowingArray:
        """The file of this name, as long as it was at the last commit."""
        if name not in self._head["names"]:
            raise KeyError(
                f"{name} was not announced when the folder was begun"
            )
        if name not in self._arrays:
            before = self._counts.get(name, {})
            self._arrays[name] = GrowingArray(
                self.path / name, dtype, columns, **before
            )
        return self._arrays[name]

    def begin(self) -> None:
        """Claim the folder: from now on the announced files are ours."""
        self._write_state()

    def commit(self, **notes: Any) -> None:
        """Keep what has been written so far, whatever happens later."""
        for name, array in self._arrays.items():
            array.sync()
            self._counts[name] = {
                "count": array.count,
                "checksums": list(array.checksums),
            }
        self.notes |= notes
        self._write_state()

    def _write_state(self) -> None:
        more = {"files": self._counts, "notes": self.notes}
        write_draft(self.path / STATE, self._head | more)

    def finish(self, drop: Sequence[str] = (), **facts: Any) -> None:
        """Make the folder whole. Files to ``drop`` were needed on the way."""
        for name in drop:
            self._arrays.pop(name).close()
        files = {name: array.seal() for name, array in self._arrays.items()}
        head = {k: v for k, v in self._head.items() if k != "names"}
        write_manifest(self.path, head, facts, files)
        _remove_leftovers(self.path, self._head["names"], files)

    def close(self) -> None:
        for array in self._arrays.values():
            array.close()


@contextlib.contextmanager
def build(
    path: Path,
    kind: FolderKind,
    names: Sequence[str],
    made_from: dict[str, Any],
    options: dict[str, Any],
    *,
    resume: bool = True,
) -> Iterator[Build | None]:
    """Write a folder, or resume where a killed run stopped.

    Gives None if the folder is whole already, and was made from the same
    files with the same options; raises if it was made from others. With
    ``resume=False`` what it holds is deleted and written again.
    """
    head = folder_head(kind, made_from=made_from, options=options)
    if resume and find_whole(path, kind, head) is not None:
        yield None
        return
    with locked(path, create=True):
        state = claim(path, kind, names, head, resume)
        if state is None:
            yield None
            return
        work = Build(path, head, names, state)
        with disk_errors(path):
            try:
                work.begin()
                yield work
            finally:
                work.close()


def folder_head(kind: FolderKind, **parts: Any) -> dict[str, Any]:
    """What a state and a manifest begin with, as JSON gives it back."""
    head = {"format": kind.format, "version": VERSION, **parts}
    return json.loads(json.dumps(head))


def is_whole(path: Path) -> bool:
    """Whether a folder was finished, whatever it holds."""
    return (path / MANIFEST).is_file()


def find_whole(
    path: Path, kind: FolderKind, head: dict[str, Any]
) -> Manifest | None:
    """The manifest of a folder that is whole and was made alike.

    Nothing is locked or written: a finished folder may lie on a disk that is
    read-only, and many may read it at once.
    """
    if not is_whole(path):
        return None
    found = read_manifest(path, kind)
    _check_alike(path, found.content, head)
    return found


def check_apart(source: Path, folder: Path) -> None:
    """Refuse to read from a folder that is to be written."""
    if folder.resolve() in source.resolve().parents:
        raise DGLError(
            f"{source} lies in {folder}, which is to be written: choose "
            f"another folder, or move the file out of it."
        )


def check_output(
    path: Path,
    kind: FolderKind,
    names: Sequence[str],
    *,
    resume: bool = False,
) -> None:
    """Refuse a folder that could not be written, before any work.

    A run that resumes does not write to a whole folder, so that other files
    may lie beside ours there.
    """
    if path.exists() and not path.is_dir():
        raise DGLError(f"{path} exists and is not a folder.")
    if path.is_dir():
        found = _read_own(path, kind)
        if resume and (path / MANIFEST).is_file():
            return
        _refuse_strangers(path, kind, {*names, *_names_in(found)}, found)


def claim(
    path: Path,
    kind: FolderKind,
    names: Sequence[str],
    head: dict[str, Any],
    resume: bool,
) -> dict[str, Any] | None:
    """The state to resume from, {} to begin, None if the folder is whole.

    Called with the folder locked. Whatever is deleted was named by our own
    state or manifest.
    """
    found = _read_own(path, kind)
    owned = {*names, *_names_in(found)}
    _refuse_strangers(path, kind, owned, found)
    if found is None:
        return {}
    if not resume or _is_empty(path, kind, found):
        _delete_files(path, kind, found)
        return {}
    if is_whole(path):
        whole = read_manifest(path, kind)
        _check_alike(path, whole.content, head)
        # A run that was killed between its last two steps left something.
        if (path / STATE).is_file():
            _remove_leftovers(path, names, whole.files)
        return None
    check_version(path / STATE, kind, found)
    _check_alike(path, found, head)
    _check_state(path, names, found)
    return found


def _delete_files(path: Path, kind: FolderKind, found: dict[str, Any]) -> None:
    """Delete our files: new ones are never written in the same place.

    A reader that has mapped the old ones keeps them. A state names the files
    until the last one is gone, so that a killed run can begin again.
    """
    names = sorted(_names_in(found) | _names_in(_read_state(path, kind)))
    # A full disk is no reason to keep what may be deleted.
    with contextlib.suppress(OSError):
        empty = {"names": names, "files": {}, "notes": {}}
        write_draft(path / STATE, folder_head(kind) | empty)
    for name in (MANIFEST, *names, STATE):
        (path / name).unlink(missing_ok=True)


def discard(path: Path, kind: FolderKind, names: Sequence[str] = ()) -> None:
    """Delete the files of a folder that our own state or manifest names.

    Files of these ``names``, which a run that was killed at its end may have
    left, are deleted too. The folder itself goes too if it is empty then. A
    folder with anything else in it is refused; one that does not exist is
    fine.
    """
    if not path.is_dir():
        return
    with locked(path), disk_errors(path):
        found = _read_own(path, kind)
        owned = {*_names_in(found), *names}
        _refuse_strangers(path, kind, owned, found)
        if found is not None:
            # Before the state, without which they would not be ours.
            for name in names:
                (path / name).unlink(missing_ok=True)
        claim(path, kind, sorted(owned), {}, resume=False)
        for draft in _DRAFTS:
            (path / draft).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.rmdir()


def _is_empty(path: Path, kind: FolderKind, found: dict[str, Any]) -> bool:
    """Whether a run was begun here and nothing of it was finished."""
    notes = found.get("notes")
    done = isinstance(notes, dict) and notes.get("done")
    if (path / MANIFEST).exists() or found.get("files") or done:
        return False
    # What other processes have finished: the state of this folder does not
    # know it.
    return not any(
        is_whole(part)
        for name in kind.subfolders
        if (path / name).is_dir()
        for part in (path / name).iterdir()
    )


def _read_own(path: Path, kind: FolderKind) -> dict[str, Any] | None:
    """Our manifest or state, if the folder has one."""
    for name in (MANIFEST, STATE):
        if (path / name).exists():
            found = read_json(path / name)
            if found.get("format") not in (kind.format, *OLD_FORMATS):
                raise DGLError(
                    f"{path / name} is that of {found.get('format')!r}, not "
                    f"of {kind.format!r}: choose another folder."
                )
            return found
    return None


def _read_state(path: Path, kind: FolderKind) -> dict[str, Any] | None:
    """Our state, which a run that was killed at its end left.

    It names files that were needed on the way, which the manifest does not.
    """
    if (path / STATE).is_file():
        with contextlib.suppress(DGLError):
            found = read_json(path / STATE)
            return found if found.get("format") == kind.format else None
    return None


def _names_in(found: dict[str, Any] | None) -> set[str]:
    """The files that our own state or manifest names."""
    names: set[Any] = set()
    for part in ("names", "files"):
        listed = (found or {}).get(part, ())
        if isinstance(listed, (list, dict)):
            names |= {name for name in listed if isinstance(name, str)}
    return {name for name in names if PLAIN_NAME.fullmatch(name)}


def _refuse_strangers(
    path: Path,
    kind: FolderKind,
    owned: set[str],
    found: dict[str, Any] | None,
) -> None:
    known: set[str] = set(kind.subfolders)
    if found is not None:
        known |= {MANIFEST, STATE, *_DRAFTS, *owned}
    for entry in sorted(os.listdir(path)):
        if entry not in known and not _is_draft(path / entry):
            raise DGLError(
                f"{path} holds {entry!r}, which dgl-lc did not write there: "
                f"choose a folder that is new or empty."
            )


def _is_draft(path: Path) -> bool:
    """Whether this is the first state of a run that was killed at once."""
    if path.name not in _DRAFTS or path.is_symlink() or not path.is_file():
        return False
    begin = b'{\n "format": "dgl-lc '
    with open(path, "rb") as file:
        return begin.startswith(file.read(len(begin)))


def _check_alike(
    path: Path, found: dict[str, Any], head: dict[str, Any]
) -> None:
    texts: list[str] = []
    for part, new in head.items():
        old = found.get(part)
        are_parts = isinstance(old, dict) and isinstance(new, dict)
        texts += describe_differences(old, new, "" if are_parts else part)
    if texts:
        # A file may have several of the parts.
        text = "; ".join(dict.fromkeys(texts))
        raise HoldsSomethingElse(
            f"{path} holds something else: {text}. Choose another "
            f"folder, or write this one again with resume=False."
        )


def _check_state(
    path: Path, names: Sequence[str], state: dict[str, Any]
) -> None:
    """Whether a state can be resumed from."""
    files = state.get("files")
    good = isinstance(files, dict) and isinstance(state.get("notes"), dict)
    good = good and state.get("names") == list(names)
    if not (good and all(map(_is_progress, (files or {}).values()))):
        raise DGLError(
            f"{path / STATE} is damaged: write the folder again with "
            f"resume=False."
        )


def _is_progress(about: Any) -> bool:
    """Whether a state says this of a file that is being written."""
    match about:
        case {"count": count, "checksums": [*checksums], **rest} if not rest:
            return all(type(n) is int and n >= 0 for n in (count, *checksums))
    return False


def _remove_leftovers(
    path: Path, names: Sequence[str], files: dict[str, FileEntry]
) -> None:
    """Delete what was needed on the way; it does not matter if that fails."""
    with contextlib.suppress(OSError):
        for name in names:
            if name not in files:
                (path / name).unlink(missing_ok=True)
        (path / STATE).unlink(missing_ok=True)


def remove_folder(path: Path, kind: FolderKind) -> None:
    """Delete a folder of ours; files that others put there stay."""
    with locked(path):
        found = _read_own(path, kind)
        for draft in _DRAFTS:
            (path / draft).unlink(missing_ok=True)
        if found is not None:
            _delete_files(path, kind, found)
        with contextlib.suppress(OSError):
            path.rmdir()


@contextlib.contextmanager
def locked(path: Path, create: bool = False) -> Iterator[None]:
    """The folder for one writer; a killed one leaves no lock behind."""
    try:
        if create:
            path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY) if fcntl else -1
    except OSError as error:
        raise DGLError(
            f"{path} cannot be made a folder: {error.strerror}."
        ) from None
    try:
        if fcntl is not None:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DGLError(
                    f"{path} is being written by another process: wait for "
                    f"it, or choose another folder."
                ) from None
        if not os.access(path, os.W_OK):
            raise DGLError(f"{path} cannot be written to: it is read-only.")
        yield
    finally:
        if fcntl is not None:
            os.close(folder)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Errors of the disk, as ours."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DGLError(
                f"{path}: the disk is full. What was finished is kept: make "
                f"room and run it again."
            ) from error
        raise DGLError(
            f"{path} cannot be written: {error}. What was finished is kept."
        ) from error
