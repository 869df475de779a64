"""A graph on disk: its edges sorted by destination, mapped into memory."""

import os
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..node_rows import check_ids
from .check_graph import check_pointers, check_sources, check_weights
from .manifest import (
    FolderKind,
    check_unchanged,
    expect_files,
    read_manifest,
    verify_files,
)
from .npy_file import check_chunks, map_file

KIND = FolderKind("graph", "build_disk_graph")
#: The files of a graph with their types, the one that only a weighted graph
#: has, and what is needed on the way.
FILES = {
    "indptr.npy": "<i8",
    "indices.npy": "<i4",
    "out_edges.npy": "<i4",
    "loops.npy": "<i4",
}
WEIGHTS = "weights.npy"
COUNTS = "counts.npy"
ALL = "__ALL__"


class DiskGraph:
    r"""A graph in a folder, opened without reading it.

    The folder holds ``manifest.json`` and four npy files: ``indptr`` (int64,
    where the edges of each destination begin), ``indices`` (int32, their
    sources), ``out_edges`` and ``loops`` (int32, edges out of each node, and
    to itself). A weighted graph has a fifth, ``weights`` (float32 or float64,
    in the order of ``indices``). :func:`dgl_lc.data.build_disk_graph` writes
    them.

    Parameters
    ----------
    path : path
        The folder.

    Attributes
    ----------
    indptr, indices, out_edges, loops : array
        The files, mapped read-only.
    weights : array or None
        The weights of the edges, mapped read-only; None if they have none.
    key : str
        Stands for the content, weights included: equal graphs have equal
        keys. It is read from the manifest, not computed.
    manifest : Manifest
        What the graph was made from, and how.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dgl_lc.data import build_disk_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/edges.npy", np.array([[0, 1, 2], [1, 2, 2]]))
    ...     g = build_disk_graph(f"{folder}/edges.npy", 4, f"{folder}/graph")
    ...     g.num_edges(), g.in_degrees()
    (3, tensor([0, 1, 2, 0], dtype=torch.int32))
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.manifest = read_manifest(self.path, KIND)
        content = self.manifest.content
        n, m = (content.get(name) for name in ("num_nodes", "num_edges"))
        if not (type(n) is type(m) is int and 1 <= n < 2**31 and m >= 0):
            raise DGLError(
                f"{self.path} says that it has {n!r} nodes and {m!r} edges: "
                f"write it again with build_disk_graph."
            )
        lengths = {"indptr.npy": n + 1, "indices.npy": m}
        expected = {
            name: (dtype, (lengths.get(name, n),))
            for name, dtype in FILES.items()
        }
        options = content.get("options")
        stored_as = isinstance(options, dict) and options.get("weight_dtype")
        if stored_as:
            dtype = "<f8" if stored_as == "float64" else "<f4"
            expected[WEIGHTS] = (dtype, (m,))
        expect_files(self.path, self.manifest, expected)
        self.indptr = self._map("indptr.npy")
        self.indices = self._map("indices.npy")
        self.out_edges = self._map("out_edges.npy")
        self.loops = self._map("loops.npy")
        self.weights = self._map(WEIGHTS) if stored_as else None
        self._is_checked = self._counts_are_checked = False

    def _map(self, name: str) -> np.ndarray:
        return map_file(self.path / name, self.manifest.files[name])

    @property
    def key(self) -> str:
        """The key of the folder's content, from when it was written."""
        return self.manifest.key

    def check_key(self) -> str:
        """Return the key, and check that the files are still the same.

        Files that were copied or written to since are read whole.
        """
        check_unchanged(self.path, self.manifest)
        return self.key

    def check_edges(self) -> None:
        """Read all files once, before a kernel does.

        An error if they are not what was written, or nothing that a kernel
        could read safely. Done once for an open graph.
        """
        if not self._is_checked:
            self._check_rows(0, self.num_nodes())
            self._is_checked = True

    def check_counts(self) -> None:
        """Check all files but sources and weights, as :meth:`check_edges`.

        These have a number for each node: it is enough before the edges of
        some nodes are read, and much less than all of them.
        """
        if self._counts_are_checked:
            return
        for name in FILES:
            if name != "indices.npy":
                self._check_places(name, 0, len(self.indptr))
        n, m = self.num_nodes(), len(self.indices)
        check_pointers(self.indptr, m, n, str(self.path))
        degrees = self.out_edges
        if degrees.min() < 0 or degrees.sum(dtype=np.int64) != m:
            raise DGLError(
                f"{self.path}: the edges out of each node do not add up to "
                f"{m}. Write the graph again."
            )
        self._counts_are_checked = True

    def check_rows(self, low: int, high: int) -> None:
        """Check the edges into nodes low to high, as :meth:`check_edges`."""
        if not self._is_checked:
            self._check_rows(low, high)

    def _check_rows(self, low: int, high: int) -> None:
        self.check_counts()
        what = str(self.path)
        places = int(self.indptr[low]), int(self.indptr[high])
        self._check_places("indices.npy", *places)
        check_sources(self.indptr, self.indices, (low, high), what, self.loops)
        if self.weights is not None:
            self._check_places(WEIGHTS, *places)
            check_weights(self.weights, what, places)

    def _check_places(self, name: str, begin: int, end: int) -> None:
        """Compare the checksums of a part of a file."""
        entry = self.manifest.files[name]
        size, most = entry.chunk_rows, len(entry.checksums or ())
        chunks = range(begin // size, min(-(-end // size), most))
        check_chunks(self.path / name, entry, chunks)

    @property
    def idtype(self) -> torch.dtype:
        return torch.int32

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return int(self.manifest["num_nodes"])

    def num_edges(self) -> int:
        """Return the number of edges."""
        return int(self.manifest["num_edges"])

    number_of_nodes = num_nodes
    number_of_edges = num_edges

    def in_degrees(self, v: Any = ALL) -> torch.Tensor:
        """Count the edges into each node, or into the given nodes."""
        if isinstance(v, str) and v == ALL:
            degrees = np.empty(self.num_nodes(), np.int32)
            np.subtract(
                self.indptr[1:], self.indptr[:-1], out=degrees, casting="unsafe"
            )
            return torch.from_numpy(degrees)
        ids = self._ids(v, "v")
        degrees = self.indptr[ids + 1] - self.indptr[ids]
        return torch.from_numpy(np.asarray(degrees, dtype=np.int32))

    def out_degrees(self, u: Any = ALL) -> torch.Tensor:
        """Count the edges out of each node, or out of the given nodes."""
        if isinstance(u, str) and u == ALL:
            return torch.from_numpy(np.array(self.out_edges))
        return torch.from_numpy(np.array(self.out_edges[self._ids(u, "u")]))

    def _ids(self, ids: Any, argument: str) -> np.ndarray:
        if np.ndim(ids) == 0:
            ids = [ids]
        found = check_ids(ids, argument, self.num_nodes())
        if len(found) and int(found.max()) >= self.num_nodes():
            raise DGLError(
                f"node {int(found.max())} does not exist: the graph has nodes "
                f"0 to {self.num_nodes() - 1}."
            )
        return found.numpy()

    def verify(self) -> None:
        """Read all files, and raise an error that names a damaged one."""
        verify_files(self.path, self.manifest)

    def to_dgl(self) -> dgl.DGLGraph:
        """Return a DGLGraph in memory, with its edges sorted by destination.

        Weights are in ``edata["weight"]``.
        """
        self.check_edges()
        indptr = torch.from_numpy(np.array(self.indptr))
        indices = torch.from_numpy(np.array(self.indices, dtype=np.int64))
        no_ids = torch.empty(0, dtype=torch.int64)
        graph = dgl.graph(
            ("csc", (indptr, indices, no_ids)), num_nodes=self.num_nodes()
        )
        if self.weights is not None:
            graph.edata["weight"] = torch.from_numpy(np.array(self.weights))
        return graph

    def sample(self, num_nodes: int = 1000) -> dgl.DGLGraph:
        """Make a small DGLGraph, for instance to trace a model on.

        It has the first nodes and, of the edges into each of them, the first
        ones, at most 64. An edge from a node behind them comes from the node
        of that number modulo ``num_nodes``, so that a node has edges into it
        if it has any in the graph. Weights are in ``edata["weight"]``.

        Parameters
        ----------
        num_nodes : int, optional
            Number of nodes, if the graph has as many. Default: 1000.
        """
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, int):
            raise DGLError(
                f"num_nodes should be an integer, got {num_nodes!r}."
            )
        if num_nodes < 1:
            raise DGLError(f"num_nodes should be at least 1, got {num_nodes}.")
        n = min(num_nodes, self.num_nodes())
        begin = np.array(self.indptr[:n])
        kept = np.minimum(np.array(self.indptr[1 : n + 1]) - begin, 64)
        target = np.repeat(np.arange(n), kept)
        number = np.arange(len(target)) - np.repeat(
            np.cumsum(kept) - kept, kept
        )
        places = begin[target] + number
        source = np.array(self.indices[places], dtype=np.int64) % n
        graph = dgl.graph(
            (torch.from_numpy(source), torch.from_numpy(target)), num_nodes=n
        )
        if self.weights is not None:
            weights = np.array(self.weights[places])
            graph.edata["weight"] = torch.from_numpy(weights)
        return graph

    def __repr__(self) -> str:
        return (
            f"DiskGraph({str(self.path)!r}, {self.num_nodes():,} nodes, "
            f"{self.num_edges():,} {'weighted ' * (self.weights is not None)}"
            f"edges)"
        )
