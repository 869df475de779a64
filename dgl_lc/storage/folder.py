"""Folders of npy files that are written part by part, or not at all.

While a folder is being written, ``state.json`` says how much of each file
counts; what is behind that is cut off when a killed run is taken up again.
``manifest.json`` comes last and in one step: a folder that has it is whole.
"""

import contextlib
import errno
import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

try:
    import fcntl
except ImportError:  # only on Windows
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"
STATE = "state.json"
#: Bytes before the numbers in our npy files, whatever their shape.
HEADER = 128
_VERSION = 1
#: Bytes that are written, or checked, at a time.
_CHUNK = 1 << 26


class GrowingArray:
    """An npy file that grows by its first axis, with a running CRC-32."""

    def __init__(
        self,
        path: Path,
        dtype: np.dtype,
        columns: int | None = None,
        count: int = 0,
        crc: int = 0,
    ):
        self.path = path
        self.dtype = np.dtype(dtype)
        self.columns = columns
        self.count = count
        self.crc = crc
        size = HEADER + count * self._row_bytes
        if count and (not path.is_file() or path.stat().st_size < size):
            raise DGLError(
                f"{path} is shorter than {STATE} beside it says: the folder "
                f"is damaged. Remove it and begin anew."
            )
        self._file = open(path, "r+b" if count else "w+b", buffering=0)  # noqa: SIM115
        self._file.truncate(size)
        self._file.seek(size)

    @property
    def _row_bytes(self) -> int:
        columns = 1 if self.columns is None else self.columns
        return columns * self.dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        more = () if self.columns is None else (self.columns,)
        return (self.count, *more)

    def append(self, array: np.ndarray) -> None:
        """Write rows behind those that are there."""
        rows = np.ascontiguousarray(array, dtype=self.dtype)
        data = rows.reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), _CHUNK):
            chunk = data[begin : begin + _CHUNK]
            self.crc = zlib.crc32(chunk, self.crc)
            while len(chunk):
                chunk = chunk[self._file.write(chunk) :]
        self.count += len(rows)

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def seal(self) -> None:
        """Write the header, now that the shape is known."""
        self._file.seek(0)
        self._file.write(npy_header(self.dtype, self.shape))
        self._file.seek(0, os.SEEK_END)
        self.sync()

    def close(self) -> None:
        self._file.close()


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of an npy file, of one length for every shape."""
    text = repr(
        {
            "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
            "fortran_order": False,
            "shape": shape,
        }
    )
    room = HEADER - 10
    return (
        b"\x93NUMPY\x01\x00"
        + room.to_bytes(2, "little")
        + text.encode().ljust(room - 1)
        + b"\n"
    )


class Build:
    """A folder being written: arrays that grow, and notes, committed at once.

    Get one from :func:`build`.
    """

    def __init__(self, path: Path, head: dict[str, Any], state: dict[str, Any]):
        self.path = path
        self._head = head
        self._arrays: dict[str, GrowingArray] = {}
        self._counts: dict[str, dict[str, int]] = state.get("files", {})
        self.notes: dict[str, Any] = state.get("notes", {})

    def array(
        self, name: str, dtype: Any, columns: int | None = None
    ) -> GrowingArray:
        """The file of this name, as long as it was at the last commit."""
        if name not in self._arrays:
            self._arrays[name] = GrowingArray(
                self.path / name,
                np.dtype(dtype),
                columns,
                **self._counts.get(name, {}),
            )
        return self._arrays[name]

    def commit(self, **notes: Any) -> None:
        """Keep what has been written so far, whatever happens later."""
        for name, array in self._arrays.items():
            array.sync()
            self._counts[name] = {"count": array.count, "crc": array.crc}
        self.notes |= notes
        write_json(
            self.path / STATE,
            self._head | {"files": self._counts, "notes": self.notes},
        )

    def finish(self, leave: tuple[str, ...] = (), **facts: Any) -> None:
        """Make the folder whole. Files to ``leave`` were for the way only."""
        for name in leave:
            self._arrays.pop(name).close()
        for array in self._arrays.values():
            array.seal()
        files = {
            name: {
                "dtype": np.lib.format.dtype_to_descr(array.dtype),
                "shape": list(array.shape),
                "crc32": array.crc,
            }
            for name, array in sorted(self._arrays.items())
        }
        content = {"format": self._head["format"], **facts, "files": files}
        text = json.dumps(content, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        write_json(
            self.path / MANIFEST,
            self._head | facts | {"files": files, "key": key},
        )
        _tidy(self.path, files)

    def close(self) -> None:
        for array in self._arrays.values():
            array.close()


@contextlib.contextmanager
def build(
    path: Path,
    kind: str,
    made_from: dict[str, Any],
    options: dict[str, Any],
    *,
    resume: bool = True,
) -> Iterator[Build | None]:
    """Write a folder, or go on where a killed run stopped.

    None if the folder is whole already, and was made from the same files
    with the same options; an error if it was made from others. With
    ``resume=False`` it is begun anew.
    """
    head = {
        "format": f"dgl-lc {kind}",
        "version": _VERSION,
        "made_from": made_from,
        "options": options,
    }
    # What json makes of it, to compare it with what is read.
    head = json.loads(json.dumps(head))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DGLError(f"{path} cannot be made a folder: {error}.") from None
    with locked(path):
        found = _found(path, head["format"])
        if found is None or not resume:
            for name in (MANIFEST, STATE):
                (path / name).unlink(missing_ok=True)
            found = {}
        elif different := _differences(found, head):
            raise DGLError(
                f"{path} holds something else: {'; '.join(different)}. Choose "
                f"another folder, or write this one anew with resume=False."
            )
        elif (path / MANIFEST).exists():
            # A run killed between its last two steps leaves something.
            _tidy(path, found["files"])
            yield None
            return
        work = Build(path, head, found)
        try:
            yield work
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise DGLError(
                f"{path}: the disk is full. What was finished is kept: make "
                f"room and run it again."
            ) from error
        finally:
            work.close()


def _tidy(path: Path, files: dict[str, Any]) -> None:
    (path / STATE).unlink(missing_ok=True)
    for file in path.glob("*.npy"):
        if file.name not in files:
            file.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """The folder for one writer; a killed one leaves no lock behind."""
    if fcntl is None:
        yield
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DGLError(
                f"{path} is being written by another process: wait for it, "
                f"or choose another folder."
            ) from None
        if not os.access(path, os.W_OK):
            raise DGLError(f"{path} cannot be written to: it is read-only.")
        yield
    finally:
        os.close(folder)


def _found(path: Path, wanted: str) -> dict[str, Any] | None:
    """What is in the folder: whole, in part, or nothing."""
    for name in (MANIFEST, STATE):
        if (path / name).exists():
            found = read_json(path / name)
            _check_head(found, path / name, wanted)
            return found
    strangers = sorted(file.name for file in path.iterdir() if file.is_file())
    strangers = [name for name in strangers if not name.endswith(".npy")]
    if strangers:
        raise DGLError(
            f"{path} has other files in it, such as {strangers[0]}: choose a "
            f"new folder."
        )
    return None


def _differences(found: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    texts = []
    for part in ("made_from", "options"):
        old, new = found.get(part, {}), asked[part]
        texts += [
            f"it was made with {name}={old.get(name)!r}, asked for is "
            f"{new.get(name)!r}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
    return texts


def read_manifest(path: Path, kind: str, again: str) -> dict[str, Any]:
    """The manifest of a whole folder; files of a wrong size are an error.

    ``again`` says what to run where the folder was not finished.
    """
    if not path.is_dir():
        raise DGLError(f"{path} is not there: write it with {again}.")
    file = path / MANIFEST
    if not file.exists():
        if (path / STATE).exists():
            raise DGLError(
                f"{path} was not finished: run {again} again, with the same "
                f"arguments, and it goes on where it stopped."
            )
        raise DGLError(
            f"{path} has no {MANIFEST}: {again} did not finish it, or it is "
            f"not the folder of a {kind}."
        )
    manifest = read_json(file)
    _check_head(manifest, file, f"dgl-lc {kind}")
    for name, about in manifest["files"].items():
        size = HEADER + _data_bytes(about)
        there = (path / name).stat().st_size if (path / name).exists() else 0
        if there != size:
            raise DGLError(
                f"{path / name} has {there} bytes, wanted are {size}: the "
                f"folder is damaged. Write it anew with {again}."
            )
    return manifest


def _check_head(found: dict[str, Any], file: Path, wanted: str) -> None:
    if found.get("format") != wanted:
        raise DGLError(
            f"{file} says {found.get('format')!r}, wanted is {wanted!r}: this "
            f"is the folder of something else."
        )
    if found.get("version") != _VERSION:
        raise DGLError(
            f"{file} has version {found.get('version')}, this dgl-lc reads "
            f"version {_VERSION}: write the folder anew, or use the dgl-lc "
            f"that wrote it."
        )


def _data_bytes(about: dict[str, Any]) -> int:
    size = np.dtype(about["dtype"]).itemsize
    for length in about["shape"]:
        size *= length
    return size


def map_array(
    path: Path, manifest: dict[str, Any], name: str, mode: str = "r"
) -> np.ndarray:
    """One of a folder's arrays, mapped into memory.

    With mode "c" it may be written to, which stays in memory.
    """
    about = manifest["files"][name]
    shape = tuple(about["shape"])
    if 0 in shape:
        return np.empty(shape, about["dtype"])

    # The header is not looked at: verify does.
    def mapped(mode: Any) -> np.memmap:
        return np.memmap(
            path / name, dtype=about["dtype"], mode=mode, offset=HEADER,
            shape=shape,
        )  # fmt: skip

    return map_within_memory(mapped, mode)


def map_within_memory(
    mapped: Callable[[Any], np.memmap], mode: str
) -> np.memmap:
    """Map a file; one that is larger than memory only to be read.

    With mode "c" what is written stays in memory, and a system may refuse
    to promise so much.
    """
    try:
        return mapped(mode)
    except OSError as error:
        if mode != "c" or error.errno != errno.ENOMEM:
            raise
        return mapped("r")


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """A tensor of an array, which may be read-only."""
    with warnings.catch_warnings():
        # It is never written to here.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(np.asarray(array))


def verify_files(path: Path, manifest: dict[str, Any]) -> None:
    """Read every file and compare its checksum with the manifest's."""
    for name, about in manifest["files"].items():
        crc = 0
        with open(path / name, "rb", buffering=0) as file:
            wanted = npy_header(np.dtype(about["dtype"]), tuple(about["shape"]))
            good = file.read(HEADER) == wanted
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
        if not good or crc != about["crc32"]:
            raise DGLError(
                f"{path / name} is damaged: its "
                f"{'checksum' if good else 'header'} is not that of the "
                f"manifest. Write the folder anew."
            )


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise ValueError("not an object")
        return found
    except (OSError, ValueError) as error:
        raise DGLError(f"{path} cannot be read: {error}.") from None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file in one step."""
    part = path.with_name(f".{path.name}.part")
    with open(part, "w") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    # The new name itself has to reach the disk as well.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
