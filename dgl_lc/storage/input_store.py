"""Inputs of a model of several filters on disk, and reading them.

The folder holds a ``manifest.json`` and a subfolder for each of its parts,
which are plain hop stores (:mod:`.hop_store`) with rows of the same nodes.
The matrices of all parts, one after the other, are the inputs. The manifest
is written last. It names the parts in order, each with its key.
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError

from .._common.json_files import read_json
from ..node_rows import ModelInputs
from ..ranks.call import RankCall
from ..row_blocks import Room, RowBlock
from .folder import Build, build, check_output
from .hop_store import KIND as HOPS_KIND
from .hop_store import StoredHops, open_hop_store
from .manifest import (
    MANIFEST,
    PLAIN_NAME,
    STATE,
    FolderKind,
    Manifest,
    read_manifest,
)
from .row_shard_folders import find_shards, open_shard

_NAME, _MAKER = "store of inputs", "model.precompute(out=)"
KIND = FolderKind(_NAME, _MAKER)
#: The subfolder of what is needed on the way.
WORK = "work"


class StoredInputs(ModelInputs):
    """Inputs of several filters that are read from disk, row by row.

    Every row that a batch reads is compared with its checksum. Whole inputs,
    ``inputs[i]``, are memory maps: all rows are compared once, when the first
    of them is asked for.

    Attributes
    ----------
    folder : Path
        The folder.
    parts : dict of str to StoredHops
        The hop stores that the inputs lie in, by the names of their folders.
    """

    def __init__(self, folder: Path, manifest: Manifest):
        self.folder = folder
        self._manifest = manifest
        content = _Content.of(folder, manifest.content)
        self.parts: dict[str, StoredHops] = {}
        for name, key in content.keys.items():
            part = open_hop_store(folder / name)
            if part.key != key:
                raise DGLError(
                    f"{part.folder} is not the one that {folder} was made "
                    f"with: write the folder again with {_MAKER} and "
                    f"resume=False."
                )
            self.parts[name] = part
        stores = list(self.parts.values())
        rows, nodes = stores[0].shape[0], stores[0].nodes
        for part in stores:
            if part.shape[0] != rows or not _same(part.nodes, nodes):
                raise _contradiction(folder, "its parts have other nodes")
        tensors = [tensor for part in stores for tensor in part.tensors]
        if len(tensors) != len(content.shapes):
            raise _contradiction(folder, "its parts have other inputs")
        for place, shape in enumerate(content.shapes):
            if tensors[place].shape[1] != torch.Size(shape).numel():
                raise _contradiction(folder, "its inputs have other shapes")
            tensors[place] = tensors[place].view(rows, *shape)
        super().__init__(tensors, content.names, nodes)
        #: What the names of filters in the names of inputs mean, if known.
        self.filters = content.filters

    @property
    def key(self) -> str:
        """Stands for the content of the folder."""
        return self._manifest.key

    @property
    def made_from(self) -> dict[str, Any]:
        """Keys of what the inputs were made of."""
        return self._manifest["made_from"]

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows into memory by their places, and check them."""
        return self._put_together(list(self.parts.values()), places, nodes, out)

    def _put_together(
        self,
        parts: Sequence[RowBlock],
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None,
    ) -> Any:
        """Gather the same rows of all parts, or of their blocks."""
        if out is None and self.same_shape:
            out = torch.empty(
                (len(self) * len(places), *self.shape[1:]), dtype=self.dtype
            )
        found: list[torch.Tensor] = []
        done = 0
        for store, part in zip(self.parts.values(), parts, strict=True):
            own = None
            if out is not None:
                end = done + len(store)
                own = out[done * len(places) : end * len(places)]
                own = own.view(len(own), -1)
            rows = part.take(places, nodes, own)
            for tensor in rows.tensors:
                shape = self._parts[done].shape[1:]
                found.append(tensor.view(len(places), *shape))
                done += 1
        return self._with_rows(found if out is None else [out], nodes)

    def read(
        self,
        places: torch.Tensor,
        room: Room,
        stopped: threading.Event | None = None,
    ) -> "_InputsBlock":
        """Read rows of all parts into memory, in the order of the files."""
        parts = self.parts.values()
        return _InputsBlock(
            self, [part.read(places, room, stopped) for part in parts]
        )

    @property
    def on_disk(self) -> bool:
        """Whether rows are read from a disk."""
        return True

    def _with_rows(
        self, parts: list[torch.Tensor], nodes: torch.Tensor | None
    ) -> Any:
        # Rows that were read are in memory: they are not of this class.
        found = ModelInputs.__new__(ModelInputs)
        found._set_rows(parts, len(self), nodes)
        found.names = list(self.names)
        found.filters = self.filters
        return found

    def _check_once(self) -> None:
        for part in self.parts.values():
            part.check_once()

    def __getitem__(self, key: Any) -> Any:
        self._check_once()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[torch.Tensor]:
        self._check_once()
        return super().__iter__()

    @property
    def stack(self) -> torch.Tensor:
        """The rows of all inputs in memory, input after input, checked."""
        self._check_once()
        if len(self) == 1:
            return self._parts[0]
        # A copy: the inputs of this object stay memory maps.
        return ModelInputs(self._parts, self.names, self.nodes).stack

    def prefetch(self, places: torch.Tensor) -> None:
        """Ask the disk for rows that are needed soon."""
        for part in self.parts.values():
            part.prefetch(places)

    def verify(self, progress: bool | None = None) -> None:
        """Compare all files and rows of all parts with their checksums."""
        for part in self.parts.values():
            part.verify(progress)

    def __reduce__(self) -> tuple:
        # The path, not the rows: the inputs are opened again where they are
        # loaded.
        return _reopen, (str(self.folder), self.key)

    def __repr__(self) -> str:
        return (
            f"StoredInputs({str(self.folder)!r}, {self.names}, "
            f"{self._describe()})"
        )


class _InputsBlock:
    """Rows of all parts that were read into memory."""

    def __init__(self, inputs: StoredInputs, blocks: Sequence[RowBlock]):
        self._inputs, self._blocks = inputs, blocks

    def take(
        self,
        which: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows into memory, and check them."""
        return self._inputs._put_together(self._blocks, which, nodes, out)


@dataclass(frozen=True)
class _Content:
    """What a manifest says: keys of the parts, names and shapes of inputs."""

    keys: dict[str, str]
    names: list[str]
    shapes: list[list[int]]
    filters: tuple[str, ...] | None

    @classmethod
    def of(cls, folder: Path, found: dict[str, Any]) -> "_Content":
        """Read a manifest; an error if what it says can't be."""
        keys, options = found.get("parts"), found.get("options")
        shapes, made_from = found.get("shapes"), found.get("made_from")
        names = options.get("inputs") if isinstance(options, dict) else None
        folders = options.get("folders") if isinstance(options, dict) else None
        filters = options.get("filters") if isinstance(options, dict) else None
        good = (
            isinstance(keys, dict)
            and len(keys) > 0
            and folders == list(keys)
            and all(PLAIN_NAME.fullmatch(name) for name in keys)
            and all(isinstance(key, str) for key in keys.values())
            and isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and isinstance(shapes, list)
            and len(shapes) == len(names)
            and all(_is_shape(shape) for shape in shapes)
            and isinstance(made_from, dict)
            and (filters is None or isinstance(filters, list))
            and all(isinstance(line, str) for line in filters or ())
        )
        if not good:
            raise _contradiction(folder, "its manifest names no inputs")
        assert isinstance(keys, dict)
        assert names is not None
        assert shapes is not None
        known = None if filters is None else tuple(filters)
        return cls(keys, names, shapes, known)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(
        type(size) is int and size > 0 for size in shape
    )


def _contradiction(folder: Path, what: str) -> DGLError:
    return DGLError(
        f"{folder} contradicts itself: {what}. Write the folder again with "
        f"{_MAKER} and resume=False."
    )


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


class InputsWriter:
    """Makes a folder of inputs, part by part. Get one from `write_inputs`.

    Attributes
    ----------
    finished : bool
        Whether the folder is whole already, and nothing is left to do.
    done : list of str
        The folders of the parts that are finished, by earlier runs too.
    """

    def __init__(
        self,
        path: Path,
        folders: Sequence[str],
        work: Build | None,
        steps: Sequence[str] = (),
    ):
        self._path, self._folders, self._work = path, folders, work
        self.finished = work is None
        self.done: list[str] = []
        if work is not None:
            noted = work.notes.get("done", [])
            known = {*folders, *steps}
            if not isinstance(noted, list) or not set(noted) <= known:
                raise DGLError(
                    f"{path / STATE} is damaged: write the folder again with "
                    f"resume=False."
                )
            self.done = noted

    def folder(self, name: str) -> Path:
        """Give the folder of a part: the caller writes a hop store there."""
        assert name in self._folders
        return self._path / name

    def commit(self, name: str) -> None:
        """Record that a part, or a step to it, is finished.

        A resumed run does not repeat it.
        """
        if self._work is not None and name not in self.done:
            self.done.append(name)
            self._work.commit(done=self.done)

    def finish(self, shapes: Sequence[Sequence[int]] | None = None) -> None:
        """Make the folder whole, when all parts are.

        ``shapes`` has the shape of a row of each input. Default: plain
        columns.
        """
        if self._work is None:
            return
        stores = {f: open_hop_store(self.folder(f)) for f in self._folders}
        if shapes is None:
            shapes = [
                (part.shape[1],) for part in stores.values() for _ in part.hops
            ]
        self._work.finish(
            parts={name: part.key for name, part in stores.items()},
            shapes=[list(shape) for shape in shapes],
        )


@contextlib.contextmanager
def write_inputs(
    path: str | os.PathLike,
    names: Sequence[str],
    folders: Sequence[str],
    made_from: dict[str, Any],
    *,
    resume: bool = True,
    steps: Sequence[str] = (),
    filters: Sequence[str] | None = None,
    call: RankCall | None = None,
) -> Iterator[InputsWriter]:
    """Write a folder of inputs, or resume where a killed run stopped.

    Parameters
    ----------
    path : path
        The folder: new, empty, or written by this function.
    names : sequence of str
        What each input is.
    folders : sequence of str
        Names of the subfolders of the parts, in the order of the inputs.
    made_from : dict
        Keys of all that the inputs depend on. A folder that was made from
        something else is an error.
    resume : bool
        Resume an unfinished folder, and use a finished one. With False it is
        deleted and written again; the caller writes the parts with
        ``resume=False`` as well.
    steps : sequence of str
        Names of steps on the way to the parts, whose folders lie in the
        subfolder ``work``. The caller removes it.
    filters : sequence of str, optional
        What the names of filters in ``names`` mean.
    call : RankCall, optional
        Ranks that write the parts together. The folder is that of rank 0.
    """
    if call is not None and call.ranks.rank > 0:
        follower = InputsWriter(Path(path), folders, None, steps)
        follower.finished, follower.done = call.gather(None)[0]
        yield follower
        call.barrier("inputs")
        return
    kind = FolderKind(_NAME, _MAKER, (*folders, WORK))
    options = {"inputs": list(names), "folders": list(folders)}
    if filters is not None:
        options["filters"] = list(filters)
    for folder in folders:
        # A folder of somebody else's is refused before any work.
        check_output(Path(path) / folder, HOPS_KIND, (), resume=resume)
    with build(Path(path), kind, (), made_from, options, resume=resume) as work:
        writer = InputsWriter(Path(path), folders, work, steps)
        if call is not None:
            call.gather([writer.finished, writer.done])
        yield writer
    if call is not None:
        call.barrier("inputs")


def open_store(path: str | os.PathLike) -> StoredHops | StoredInputs:
    """Open hop features or inputs that are stored on disk, memory-mapped.

    Parameters
    ----------
    path : path
        The folder that was given as ``out`` to
        :func:`dgl_lc.block_aggregate` or to a model's ``precompute``. Of row
        shards (``shared=False``), each rank opens its own.

    Returns
    -------
    StoredHops or StoredInputs
        Hop features of one filter, or the inputs of a model of several
        filters. Loaders, ``fit`` and models take either.

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
    file = folder / MANIFEST
    if file.is_file() and read_json(file).get("format") == KIND.format:
        return open_inputs(folder)
    shards = find_shards(folder)
    if shards and not file.exists():
        return open_shard(folder, shards)
    return open_hop_store(folder)


def open_inputs(path: str | os.PathLike) -> StoredInputs:
    """Open a folder of inputs; a folder of anything else is an error."""
    return StoredInputs(Path(path), read_manifest(Path(path), KIND))


def _reopen(path: str, key: str) -> StoredInputs:
    found = open_inputs(path)
    if found.key != key:
        raise DGLError(
            f"{path} does not hold the inputs that were pickled: it was "
            f"written again since."
        )
    return found
