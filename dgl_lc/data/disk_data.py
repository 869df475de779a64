"""A node classification task on disk: graph, features, labels and split."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from ..node_rows import check_ids
from ..storage.disk_features import DiskFeatures
from ..storage.disk_graph import DiskGraph
from ..storage.manifest import (
    FolderKind,
    expect_files,
    read_manifest,
    verify_files,
)
from ..storage.node_ids import NodeIds
from ..storage.npy_file import map_file
from .node_data import SPLITS, task_counts

KIND = FolderKind(
    "task", "prepare or prepare_ogb", ("graph", "feat", "ids", "edges")
)
#: The files of a task, beside those of its folders.
FILES = ("labels.npy", *(f"{split}.npy" for split in SPLITS))


class DiskData:
    """A node classification task in a folder, opened without reading it.

    Parameters
    ----------
    path : path
        The folder, written by :func:`~dgl_lc.data.prepare` or
        :func:`~dgl_lc.data.prepare_ogb`.

    Attributes
    ----------
    graph : DiskGraph
        The graph.
    feat : DiskFeatures
        The features of its nodes.
    labels : Tensor
        The class of each node, int64, mapped into memory; -1 where there is
        none.
    train, valid, test : Tensor
        int64 node numbers; empty if the task was prepared without a split.
    num_classes : int
        How many classes there are; 0 if the task was prepared without labels.
    class_names : list of str, or None
        The user's names of the classes; None if the classes are their own
        names.
    feat_names : list of str, or None
        The names of the columns of the features, in their order; None if
        they were not read from a table with a column for each.
    name : str
        The name of the dataset, or of the folder.
    key : str
        Stands for the content of all of it.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_lc.data import DiskData, prepare_ogb, write_papers_like
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     raw = write_papers_like(f"{folder}/raw", 1e-5, feat_dim=4)
    ...     done = prepare_ogb(
    ...         f"{folder}/raw", f"{folder}/task", memory="64MiB"
    ...     )
    ...     # Later, without the raw files:
    ...     data = DiskData(f"{folder}/task")
    ...     data.num_feats, data.graph.num_nodes()
    (4, 1111)
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.manifest = read_manifest(self.path, KIND)
        self.graph = DiskGraph(self.path / "graph")
        self.feat = DiskFeatures(self.path / "feat")
        parts: list[DiskGraph | DiskFeatures | NodeIds]
        parts = [self.graph, self.feat]
        self._ids: NodeIds | None = None
        # OGB's tasks have no ids of their own.
        if len(self.manifest["parts"]) > len(parts):
            self._ids = NodeIds(self.path / "ids")
            parts.append(self._ids)
        for part in parts:
            if part.key not in self.manifest["parts"]:
                raise DGLError(
                    f"{part.path} is not the one that {self.path} was made "
                    f"with: remove {self.path} and run {KIND.maker} again."
                )
        # Labels and ids are small, and no reader checks them later.
        verify_files(self.path, self.manifest)
        n = self.graph.num_nodes()
        shapes = {
            name: ("<i8", entry.shape[:1])
            for name, entry in self.manifest.files.items()
        }
        shapes["labels.npy"] = ("<i8", (n,))
        expect_files(self.path, self.manifest, shapes)
        self.labels = self._tensor("labels.npy")
        # Copied: what indexes should not be a file.
        self.train = self._tensor("train.npy").clone()
        self.valid = self._tensor("valid.npy").clone()
        self.test = self._tensor("test.npy").clone()
        self.num_classes: int = self.manifest["num_classes"]
        content = self.manifest.content
        self.name: str = content.get("name", self.path.resolve().name)
        self.class_names: list[str] | None = content.get("class_names")
        self.feat_names = self._feat_names()
        for split in SPLITS:
            ids = getattr(self, split)
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < n:
                raise DGLError(
                    f"{self.path / split}.npy holds ids that are no nodes: "
                    f"run {KIND.maker} again."
                )

    def _tensor(self, name: str) -> torch.Tensor:
        # Not read-only, as torch cannot know that; the file stays as it is.
        array = map_file(self.path / name, self.manifest.files[name], "c")
        return torch.from_numpy(np.asarray(array))

    def _feat_names(self) -> list[str] | None:
        """Read the names of the columns from what the task was made from."""
        made_from = self.manifest.content.get("made_from") or {}
        source = made_from.get("features")
        names = source.get("columns") if isinstance(source, dict) else None
        if not isinstance(names, list) or len(names) != self.num_feats:
            # An array, or a column of lists.
            return None
        return [str(name) for name in names]

    @property
    def key(self) -> str:
        """The key of the folder's content, from when it was written."""
        return self.manifest.key

    @property
    def num_feats(self) -> int:
        """Columns of the features."""
        return self.feat.shape[1]

    def ids_of(self, nodes: Any) -> np.ndarray:
        """Return the user's own ids of nodes.

        Parameters
        ----------
        nodes : Tensor or sequence of int
            Node numbers.

        Returns
        -------
        ndarray
            int64, or an object array of str. The node numbers themselves if
            no ids were given.
        """
        numbers = self._check_numbers(nodes, "nodes").numpy()
        return numbers if self._ids is None else self._ids.of(numbers)

    def find_nodes(self, ids: Any) -> torch.Tensor:
        """Return the node numbers, int64, of the user's own ids.

        It reads all ids of the task once, and takes memory for the given ones
        only. Ids that no node has are an error.

        Parameters
        ----------
        ids : sequence of int or of str
            A list, an array or a tensor.
        """
        if self._ids is None:
            return self._check_numbers(ids, "ids")
        given = self._ids.convert(ids, "ids")
        nodes = self._ids.find(given)
        self._ids.check_known("ids", (given, nodes))
        return torch.from_numpy(nodes)

    def _check_numbers(self, nodes: Any, argument: str) -> torch.Tensor:
        """Return numbers of nodes, or those of a mask, that exist."""
        n = self.graph.num_nodes()
        found = check_ids(nodes, argument, n)
        if len(found) and int(found.max()) >= n:
            raise DGLError(
                f"{argument} holds {int(found.max())}, but there are nodes 0 "
                f"to {n - 1}."
            )
        return found

    def verify(self) -> None:
        """Read all files, and raise an error that names a damaged one."""
        verify_files(self.path, self.manifest)
        if self._ids is not None:
            self._ids.verify()
        self.graph.verify()
        self.feat.verify()

    def __repr__(self) -> str:
        return f"DiskData({self.name!r}, {task_counts(self)})"
