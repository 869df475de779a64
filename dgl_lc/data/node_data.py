"""A graph with features, labels and a split: what the models learn from."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import dgl
import torch
from dgl import DGLError

from .check_task import check_task
from .splits import SPLITS


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
        check_task(self)

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
