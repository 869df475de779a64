"""Hop features on disk, and reading them.

A store is a folder of plain npy files: ``rows.npy`` of shape (rows, hops,
columns), so that all hops of a node lie together; ``checksums.npy``, one for
each row; ``nodes.npy``, where not all nodes have a row; and
``manifest.json``, written last, which also has the counts of the graph, where
hops were computed on one. :mod:`.write_hops` makes it.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from dgl import DGLError

from .. import swaps
from .._common.dtypes import STORED_TYPES, bits_of, type_of
from .._common.file_access import open_regular
from .._common.progress import progress_bar
from .._common.rows import COPY_ROWS
from .._common.threads import ranges, run_parallel
from ..graph_counts import GraphCounts
from ..hops import NORMS, FilterSpec, HopFeatures
from ..label_recipe import LabelRecipe
from ..node_rows import and_others
from ..row_blocks import Room
from .folder import find_whole, folder_head
from .manifest import FolderKind, Manifest, expect_files, read_manifest
from .npy_file import check_chunks, map_file, tensor_of, verify_file
from .read_blocks import StoredBlock, read_block
from .row_checksums import add_checksums, factors

#: Where a store that is merged of two keeps the second while it is written.
COMPUTED = "computed"
#: Where ranks write what a store is put together of.
PARTS = "parts"
KIND = FolderKind("hop store", "block_aggregate(out=)", (COMPUTED, PARTS))
ROWS, CHECKSUMS, NODES = "rows.npy", "checksums.npy", "nodes.npy"
#: Where a manifest has the counts of the graph, if these are known.
COUNTS = "graph_counts"
#: What it says of the filter.
_FILTER = ("norm", "self_loop", "weighted")


@dataclass(frozen=True)
class StoreHead:
    """What a store holds, and what it was made of.

    Attributes
    ----------
    rows, columns : int
        The shape of each hop.
    hops : tuple of int
        The hops, ascending.
    kind : str
        The name of the type of its numbers.
    spec : FilterSpec
        The filter.
    some_nodes : bool
        Whether it has the rows of some nodes, not of all.
    made_from : dict
        Keys of all that the hop features depend on.
    """

    rows: int
    columns: int
    hops: tuple[int, ...]
    kind: str
    spec: FilterSpec
    some_nodes: bool
    made_from: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return folder_head(
            KIND,
            rows=self.rows,
            columns=self.columns,
            hops=list(self.hops),
            dtype=self.kind,
            filter={name: getattr(self.spec, name) for name in _FILTER},
            some_nodes=self.some_nodes,
            made_from=self.made_from,
        )

    @classmethod
    def from_json(cls, folder: Path, found: dict[str, Any]) -> "StoreHead":
        """Read what a manifest says; an error if that can't be."""
        rows: Any = found.get("rows")
        columns: Any = found.get("columns")
        hops: Any = found.get("hops")
        filter: Any = found.get("filter")
        kind: Any = found.get("dtype")
        good = (
            all(type(size) is int and size > 0 for size in (rows, columns))
            and isinstance(hops, list)
            and len(hops) > 0
            and all(type(hop) is int and hop >= 0 for hop in hops)
            and hops == sorted(set(hops))
            and isinstance(kind, str)
            and kind in STORED_TYPES
            and type(found.get("some_nodes")) is bool
            and isinstance(filter, dict)
            and set(filter) == set(_FILTER)
            and isinstance(filter["norm"], str)
            and filter["norm"] in NORMS
            and type(filter["self_loop"]) is bool
            and type(filter["weighted"]) is bool
            and isinstance(found.get("made_from"), dict)
        )
        if not good:
            raise _impossible(folder, "the hop features")
        counts = None
        if COUNTS in found:
            try:
                counts = GraphCounts.from_json(found[COUNTS])
            except ValueError:
                raise _impossible(folder, "the graph") from None
            if not found["some_nodes"] and counts.num_nodes != rows:
                raise _impossible(folder, "the graph")
        return cls(
            rows, columns, tuple(hops), kind,
            FilterSpec(**filter, graph=counts), found["some_nodes"],
            found["made_from"],
        )  # fmt: skip

    @property
    def shard(self) -> tuple[int, int] | None:
        """The number of a shard of the rows, and of all shards."""
        match self.made_from.get("shard"):
            case [int(number), int(size)] if 0 <= number < size:
                return number, size
        return None

    @property
    def label_recipe(self) -> LabelRecipe | None:
        """How label features were made; None for hop features."""
        try:
            return LabelRecipe.from_json(self.made_from.get("label_features"))
        except ValueError:
            return None

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of ``rows.npy``."""
        return self.rows, len(self.hops), self.columns

    def files(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The types and shapes of its files."""
        found: dict[str, tuple[str, tuple[int, ...]]] = {
            ROWS: (STORED_TYPES[self.kind].stored.str, self.shape),
            CHECKSUMS: ("<u8", (self.rows,)),
        }
        if self.some_nodes:
            found[NODES] = ("<i8", (self.rows,))
        return found


class StoredHops(HopFeatures):
    """Hop features that are read from disk, row by row as they are asked for.

    Every row that :meth:`take` (a loader's batch) reads is compared with its
    checksum. Whole hops, ``hops[k]``, are memory maps: all rows are compared
    once, when the first hop is asked for.
    """

    def __init__(self, folder: Path, manifest: Manifest):
        self.folder = folder
        self._manifest = manifest
        self._head = head = StoreHead.from_json(folder, manifest.content)
        expect_files(folder, manifest, head.files(), ROWS)
        for name in (CHECKSUMS, NODES):
            if name in manifest.files:
                entry = manifest.files[name]
                chunks = range(len(entry.checksums or ()))
                check_chunks(folder / name, entry, chunks)
        self._array = self._map(ROWS, "c")
        #: Whether its rows are not all in memory once they were read.
        self.is_cold = (
            self._array.nbytes > psutil.virtual_memory().available // 2
        )
        self._checksums = self._map(CHECKSUMS, "r")
        _, hops, columns = head.shape
        #: The factors of the values of a row in its checksum.
        self.factors = factors(hops * columns)
        nodes = None
        if head.some_nodes:
            nodes = torch.from_numpy(np.asarray(self._map(NODES, "c")))
            if int(nodes.min()) < 0:
                raise DGLError(
                    f"{folder / NODES} holds {int(nodes.min())}, not a node "
                    f"id: precompute the store again with resume=False."
                )
            counts = head.spec.graph
            if counts is not None and int(nodes.max()) >= counts.num_nodes:
                raise _impossible(folder, "the graph")
        #: Stays open: it is the mapped file, also when another one has taken
        #: its name, and tells whether somebody cut it off.
        self._file = open_regular(folder / ROWS)
        weakref.finalize(self, self._file.close)
        self._is_checked = False
        tensor = tensor_of(self._array).view(STORED_TYPES[head.kind].torch)
        super().__init__(list(tensor.unbind(1)), head.hops, head.spec, nodes)
        self.shard = head.shard
        self.label_recipe = head.label_recipe

    def _map(self, name: str, mode: str) -> np.ndarray:
        return map_file(self.folder / name, self._manifest.files[name], mode)

    @property
    def head(self) -> StoreHead:
        """What the store holds, and what it was made of."""
        return self._head

    @property
    def key(self) -> str:
        """Stands for the content of the store."""
        return self._manifest.key

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows into memory by their places, and check them."""
        self._check_length()
        found: HopFeatures = super().take(places, nodes, out)
        bits = bits_of(found.stack).reshape(len(self), len(places), -1)
        checksums = np.zeros(len(places), np.uint64)
        for hop, own in enumerate(self.factors.reshape(len(self), -1)):
            add_checksums(bits[hop], own, checksums)
        self.compare(places.numpy(), nodes, checksums)
        return found

    def compare(
        self, places: np.ndarray, nodes: torch.Tensor, checksums: np.ndarray
    ) -> None:
        """Refuse rows that have other checksums than when they were written."""
        wrong = np.flatnonzero(checksums != self._checksums[places])
        if len(wrong):
            raise self._damaged(int(nodes[int(wrong[0])]), len(wrong))

    def read(
        self,
        places: torch.Tensor,
        room: Room,
        stopped: threading.Event | None = None,
    ) -> StoredBlock:
        """Read rows into memory in large pieces, in the order of the file."""
        self._check_length()
        return read_block(self, places, room, stopped)

    def in_memory(self, stack: torch.Tensor, nodes: torch.Tensor) -> Any:
        """Return hop features of rows that were read."""
        return self._with_rows([stack], nodes)

    @property
    def on_disk(self) -> bool:
        """Whether rows are read from a disk."""
        return True

    @property
    def data_offset(self) -> int:
        """Where the numbers begin in the file of the rows."""
        return self._manifest.files[ROWS].size - self._array.nbytes

    @property
    def file_number(self) -> int:
        """The open file of the rows."""
        return self._file.fileno()

    def open_direct(self) -> int | None:
        """Open the file of the rows past the page cache, where that works."""
        if not hasattr(os, "O_DIRECT"):
            return None
        try:
            # The open file, whatever has its name by now.
            return os.open(
                f"/proc/self/fd/{self.file_number}", os.O_RDONLY | os.O_DIRECT
            )
        except OSError:
            return None

    def _check_length(self) -> None:
        """Refuse a file that became shorter: reading it ends the process."""
        size = os.fstat(self._file.fileno()).st_size
        if size < self._manifest.files[ROWS].size:
            raise self.cut_off()

    def cut_off(self) -> DGLError:
        """Make the error for a file that became shorter."""
        return DGLError(
            f"{self.folder / ROWS} became shorter while it was open: "
            f"precompute the store again with resume=False."
        )

    def check_once(self) -> None:
        """Compare all rows with their checksums, once for an open store."""
        self._check_length()
        if not self._is_checked:
            self.verify()

    def __getitem__(self, key: Any) -> Any:
        swaps.check_caller()
        self.check_once()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[torch.Tensor]:
        swaps.check_caller()
        self.check_once()
        return super().__iter__()

    @property
    def stack(self) -> torch.Tensor:
        """The rows of all hops in memory, hop after hop, checked."""
        self.check_once()
        return super().stack

    def as_features(self, hop: int) -> torch.Tensor | np.ndarray:
        """Give a hop as features from which further hops are computed.

        It is a memory map, which the engine reads as it would read a hop of
        its own: the sums are the same to the last bit. NumPy has no
        bfloat16, for which a tensor makes no difference.
        """
        self.check_once()
        number = self.hops.index(hop)
        if self._head.kind == "bfloat16":
            return self._tensor(number)
        return self._array[:, number]

    def prefetch(self, places: torch.Tensor) -> None:
        """Ask the disk for rows that are needed soon.

        Without it rows that are not in memory are read one after the other.
        Nothing is done where the whole store may be in memory anyway.
        """
        if not self.is_cold or not hasattr(os, "posix_fadvise"):
            return
        row = self._array[:1].nbytes
        offset = self.data_offset
        for place in places.sort().values.tolist():
            os.posix_fadvise(
                self._file.fileno(), offset + place * row, row,
                os.POSIX_FADV_WILLNEED,
            )  # fmt: skip

    def verify(self, progress: bool | None = None) -> None:
        """Compare all files and rows with their checksums, on all threads."""
        for name, entry in self._manifest.files.items():
            verify_file(self.folder / name, entry)
        bits = self._array.view(type_of(self.dtype).bits)
        parts = ranges(len(bits), -(-len(bits) // COPY_ROWS))
        wrong: list[int] = []
        odd = self.factors
        with progress_bar(self._array.nbytes, "verify", progress) as bar:

            def check(_: int, part: int) -> None:
                first, last = parts[part]
                rows = bits[first:last].reshape(last - first, -1)
                checksums = np.zeros(len(rows), np.uint64)
                add_checksums(rows, odd, checksums)
                found = np.flatnonzero(checksums != self._checksums[first:last])
                wrong.extend((first + found).tolist())
                bar.update(rows.nbytes)

            run_parallel(check, len(parts))
        if wrong:
            first = min(wrong)
            node = first if self.nodes is None else int(self.nodes[first])
            raise self._damaged(node, len(wrong))
        self._is_checked = True

    def _damaged(self, node: int, count: int) -> DGLError:
        return DGLError(
            f"{self.folder}: the row of node {node}{and_others(count)} is not "
            f"what was written (checksums differ): the file was changed or "
            f"the disk is failing. Precompute the store again with "
            f"resume=False."
        )

    def __reduce__(self) -> tuple:
        # The path, not the rows: a store is opened again where it is loaded.
        return _reopen, (str(self.folder), self.key)

    def __repr__(self) -> str:
        return (
            f"StoredHops({str(self.folder)!r}, hops={self.hops}, "
            f"rows={self.shape[0]}, columns={self.shape[1]}, "
            f"dtype={self.dtype})"
        )


def _impossible(folder: Path, what: str) -> DGLError:
    return DGLError(
        f"{folder}: what its manifest says of {what} can't be. Precompute the "
        f"hop features again with resume=False."
    )


def _reopen(path: str, key: str) -> StoredHops:
    found = open_hop_store(path)
    if found.key != key:
        raise DGLError(
            f"{path} is not the store that was pickled: it was written again "
            f"since."
        )
    return found


def open_hop_store(path: str | os.PathLike) -> StoredHops:
    """Open hop features of one filter that are stored on disk."""
    folder = Path(path)
    return StoredHops(folder, read_manifest(folder, KIND))


def find_store(path: Path, head: StoreHead) -> StoredHops | None:
    """The finished store of the same request, if there is one.

    A store of something else is an error. Nothing is locked or written.
    """
    found = find_whole(path, KIND, head.to_json())
    return None if found is None else StoredHops(path, found)
