"""Rows of features paired with label features of the same nodes."""

import threading
from collections.abc import Iterator
from typing import Any

import torch
from dgl import DGLError

from .hops import HopFeatures
from .node_rows import NodeRows, and_others
from .row_blocks import Room, RowBlock


class LabelledRows(NodeRows):
    """Inputs of a model, and label features of the same nodes.

    :func:`with_labels` makes them. Loaders, ``fit``, ``predict`` and models
    with ``label_feats`` take them as they take hop features. What is asked of
    them as rows (``len``, ``shape``, ``dtype``, iterating) is that of the
    inputs.

    Attributes
    ----------
    features : NodeRows
        Hop features, or the inputs of a model of several filters.
    labels : HopFeatures
        The label features.
    """

    features: NodeRows
    labels: HopFeatures
    #: Places of the rows in those of features and of labels; None where row
    #: i is row i.
    _feature_places: torch.Tensor | None = None
    _label_places: torch.Tensor | None = None

    def __init__(
        self, features: NodeRows, labels: HopFeatures, nodes: Any, rows: int
    ):
        self.features, self.labels = features, labels
        self.nodes = nodes
        self.shard = features.shard
        self._num_rows = rows
        self._count = len(features)
        self._order = None

    @property
    def _parts(self) -> list[torch.Tensor]:  # type: ignore[override]
        return self.features._parts

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The matrices of the inputs, without the label features."""
        return list(self)

    @property
    def stack(self) -> torch.Tensor:
        """The rows of the inputs as one tensor, matrix after matrix."""
        if self._feature_places is None:
            return self.features.stack
        return torch.cat(list(self))

    def _tensor(self, place: int) -> torch.Tensor:
        return self.tensors[place]

    def __iter__(self) -> Iterator[torch.Tensor]:
        places = self._feature_places
        for tensor in self.features:
            yield tensor if places is None else tensor[places]

    def rows_of_features(self) -> NodeRows:
        """Return the inputs with the same rows, without label features."""
        if self._feature_places is None:
            return self.features
        assert self.nodes is not None
        return self.features.take(self._feature_places, self.nodes)

    @property
    def nbytes(self) -> int:
        """The bytes of all matrices together."""
        return self.features.nbytes + self.labels.nbytes

    def take(
        self,
        places: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> "LabelledRows":
        """Gather rows by their places; ``out`` is for those of the inputs."""
        features = self.features.take(
            _through(self._feature_places, places), nodes, out
        )
        labels = self.labels.take(_through(self._label_places, places), nodes)
        return self.paired(features, labels, nodes)

    def paired(
        self, features: NodeRows, labels: HopFeatures, nodes: torch.Tensor
    ) -> "LabelledRows":
        """Pair rows of a batch that were taken from both."""
        found = LabelledRows(features, labels, nodes, len(nodes))
        found.shard = None
        return found

    def read(
        self,
        places: torch.Tensor,
        room: Room,
        stopped: threading.Event | None = None,
    ) -> "LabelledBlock":
        """Read rows of both by their places."""
        return LabelledBlock(
            self,
            self.features.read(
                _through(self._feature_places, places), room, stopped
            ),
            self.labels.read(
                _through(self._label_places, places), room, stopped
            ),
        )

    @property
    def row_bytes(self) -> int:
        """The bytes of the rows of one node, with its label features."""
        return self.features.row_bytes + self.labels.row_bytes

    @property
    def on_disk(self) -> bool:
        """Whether rows of one of them are read from a disk."""
        return self.features.on_disk or self.labels.on_disk

    def prefetch(self, places: torch.Tensor) -> None:
        """Announce rows that are needed soon."""
        self.features.prefetch(_through(self._feature_places, places))
        self.labels.prefetch(_through(self._label_places, places))

    def _each(self, name: str, *args: Any, **kwargs: Any) -> "LabelledRows":
        """Call a method of both, which keeps their rows."""
        found = LabelledRows(
            getattr(self.features, name)(*args, **kwargs),
            getattr(self.labels, name)(*args, **kwargs),
            self.nodes, self._num_rows,
        )  # fmt: skip
        found._feature_places = self._feature_places
        found._label_places = self._label_places
        found.shard = self.shard
        return found

    def to(self, *args: Any, **kwargs: Any) -> "LabelledRows":
        """Move or convert the rows, as :meth:`torch.Tensor.to`."""
        return self._each("to", *args, **kwargs)

    def pin_memory(self) -> "LabelledRows":
        """Pin the rows in memory, as :meth:`torch.Tensor.pin_memory`."""
        return self._each("pin_memory")

    def __repr__(self) -> str:
        return f"LabelledRows({self.features}, labels={self.labels})"


class LabelledBlock:
    """A block of the inputs of a model, and one of its label features."""

    def __init__(
        self, rows: LabelledRows, features: RowBlock, labels: RowBlock
    ):
        self._rows, self._features, self._labels = rows, features, labels

    def take(
        self,
        which: torch.Tensor,
        nodes: torch.Tensor,
        out: torch.Tensor | None = None,
    ) -> Any:
        """Gather rows of the block; ``out`` is for those of the inputs."""
        return self._rows.paired(
            self._features.take(which, nodes, out),
            self._labels.take(which, nodes),
            nodes,
        )


def with_labels(hops: NodeRows, label_hops: HopFeatures) -> LabelledRows:
    """Pair hop features, or other inputs of a model, with label features.

    The result has the rows of the nodes that have both. All nodes of one of
    them have to have a row in the other.

    Parameters
    ----------
    hops : HopFeatures or ModelInputs
        What ``model.precompute`` gives, in memory or on disk. Row shards are
        paired with label features that have all rows of the shard.
    label_hops : HopFeatures
        What :func:`dgl_lc.precompute.label_features` gives, in memory or on
        disk.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.precompute import label_features, with_labels
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> model = SGC(3, 2, label_feats=2, label_hops=1)
    >>> labels = label_features(g, torch.tensor([0, 1, 0]), [0, 1], 1, parts=2)
    >>> inputs = with_labels(model.precompute(g, torch.eye(3)), labels)
    >>> model(None, inputs.rows(torch.tensor([2, 0]))).shape
    torch.Size([2, 2])
    """
    if isinstance(hops, LabelledRows):
        raise DGLError("hops has label features already: give hops.features.")
    if not isinstance(hops, NodeRows):
        raise DGLError(
            f"hops should be hop features, as model.precompute makes them, "
            f"got {type(hops).__name__}."
        )
    if not isinstance(label_hops, HopFeatures):
        raise DGLError(
            f"label_hops should be what label_features gives, got "
            f"{type(label_hops).__name__}."
        )
    _check_graph(hops, label_hops)
    if label_hops.shard not in (None, hops.shard):
        raise DGLError(
            f"label_hops is row shard {label_hops.shard}, and hops has "
            f"shard={hops.shard}: give label features of all rows."
        )
    ids, label_ids = _ids(hops), _ids(label_hops)
    if len(ids) == len(label_ids) and bool((ids == label_ids).all()):
        return LabelledRows(hops, label_hops, hops.nodes, len(ids))
    lacking = _count_lacking(ids, label_ids)
    if not lacking:
        found = LabelledRows(hops, label_hops, hops.nodes, len(ids))
        found._label_places = label_hops.positions(ids)
        return found
    if hops.shard is None and not _count_lacking(label_ids, ids):
        nodes = label_ids
        found = LabelledRows(hops, label_hops, nodes, len(nodes))
        found._feature_places = hops.positions(nodes)
        return found
    node = int(ids[~torch.isin(ids, label_ids)][0])
    raise DGLError(
        f"label_hops has no row of node {node}{and_others(lacking)} of which "
        f"hops has one: compute label features with nodes=hops.nodes."
    )


def _through(places: torch.Tensor | None, at: torch.Tensor) -> torch.Tensor:
    return at if places is None else places[at]


def _ids(rows: NodeRows) -> torch.Tensor:
    """Return the node of each row."""
    if rows.nodes is not None:
        return rows.nodes.cpu()
    return torch.arange(rows.shape[0])


def _count_lacking(ids: torch.Tensor, others: torch.Tensor) -> int:
    return int((~torch.isin(ids, others)).sum())


def _check_graph(hops: NodeRows, label_hops: HopFeatures) -> None:
    """Refuse hop features and label features of different graphs."""
    one = hops.filter.graph if isinstance(hops, HopFeatures) else None
    other = label_hops.filter.graph
    if one is not None and other is not None and one != other:
        raise DGLError(
            f"label_hops is of another graph than hops: of one with {other}, "
            f"while that of hops has {one}. Compute both on one graph."
        )
