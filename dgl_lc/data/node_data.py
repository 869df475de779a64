"""A graph with features, labels and a split: what the models learn from."""

import contextlib
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import dgl
import torch
from dgl import DGLError

from ..node_rows import check_ids

SPLITS = ("train", "valid", "test")


@dataclass(eq=False, repr=False)
class NodeData:
    """A node classification task.

    What is wrong with the arguments is a DGLError that names the argument.

    Parameters
    ----------
    graph : DGLGraph
        A homogeneous graph.
    feat : Tensor
        float32 features, one row for each node.
    labels : Tensor
        int64, the class of each node; -1 where there is none.
    train, valid, test : Tensor
        Ids of labelled nodes, or masks with an entry for each node; kept as
        int64 ids. No node is in two of them.
    num_classes : int
        How many classes there are.
    name : str
        What to call it.
    inductive : bool
        Whether validation and test nodes, and their edges, are hidden during
        training: see ``train_graph``.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.data import NodeData
    >>> data = NodeData(
    ...     graph=dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]), num_nodes=4),
    ...     feat=torch.eye(4),
    ...     labels=torch.tensor([0, 1, 0, 1]),
    ...     train=torch.tensor([0, 1]),
    ...     valid=torch.tensor([2]),
    ...     test=torch.tensor([3]),
    ...     num_classes=2,
    ...     name="path",
    ...     inductive=True,
    ... )
    >>> data
    NodeData('path', 4 nodes, 4 edges, 4 columns, 2 classes,
             2 train, 1 valid, 1 test, inductive)
    >>> data.train_graph.edges()
    (tensor([0, 1]), tensor([1, 0]))
    """

    graph: dgl.DGLGraph
    feat: torch.Tensor
    labels: torch.Tensor
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor
    num_classes: int
    name: str
    inductive: bool = False
    # Only where the source comes with a training graph of its own.
    _train_graph: dgl.DGLGraph | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_graph("graph", self.graph)
        for name in ("feat", "labels"):
            _check_tensor(name, getattr(self, name), self.graph)
        for name in SPLITS:
            ids = _check_ids(name, getattr(self, name), self.graph)
            setattr(self, name, ids)
        self.num_classes = _check_count(self.num_classes)
        self._check_feat()
        self._check_labels()
        self._check_splits()
        self._check_train_graph()

    @property
    def num_feats(self) -> int:
        """Columns of the features."""
        return self.feat.shape[1]

    @cached_property
    def train_graph(self) -> dgl.DGLGraph:
        """The graph that may be seen during training.

        If the task is inductive, the edges both ends of which are training
        nodes; node ids stay as they are, so the other nodes are isolated.
        Otherwise the whole graph.
        """
        if not self.inductive:
            return self.graph
        if self._train_graph is not None:
            return self._train_graph
        seen = torch.zeros(self.graph.num_nodes(), dtype=torch.bool)
        seen = seen.to(self.graph.device)
        seen[self.train] = True
        # DGL cannot take edges out of a graph that has no COO format.
        graph = self.graph.formats(["coo", "csr", "csc"])
        source, target = (ends.long() for ends in graph.edges())
        return graph.edge_subgraph(
            seen[source] & seen[target], relabel_nodes=False
        )

    def __repr__(self) -> str:
        text = f"{self.name!r}, {task_counts(self)}"
        return f"NodeData({text}{', inductive' * self.inductive})"

    def _check_feat(self) -> None:
        if self.feat.dim() != 2:
            raise DGLError(
                f"feat should have two dimensions, (nodes, columns), got "
                f"shape {tuple(self.feat.shape)}."
            )
        if self.feat.shape[0] != self.graph.num_nodes():
            raise DGLError(
                f"feat has {self.feat.shape[0]} rows, but graph has "
                f"{self.graph.num_nodes()} nodes: give a row for each node."
            )
        if self.feat.shape[1] == 0:
            raise DGLError("feat has no columns: give at least one.")
        if self.feat.dtype != torch.float32:
            raise DGLError(f"feat is {self.feat.dtype}: use feat.float().")

    def _check_labels(self) -> None:
        labels, n = self.labels, self.graph.num_nodes()
        if labels.dim() == 2 and labels.shape[1] > 1:
            raise DGLError(
                f"labels has shape {tuple(labels.shape)}: give the class of "
                f"each node; for one-hot rows that is labels.argmax(1). Nodes "
                f"with several labels are not supported."
            )
        if labels.dim() != 1:
            raise DGLError(
                f"labels should have one dimension, got shape "
                f"{tuple(labels.shape)}: use labels.reshape(-1)."
            )
        if len(labels) != n:
            raise DGLError(
                f"labels has {len(labels)} entries, but graph has {n} nodes: "
                f"give one for each node, -1 where there is none."
            )
        if labels.dtype != torch.int64:
            raise DGLError(
                f"labels is {labels.dtype}: give integers, -1 where there is "
                f"none, and use labels.long()."
            )
        low, high = int(labels.min()), int(labels.max())
        if low < -1:
            raise DGLError(
                f"labels holds {low}: classes are counted from 0; mark a node "
                f"that has none with -1."
            )
        if high >= self.num_classes:
            raise DGLError(
                f"labels holds class {high}, but num_classes is "
                f"{self.num_classes}: classes go from 0 to num_classes - 1."
            )

    def _check_splits(self) -> None:
        n = self.graph.num_nodes()
        owner = torch.full((n,), -1, dtype=torch.int8)
        owner = owner.to(self.graph.device)
        for index, name in enumerate(SPLITS):
            ids = getattr(self, name)
            taken = owner[ids]
            if (taken >= 0).any():
                place = int((taken >= 0).nonzero()[0])
                other = SPLITS[int(taken[place])]
                raise DGLError(
                    f"node {int(ids[place])} is in {other} and in {name}: a "
                    f"node may be in one split only."
                )
            owner[ids] = index
            if int((owner == index).sum()) < len(ids):
                raise DGLError(
                    f"{name} holds some nodes more than once: use "
                    f"{name}.unique()."
                )
            bare = (self.labels[ids] < 0).nonzero()
            if len(bare):
                raise DGLError(
                    f"{name} holds node {int(ids[bare[0]])}, the label of "
                    f"which is -1, none: omit such nodes, with "
                    f"{name}[labels[{name}] >= 0]."
                )

    def _check_train_graph(self) -> None:
        graph = self._train_graph
        if graph is None:
            return
        _check_graph("the training graph", graph)
        if graph.num_nodes() != self.graph.num_nodes():
            raise DGLError(
                f"the training graph has {graph.num_nodes()} nodes, but graph "
                f"has {self.graph.num_nodes()}: node ids should be the same, "
                f"and nodes outside training isolated."
            )
        degrees = graph.in_degrees() + graph.out_degrees()
        for name in ("valid", "test"):
            ids = getattr(self, name)
            seen = degrees[ids].nonzero()
            if len(seen):
                raise DGLError(
                    f"the training graph has an edge at node "
                    f"{int(ids[seen[0]])}, which is in {name}: omit "
                    f"edges at nodes that training may not see."
                )


class _Task(Protocol):
    """What a task in memory and one on disk have in common."""

    @property
    def graph(self) -> Any: ...

    @property
    def num_feats(self) -> int: ...

    num_classes: int
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor


def task_counts(task: _Task) -> str:
    """The sizes of a task, to be printed."""
    counts = {
        "nodes": task.graph.num_nodes(),
        "edges": task.graph.num_edges(),
        "columns": task.num_feats,
        "classes": task.num_classes,
        **{name: len(getattr(task, name)) for name in SPLITS},
    }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


@contextlib.contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Let errors about a task begin with the file that it was read from."""
    try:
        yield
    except DGLError as error:
        raise DGLError(f"{path}: {error}") from None


def _check_graph(name: str, graph: object) -> None:
    if not isinstance(graph, dgl.DGLGraph):
        raise DGLError(
            f"{name} should be a DGLGraph, got {type(graph).__name__}."
        )
    if graph.is_block or not graph.is_homogeneous:
        raise DGLError(
            f"{name} should have one node type and one edge type: take one "
            f"relation with dgl.edge_type_subgraph, or merge them with "
            f"dgl.to_homogeneous."
        )
    if graph.num_nodes() == 0:
        raise DGLError(f"{name} has no nodes.")


def _check_tensor(name: str, tensor: object, graph: dgl.DGLGraph) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise DGLError(
            f"{name} should be a tensor, got {type(tensor).__name__}: use "
            f"torch.as_tensor({name})."
        )
    if tensor.layout != torch.strided:
        raise DGLError(f"{name} is sparse: use {name}.to_dense().")
    _check_device(name, tensor, graph)


def _check_device(name: str, tensor: torch.Tensor, graph: dgl.DGLGraph) -> None:
    if tensor.device != graph.device:
        raise DGLError(
            f"{name} is on {tensor.device} and graph on {graph.device}: put "
            f"all on one device, with {name}.to(graph.device)."
        )


def _check_count(num_classes: object) -> int:
    try:
        if isinstance(num_classes, bool):
            raise TypeError
        count = operator.index(num_classes)  # type: ignore[arg-type]
    except TypeError:
        raise DGLError(
            f"num_classes should be an integer, got {num_classes!r}."
        ) from None
    if count < 1:
        raise DGLError(f"num_classes should be at least 1, got {count}.")
    return count


def _check_ids(name: str, ids: Any, graph: dgl.DGLGraph) -> torch.Tensor:
    if isinstance(ids, torch.Tensor):
        _check_device(name, ids, graph)
    n = graph.num_nodes()
    found = check_ids(ids, name, n).to(graph.device)
    if len(found) == 0:
        raise DGLError(f"{name} is empty: name at least one node.")
    if int(found.max()) >= n:
        raise DGLError(
            f"{name} holds {int(found.max())}, but graph has nodes 0 to "
            f"{n - 1}."
        )
    return found
