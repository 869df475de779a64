"""A graph with features, labels and a split: what the models learn from."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import dgl
import numpy as np
import torch
from dgl import DGLError

from ..node_rows import check_ids
from ..precompute.checks import has_weights
from . import converters
from .check_task import check_task
from .splits import SPLITS
from .user_ids import UserIds


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
    class_names : sequence of str, optional
        The name of each class.
    node_ids : array or sequence, optional
        The user's own id of each node: integers, texts, or any objects that
        can be keys of a dict. :meth:`ids_of` and :meth:`find_nodes` translate
        them.

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
    class_names: list[str] | None = field(default=None, kw_only=True)
    node_ids: np.ndarray | None = field(default=None, kw_only=True)
    # Only where the source comes with a training graph of its own.
    _train_graph: dgl.DGLGraph | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_task(self)
        self._ids = None
        if self.node_ids is not None:
            self._ids = UserIds(self.node_ids)
            self.node_ids = self._ids.ids
            if len(self._ids) != self.graph.num_nodes():
                raise DGLError(
                    f"node_ids has {len(self._ids)} entries, but graph has "
                    f"{self.graph.num_nodes()} nodes: give an id for each."
                )

    @classmethod
    def from_pyg(
        cls, data: Any, *, split: Any = None, seed: int = 0, name: str = "pyg"
    ) -> "NodeData":
        """Make a task from a ``torch_geometric.data.Data``.

        It reads ``x``, ``edge_index``, ``y``, ``edge_weight`` where that
        exists, and the masks; ``edge_attr`` is not used. PyG's edges have the
        direction of DGL's. Tensors are shared where their types allow it.

        Parameters
        ----------
        data : Data
            A homogeneous graph, such as ``dataset[0]``.
        split : int, sequence of float, or mapping, optional
            The column of the masks, where they have one for each of several
            splits. Or three fractions of the labelled nodes; or ids or masks
            of ``train``, ``valid`` and ``test``, such as OGB's
            ``dataset.get_idx_split()``. Default: train_mask, val_mask and
            test_mask of data, or 0.6, 0.2 and 0.2 if it has none.
        seed : int
            Seed of a random split.
        name : str
            What to call it.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from dgl_lc.data import NodeData
        >>> data = SimpleNamespace(  # or a torch_geometric.data.Data
        ...     x=torch.eye(4),
        ...     edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        ...     y=torch.tensor([0, 1, 1, 0]),
        ... )
        >>> NodeData.from_pyg(data, split=(0.5, 0.25, 0.25))
        NodeData('pyg', 4 nodes, 3 edges, 4 columns, 2 classes,
                 2 train, 1 valid, 1 test)
        """
        return cls(**converters.pyg_arguments(data, split, seed, name))

    @classmethod
    def from_scipy(
        cls,
        adj: Any,
        x: Any,
        y: Any,
        *,
        node_ids: Any = None,
        split: Any = None,
        seed: int = 0,
        name: str = "scipy",
    ) -> "NodeData":
        """Make a task from a ``scipy.sparse`` matrix, features and labels.

        Parameters
        ----------
        adj : sparse matrix or array
            Entry (i, j) is an edge from i to j, as in ``dgl.from_scipy``.
            Every stored entry is an edge. Entries that are not all one become
            ``graph.edata["weight"]``: see :attr:`edge_weight`.
        x : array, tensor or sparse matrix
            Features, a row for each node.
        y : array, tensor or sequence
            Labels: classes counted from 0, or texts. Missing are -1, None,
            NaN, blank texts, and the texts nan, na, n/a, null, none and -1.
        node_ids : array or sequence, optional
            The user's own id of each node.
        split : sequence of float, or mapping, optional
            Three fractions of the labelled nodes, or ids (the user's own, if
            ``node_ids`` is given) or masks of ``train``, ``valid`` and
            ``test``. Default: 0.6, 0.2 and 0.2.
        seed : int
            Seed of a random split.
        name : str
            What to call it.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy import sparse
        >>> from dgl_lc.data import NodeData
        >>> adj = sparse.csr_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), (4, 4))
        >>> data = NodeData.from_scipy(adj, np.eye(4), ["a", "b", "b", "a"])
        >>> data.graph.edges()[1], data.class_names
        (tensor([1, 2, 3]), ['a', 'b'])
        """
        return cls(
            **converters.scipy_arguments(adj, x, y, node_ids, split, seed, name)
        )

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        features: Any = "feat",
        label: str = "label",
        weight: str | None = None,
        split: Any = None,
        seed: int = 0,
        name: str = "networkx",
    ) -> "NodeData":
        """Make a task from a networkx graph.

        An undirected graph gives every edge in both directions. Nodes are in
        the order of ``graph.nodes``, and keep their names as ids.

        Parameters
        ----------
        graph : networkx.Graph
            A graph of any kind.
        features : str, sequence of str, or array
            The attribute of nodes that holds a vector, the attributes that
            hold a number each, or an array with a row for each node.
        label : str
            The attribute of nodes that holds the class: integers or texts.
            Nodes without it have no label.
        weight : str, optional
            The attribute of edges that holds a weight: see
            :attr:`edge_weight`. Default: edges have no weights.
        split : str, sequence of float, or mapping, optional
            The attribute of nodes that holds "train", "valid" or "test"; or
            three fractions of the labelled nodes; or nodes or masks of
            ``train``, ``valid`` and ``test``. Default: the attribute "split"
            if a node has it, or 0.6, 0.2 and 0.2.
        seed : int
            Seed of a random split.
        name : str
            What to call it.

        Examples
        --------
        >>> import networkx as nx
        >>> from dgl_lc.data import NodeData
        >>> g = nx.karate_club_graph()
        >>> for node in g:
        ...     g.nodes[node]["feat"] = [1.0, g.degree(node)]
        >>> data = NodeData.from_networkx(g, label="club", weight="weight")
        >>> data
        NodeData('networkx', 34 nodes, 156 weighted edges, 2 columns,
                 2 classes, 20 train, 7 valid, 7 test)
        >>> data.class_names
        ['Mr. Hi', 'Officer']
        """
        return cls(
            **converters.networkx_arguments(
                graph, features, label, weight, split, seed, name
            )
        )

    @classmethod
    def from_pandas(
        cls,
        edges: Any,
        nodes: Any,
        *,
        source: Any = None,
        target: Any = None,
        weight: Any = True,
        id: Any = "id",
        features: Sequence[Any] | None = None,
        label: Any = "label",
        split: Any = None,
        seed: int = 0,
        add_reverse: bool = False,
        name: str = "pandas",
    ) -> "NodeData":
        """Make a task from a frame of edges and a frame of nodes.

        Parameters
        ----------
        edges : pandas.DataFrame
            A row for each edge, with the ids of both ends.
        nodes : pandas.DataFrame
            A row for each node.
        source, target : column, optional
            The columns of edges with the ends. Default: the first two.
        weight : column or False, optional
            The column of edges with a weight: see :attr:`edge_weight`; False
            or None for edges without weights. Default: the column "weight",
            "weights" or "edge_weight", if one exists.
        id : column, optional
            The column of nodes with the ids: integers, texts, or other
            values. Default: "id", or the index if there is no such column.
        features : sequence of columns, optional
            The columns of nodes that are features. Default: all columns of
            numbers (not of bools) that are nothing else.
        label : column, optional
            The column of nodes with the class: integers, or texts. Missing
            are -1, None, NaN, blank texts, and the texts nan, na, n/a, null,
            none and -1.
        split : column, sequence of float, or mapping, optional
            The column of nodes that holds "train", "valid" or "test"; or
            three fractions of the labelled nodes; or ids or masks of
            ``train``, ``valid`` and ``test``. Default: the column "split" if
            it exists, or 0.6, 0.2 and 0.2.
        seed : int
            Seed of a random split.
        add_reverse : bool
            Whether to give every edge in both directions, once.
        name : str
            What to call it.

        Examples
        --------
        >>> import pandas as pd
        >>> from dgl_lc.data import NodeData
        >>> edges = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"]})
        >>> nodes = pd.DataFrame(
        ...     {"id": list("abc"), "age": [7, 8, 9], "label": ["x", "y", "x"]}
        ... )
        >>> data = NodeData.from_pandas(edges, nodes)
        >>> data.find_nodes(["c", "a"]), data.ids_of([1])
        (tensor([2, 0]), array(['b'], dtype=object))
        """
        return cls(
            **converters.pandas_arguments(
                edges, nodes, source, target, weight, id, features, label,
                split, seed, add_reverse, name,
            )
        )  # fmt: skip

    @property
    def edge_weight(self) -> torch.Tensor | None:
        """The weight of each edge, ``graph.edata["weight"]``, or None.

        The precomputation uses it only if it is asked to:
        ``model.precompute(data.graph, data.feat, edge_weight="weight")``.
        ``edge_weight=False`` ignores it; without either, there is a warning.
        """
        return self.graph.edata.get("weight")

    def ids_of(self, nodes: Any) -> np.ndarray:
        """Return the user's own ids of some nodes.

        Parameters
        ----------
        nodes : Tensor or sequence
            Numbers of nodes, or a mask.

        Returns
        -------
        numpy.ndarray
            int64, or an array of objects, such as str. The numbers of the
            nodes if the task has no ids.
        """
        found = self._numbers(nodes, "nodes").numpy()
        return found if self._ids is None else self._ids.ids[found]

    def find_nodes(self, ids: Any) -> torch.Tensor:
        """Return the numbers of the nodes with these ids of the user.

        Parameters
        ----------
        ids : sequence, array or tensor
            Ids, in any order. One that no node has is an error.
        """
        if self._ids is None:
            return self._numbers(ids, "ids")
        return self._ids.find(ids)

    def _numbers(self, nodes: Any, argument: str) -> torch.Tensor:
        n = self.graph.num_nodes()
        found = check_ids(nodes, argument, n)
        if len(found) and int(found.max()) >= n:
            raise DGLError(
                f"{argument} holds {int(found.max())}, but there are nodes 0 "
                f"to {n - 1}."
            )
        return found

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
        f"{'weighted ' * has_weights(task.graph)}edges": (
            task.graph.num_edges()
        ),
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
