"""Hop features on disk.

A store is a folder of plain npy files: ``rows.npy`` of shape (rows, hops,
columns), so that all hops of a node are in one place; ``sums.npy``, a check
sum for each row; ``nodes.npy``, where not all nodes have a row; and
``manifest.json``, written last. While it is being made, ``state.json`` says
how many columns are there: they are written block by block, and a run that
was killed goes on after the last whole one.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from dgl import DGLError

from ..hops import FilterSpec, HopFeatures
from .disk_folder import (
    locked,
    map_within_memory,
    read_json,
    tensor_of,
    write_json,
)
from .inputs import KINDS
from .kernels.sums import add_sums, factors
from .memory import format_bytes
from .rows import COPY_ROWS
from .threads import ranges, run_parallel

FORMAT = 1
_TORCH = {name: dtype for dtype, name in KINDS.items()}
#: NumPy has no bfloat16: its bits are stored.
_NUMPY = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16,
    "bfloat16": np.int16,
}  # fmt: skip
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
#: Room that is left on a disk.
_SPARE = 1 << 26


class StoredHops(HopFeatures):
    """Hop features that are read from disk, row by row as they are asked for.

    Every row that :meth:`take` (a loader's batch) reads is compared with its
    check sum. Single hops, ``hops[k]``, are memory maps and are not.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]):
        self.folder = folder
        kind = manifest["dtype"]
        array = _map(folder / "rows.npy", "c")
        shape = (
            manifest["rows"], len(manifest["hops"]), manifest["columns"]
        )  # fmt: skip
        if array.shape != shape or array.dtype != _NUMPY[kind]:
            raise DGLError(
                f"{folder / 'rows.npy'} is {array.dtype} of shape "
                f"{array.shape}, but the manifest says {kind} of {shape}: the "
                f"store is broken. Remove it and precompute again."
            )
        tensor = tensor_of(array).view(_TORCH[kind])
        self._array = array
        self._cold = array.nbytes > psutil.virtual_memory().available // 2
        self._sums = _map(folder / "sums.npy", "r")
        self._factors = factors(shape[1] * shape[2]).reshape(shape[1:])
        nodes = None
        if manifest["some_nodes"]:
            nodes = torch.from_numpy(_map(folder / "nodes.npy", "c"))
        super().__init__(
            list(tensor.unbind(1)), manifest["hops"],
            FilterSpec(**manifest["filter"]), nodes,
        )  # fmt: skip

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows into memory by their places, and check them."""
        found: HopFeatures = super().take(places, nodes, out)
        bits = _bits(found.stack).reshape(len(self), len(places), -1)
        wanted = self._sums[places.numpy()]
        sums = np.zeros(len(places), np.uint64)
        for hop in range(len(self)):
            add_sums(bits[hop], self._factors[hop], sums)
        wrong = np.flatnonzero(sums != wanted)
        if len(wrong):
            raise _broken(self.folder, int(nodes[int(wrong[0])]), len(wrong))
        return found

    def prefetch(self, places: torch.Tensor) -> None:
        """Ask the disk for rows that are wanted soon.

        Without it rows that are not in memory are read one after the other.
        Nothing is done where the whole store may be in memory anyway.
        """
        if not self._cold or not hasattr(os, "posix_fadvise"):
            return
        row = self._array[:1].nbytes
        with open(self.folder / "rows.npy", "rb") as file:
            for place in places.sort().values.tolist():
                os.posix_fadvise(
                    file.fileno(), self._array.offset + place * row, row,
                    os.POSIX_FADV_WILLNEED,
                )  # fmt: skip

    def verify(self, progress: bool | None = None) -> None:
        """Compare all rows with their check sums, on all threads."""
        from tqdm.auto import tqdm

        bits = self._array.view(_BITS[self._array.itemsize])
        parts = ranges(len(bits), -(-len(bits) // COPY_ROWS))
        wrong: list[int] = []
        keys = self._factors.reshape(-1)
        with tqdm(
            total=self._array.nbytes, desc="verify", unit="B",
            unit_scale=True, disable=None if progress is None else not progress,
        ) as bar:  # fmt: skip

            def check(_, part):
                first, last = parts[part]
                rows = bits[first:last].reshape(last - first, -1)
                sums = np.zeros(len(rows), np.uint64)
                add_sums(rows, keys, sums)
                found = np.flatnonzero(sums != self._sums[first:last])
                wrong.extend((first + found).tolist())
                bar.update(rows.nbytes)

            run_parallel(check, len(parts))
        if wrong:
            first = min(wrong)
            node = first if self.nodes is None else int(self.nodes[first])
            raise _broken(self.folder, node, len(wrong))

    def __repr__(self) -> str:
        return (
            f"StoredHops({str(self.folder)!r}, hops={self.hops}, "
            f"rows={self.shape[0]}, columns={self.shape[1]}, "
            f"dtype={self.dtype})"
        )


def open_store(path: str | os.PathLike) -> StoredHops:
    """Hop features from a store, memory-mapped.

    Parameters
    ----------
    path : path
        The folder that was given as ``out`` to
        :func:`dgl_lc.block_aggregate`.

    Examples
    --------
    >>> import dgl, tempfile, torch
    >>> from dgl_lc.precompute import block_aggregate, open_store
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/hops"
    ...     _ = block_aggregate(g, torch.eye(3), K=2, out=path)
    ...     open_store(path).rows(torch.tensor([2]))
    HopFeatures(hops=[0, 1, 2], rows=1, columns=3, dtype=torch.float32)
    """
    folder = Path(path)
    return StoredHops(folder, read_manifest(folder))


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a finished store says of itself."""
    if not (folder / "manifest.json").is_file():
        if (folder / "state.json").is_file():
            raise DGLError(
                f"{folder} is not finished: run the same precomputation again "
                f"with out={str(folder)!r}, and it goes on where it was."
            )
        raise DGLError(f"{folder} is not a hop store: it has no manifest.json.")
    manifest = read_json(folder / "manifest.json")
    if manifest.get("format") != FORMAT:
        raise DGLError(
            f"{folder} has format {manifest.get('format')!r}; this version "
            f"reads format {FORMAT}. Precompute it again."
        )
    return manifest


class StoreWriter:
    """Makes a store, column block by column block.

    ``done`` columns are there, from an earlier run; ``finished`` says that
    nothing is left to do.

    Parameters
    ----------
    key : dict
        What the hop features are made of: graph, features, filter, nodes.
        A store of another key is an error, never overwritten.
    resume : bool
        Go on with an unfinished store of the same key; otherwise it is an
        error.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        key: dict[str, Any],
        *,
        rows: int,
        hops: Sequence[int],
        columns: int,
        kind: str,
        spec: FilterSpec,
        nodes: torch.Tensor | None,
        resume: bool = True,
    ):
        self.folder = Path(path)
        self._manifest: dict[str, Any] = {
            "format": FORMAT, "rows": rows, "hops": list(hops),
            "columns": columns, "dtype": kind, "filter": vars(spec),
            "some_nodes": nodes is not None, "key": key,
        }  # fmt: skip
        self._nodes, self._resume = nodes, resume
        self.done = 0
        self.finished = False
        self._sums = np.zeros(0, np.uint64)
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> "StoreWriter":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DGLError(f"out={str(self.folder)!r}: {error}.") from None
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked(self.folder))
            self._begin()
            self._lock = stack.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._lock.close()

    def _begin(self) -> None:
        manifest, state = (
            self.folder / name for name in ("manifest.json", "state.json")
        )
        if manifest.is_file():
            self._compare(read_manifest(self.folder))
            self.finished = True
            return
        if state.is_file():
            before = read_json(state)
            self._compare(before["manifest"])
            if not self._resume:
                raise DGLError(
                    f"{self.folder} has an unfinished store: leave resume=True "
                    f"to go on, or remove the folder."
                )
            self.done = before["done"]
            self._sums = np.array(_map(self._sums_file(self.done), "r"))
        else:
            strange = [f.name for f in self.folder.iterdir()]
            known = {"rows.npy", "sums-0.npy", "nodes.npy"}
            if set(strange) - known:
                raise DGLError(
                    f"out={str(self.folder)!r} has other files in it "
                    f"({sorted(set(strange) - known)[0]}): give a new folder."
                )
            self._create()
        self._rows = _map(self.folder / "rows.npy", "r+")

    def _compare(self, before: dict[str, Any]) -> None:
        """An error if a store of other things is there."""
        for name, wanted in self._manifest.items():
            found = before.get(name)
            if found == wanted:
                continue
            if isinstance(wanted, dict) and isinstance(found, dict):
                name = next(k for k in wanted if found.get(k) != wanted[k])
                found, wanted = found.get(name), wanted[name]
            raise DGLError(
                f"{self.folder} is a store of something else: its {name} is "
                f"{found!r}, wanted is {wanted!r}. Give another out=, or "
                f"remove the folder."
            )

    def _create(self) -> None:
        manifest = self._manifest
        shape = (
            manifest["rows"], len(manifest["hops"]), manifest["columns"]
        )  # fmt: skip
        dtype = np.dtype(_NUMPY[manifest["dtype"]])
        size = int(np.prod(shape)) * dtype.itemsize
        # Sums are written anew before the old ones are removed.
        needed = size + (24 if self._nodes is not None else 16) * shape[0]
        there = self.folder / "rows.npy"
        free = shutil.disk_usage(self.folder).free
        free += there.stat().st_size if there.is_file() else 0
        if needed + _SPARE > free:
            raise DGLError(
                f"out={str(self.folder)!r}: the hop features take "
                f"{format_bytes(needed)}, and {format_bytes(free)} of disk "
                f"are free. Give another disk, fewer nodes= or hops=, or a "
                f"smaller dtype=."
            )
        self._sums = np.zeros(shape[0], np.uint64)
        with self._on_disk():
            if self._nodes is not None:
                _save(self.folder / "nodes.npy", self._nodes.numpy())
            array = np.lib.format.open_memmap(
                there, mode="w+", dtype=dtype, shape=shape
            )
            offset = array.offset
            del array
            # All of it now: a memory map on a full disk kills the process.
            with open(there, "r+b") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, offset + size)
            self._commit(0)

    def keep(
        self,
        hop: int,
        first: int,
        values: torch.Tensor,
        places: torch.Tensor | None,
    ) -> None:
        """Write a hop's columns, from ``first`` on, of all or some rows."""
        number = self._manifest["hops"].index(hop)
        last = first + values.shape[1]
        columns = self._manifest["columns"]
        begin = number * columns + first
        keys = factors(begin + values.shape[1])[begin:]
        rows, count = self._rows, len(self._sums)
        parts = ranges(count, max(1, -(-count // COPY_ROWS)))

        def write(_, part):
            low, high = parts[part]
            if places is None:
                piece = values[low:high]
            else:
                piece = values.index_select(0, places[low:high])
            bits = _bits(piece)
            add_sums(bits, keys, self._new_sums[low:high])
            rows[low:high, number, first:last] = bits.view(rows.dtype)

        run_parallel(write, len(parts))

    @contextlib.contextmanager
    def columns(self, last: int) -> Iterator[None]:
        """Within, columns up to ``last`` are kept; at the end they are
        committed. If anything fails, they are as if never written."""
        self._new_sums = self._sums.copy()
        yield
        with self._on_disk():
            self._rows.flush()
            self._sums = self._new_sums
            self._commit(last)

    def finish(self) -> None:
        """Write the manifest: the store is complete."""
        with self._on_disk():
            self._rows.flush()
            _save(self.folder / "sums.npy", self._sums)
            write_json(self.folder / "manifest.json", self._manifest)
        (self.folder / "state.json").unlink(missing_ok=True)
        self._sums_file(self.done).unlink(missing_ok=True)

    def _commit(self, done: int) -> None:
        before = self.done
        _save(self._sums_file(done), self._sums)
        write_json(
            self.folder / "state.json",
            {"manifest": self._manifest, "done": done},
        )
        self.done = done
        if before != done:
            self._sums_file(before).unlink(missing_ok=True)

    def _sums_file(self, done: int) -> Path:
        return self.folder / f"sums-{done}.npy"

    @contextlib.contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DGLError(
                f"out={str(self.folder)!r}: {error}. What was finished is "
                f"kept: make room and run it again."
            ) from error


def _broken(folder: Path, node: int, count: int) -> DGLError:
    return DGLError(
        f"{folder}: the row of node {node}, and {count - 1} others, are not "
        f"what was written (check sums differ): the file was changed or the "
        f"disk is failing. Remove the store and precompute again."
    )


def _bits(tensor: torch.Tensor) -> np.ndarray:
    """The values' bits, as unsigned integers."""
    size = tensor.element_size()
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    return tensor.view(integers).numpy().view(_BITS[size])


def _map(path: Path, mode: Any) -> np.memmap:
    try:
        return map_within_memory(
            lambda mode: np.lib.format.open_memmap(path, mode=mode), mode
        )
    except (OSError, ValueError, EOFError) as error:
        raise DGLError(
            f"{path} cannot be read ({error}): the store is broken. Remove it "
            f"and precompute again."
        ) from None


def _save(path: Path, array: np.ndarray) -> None:
    """Write an npy file in one step: it is there whole, or not at all."""
    draft = path.with_name(path.name + ".part")
    with open(draft, "wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


#: More than this of an array is not hashed, but pieces all over it.
_HASHED = 1 << 28
_PIECE = 1 << 12


def fingerprint(array: np.ndarray) -> str:
    """A name for an array's content.

    Of an array larger than 256 MiB only pieces are read, evenly spread over
    it: nothing hashes 57 GB to find out whether it is the same.
    """
    found = hashlib.blake2b(digest_size=16)
    found.update(repr((array.shape, array.dtype.str)).encode())
    row_bytes = max(1, array.nbytes // max(1, len(array)))
    rows = max(1, _PIECE // row_bytes)
    count = -(-len(array) // rows)
    most = _HASHED // max(_PIECE, row_bytes)
    step = -(-count // most) if array.nbytes > _HASHED else 1
    for piece in range(0, count, step):
        found.update(array[piece * rows : (piece + 1) * rows].tobytes())
    found.update(array[-rows:].tobytes())
    return found.hexdigest()
