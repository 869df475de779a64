"""Tasks to train on: a real graph, and generated ones, kept as plain files.

Making a graph of a million nodes takes longer than reading it, and every way
that is compared reads it in a process of its own.
"""

from dataclasses import dataclass
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import dgl
import numpy as np
import torch

from dgl_lc.data import NodeData, block_model, load

COLUMNS = 128


@dataclass
class Task:
    """Edges, features, labels and a split.

    Attributes
    ----------
    edges : Tensor
        Sources and targets, of shape (2, m).
    feat, labels : Tensor
        A row and a class for each node.
    train, valid, test : Tensor
        Ids of nodes.
    num_classes : int
        Number of classes.
    """

    edges: torch.Tensor
    feat: torch.Tensor
    labels: torch.Tensor
    train: torch.Tensor
    valid: torch.Tensor
    test: torch.Tensor
    num_classes: int

    @property
    def labelled(self) -> torch.Tensor:
        """The nodes with a label: those to train on come first."""
        return torch.cat([self.train, self.valid, self.test])

    @property
    def all_labelled(self) -> bool:
        """Whether every node has a label."""
        return len(self.labelled) == len(self.feat)

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """Return the rows of :attr:`labelled`, or all if those are all."""
        if self.all_labelled:
            return values
        return values.index_select(0, self.labelled)

    def places(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return where :meth:`rows` has train and test rows, and its labels."""
        if self.all_labelled:
            return self.train, self.test, self.labels
        first, last = len(self.train), len(self.labelled)
        return (
            torch.arange(first),
            torch.arange(last - len(self.test), last),
            self.rows(self.labels),
        )

    def graph(self) -> dgl.DGLGraph:
        """Make a new graph, of which DGL knows the edges alone (COO)."""
        return dgl.graph(
            (self.edges[0], self.edges[1]), num_nodes=len(self.feat)
        )


def arxiv_task(folder: Path) -> NodeData | None:
    """Read arxiv's graph, labels and split, and generate 128 columns.

    Returns None if the file does not exist.
    """
    path = folder / "ogbn_arxiv.npz"
    if not path.exists():
        return None
    data = load(path, add_reverse=True)
    rng = np.random.default_rng(0)
    means = rng.normal(size=(data.num_classes, COLUMNS)) * 0.25
    noise = rng.normal(size=(data.graph.num_nodes(), COLUMNS))
    labels = data.labels.numpy()
    feat = torch.from_numpy((means[labels] + noise).astype(np.float32))
    return NodeData(
        graph=data.graph, feat=feat, labels=data.labels, train=data.train,
        valid=data.valid, test=data.test, num_classes=data.num_classes,
        name="ogbn-arxiv's graph, 128 generated columns",
    )  # fmt: skip


def power_law_task(num_nodes: int, num_classes: int = 40) -> NodeData:
    """Generate a task with about 16 edges per node, whose graph helps."""
    return block_model(
        num_nodes, num_classes, COLUMNS, avg_degree=16.4, homophily=0.4,
        signal=2.0,
    )  # fmt: skip


def some_labelled(data: NodeData, share: float) -> NodeData:
    """Keep a random share of the labels: 60 % to train on, 20 % to test."""
    n = data.graph.num_nodes()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randperm(n, generator=generator)[: round(share * n)]
    cuts = [round(0.6 * len(ids)), round(0.8 * len(ids))]
    train, valid, test = (ids[a:b].sort().values for a, b in (
        (0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], len(ids))
    ))  # fmt: skip
    return NodeData(
        graph=data.graph, feat=data.feat, labels=data.labels, train=train,
        valid=valid, test=test, num_classes=data.num_classes, name=data.name,
    )  # fmt: skip


def write_task(data: NodeData, folder: Path) -> None:
    """Write a task as plain npy files."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        "edges": torch.stack(data.graph.edges()),
        "feat": data.feat,
        "labels": data.labels,
        "train": data.train,
        "valid": data.valid,
        "test": data.test,
        "num_classes": torch.tensor(data.num_classes),
    }
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values.numpy(), allow_pickle=False)


def read_task(folder: Path) -> Task:
    """Read what :func:`write_task` has written."""
    found = {
        name: torch.from_numpy(
            np.load(folder / f"{name}.npy", allow_pickle=False)
        )
        for name in ("edges", "feat", "labels", "train", "valid", "test")
    }
    classes = np.load(folder / "num_classes.npy", allow_pickle=False)
    return Task(**found, num_classes=int(classes))
