"""ShaDow-GAT, a peer that samples, with DGL's sampler and attention.

It samples a subgraph around each root, and applies a network that may have
more layers than the subgraph has hops.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dgl
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.dataloading import ShaDowKHopSampler
from dgl.nn import AvgPooling, GATConv, MaxPooling
from torch import nn

from ..data import NodeData
from ..nn.dropout import Dropout
from ..node_rows import check_ids
from ..training import Fit
from ..training.epochs import TrainingRun
from ..training.model_rows import check_output, model_device
from ..training.optimizers import parameter_groups
from .originals import with_self_loops

_POOLINGS = {"mean": AvgPooling, "max": MaxPooling}


class ShaDowGAT(nn.Module):
    """Graph attention on the subgraphs around roots, evaluated at the roots.

    From `Decoupling the Depth and Scope of Graph Neural Networks
    <https://arxiv.org/abs/2201.07858>`__.

    Parameters
    ----------
    in_feats, hid_feats, out_feats : int
        Sizes of input, hidden layers and output. Each head has
        ``hid_feats / num_heads`` columns.
    num_layers, num_heads : int, optional
        Number of attention layers, and of their heads. Default: 3 and 4.
    dropout : float, optional
        Dropout rate before each layer and before the output. Default: 0.35.
    pooling : str, optional
        "mean" or "max" of the root's subgraph, as an input of the output
        layer beside the root's row. It requires a subgraph per root.
        Default: None, the root's row alone.
    """

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 3,
        num_heads: int = 4,
        dropout: float = 0.35,
        pooling: str | None = None,
    ) -> None:
        super().__init__()
        _check_count("num_layers", num_layers)
        _check_count("num_heads", num_heads)
        if hid_feats < 1 or hid_feats % num_heads:
            raise DGLError(
                f"hid_feats={hid_feats} should be a multiple of "
                f"num_heads={num_heads}, as all heads have the same width."
            )
        if pooling is not None and pooling not in _POOLINGS:
            raise DGLError(
                f"pooling={pooling!r} should be None, 'mean' or 'max'."
            )
        self.layers = nn.ModuleList(
            GATConv(
                hid_feats if layer else in_feats,
                hid_feats // num_heads,
                num_heads,
            )
            for layer in range(num_layers)
        )
        self.dropout = Dropout(dropout)
        self.pool = _POOLINGS[pooling]() if pooling else None
        read = hid_feats if pooling is None else 2 * hid_feats
        self.output = nn.Linear(read, out_feats)

    def forward(
        self, subgraph: dgl.DGLGraph, feat: torch.Tensor, roots: torch.Tensor
    ) -> torch.Tensor:
        """Compute the logits of the roots.

        Parameters
        ----------
        subgraph : DGLGraph
            The subgraph with self-loops; with pooling, a batch of subgraphs.
        feat : Tensor
            One row per node of the subgraph.
        roots : Tensor
            Positions of the roots among the rows; with pooling, one per
            subgraph of the batch.
        """
        for layer in self.layers:
            feat = F.elu(layer(subgraph, self.dropout(feat)).flatten(1))
        read = feat[roots]
        if self.pool is not None:
            if subgraph.batch_size != len(roots):
                raise DGLError(
                    f"roots has {len(roots)} nodes, but there are "
                    f"{subgraph.batch_size} subgraphs: pooling requires one "
                    f"subgraph per root, so give apart=True."
                )
            read = torch.cat([read, self.pool(subgraph, feat)], dim=1)
        return self.output(self.dropout(read))


def fit_shadow(
    model: nn.Module,
    data: NodeData,
    *,
    fanouts: Sequence[int] = (10, 5),
    apart: bool = True,
    batch_size: int = 128,
    epochs: int = 30,
    patience: int = 10,
    lr: float = 0.001,
    weight_decay: float = 0.0,
    seed: int = 0,
    progress: bool | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Fit:
    """Train on sampled subgraphs until the validation loss stops improving.

    At the end the model has the weights of the best epoch. Training samples
    its subgraphs from ``data.train_graph``, and validation from
    ``data.graph``, the same ones in every epoch. Self-loops are added to
    both.

    Parameters
    ----------
    model : nn.Module
        The model, called as ``model(subgraph, feat, roots)``.
    data : NodeData
        The data set.
    fanouts : sequence of int, optional
        Numbers of neighbours to sample per hop, or -1 for all. As in DGL, the
        last number is for the neighbours of the root. A self-loop counts as a
        neighbour. Default: (10, 5).
    apart : bool, optional
        Whether each root has a subgraph of its own, as in the paper. If not,
        all roots of a batch share one subgraph, as in DGL's sampler. That is
        faster, but with more layers than fanouts the logits of a root then
        depend on the other roots. Default: True.
    batch_size, epochs, patience : int, optional
        Roots per step, maximum number of epochs, and epochs without an
        improvement before training stops. Default: 128, 30 and 10.
    lr, weight_decay : float, optional
        Learning rate and weight decay of the Adam optimizer. Default: 0.001
        and 0.
    seed : int, optional
        Random seed of shuffling, dropout and sampling. It also seeds DGL,
        whose state cannot be restored. With another number of threads, DGL
        samples other subgraphs. Default: 0.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, after two
        seconds.
    on_epoch : callable, optional
        Receives each row of the history; may raise to stop the run.

    Examples
    --------
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.experiments.shadow import ShaDowGAT, fit_shadow
    >>> data = block_model(100, num_feats=8, seed=1)
    >>> model = ShaDowGAT(data.num_feats, 8, data.num_classes)
    >>> found = fit_shadow(model, data, fanouts=(3, 3), epochs=2)
    >>> len(found.history)
    2
    """
    _check_count("epochs", epochs)
    _check_count("patience", patience)
    device = model_device(model)
    seen = _looped(data.train_graph)
    unseen = _looped(data.graph) if data.inductive else seen
    shuffle = torch.Generator().manual_seed(seed)
    train = _Roots(seen, data.feat, data.train, fanouts, batch_size, apart)
    valid = _Roots(unseen, data.feat, data.valid, fanouts, batch_size, apart)

    def steps(
        model: nn.Module, epoch: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(data.train), generator=shuffle)
        _seed_dgl(shuffle)
        for chosen, logits in train.logits(model, order):
            yield logits, data.labels[data.train[chosen]].to(device)

    def checked(
        model: nn.Module, epoch: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        _seed_dgl(torch.Generator().manual_seed(seed))
        order = torch.arange(len(data.valid))
        for chosen, logits in valid.logits(model, order):
            yield logits, data.labels[data.valid[chosen]].to(device)

    optimizer = torch.optim.Adam(parameter_groups(model, weight_decay), lr=lr)
    return TrainingRun(model, optimizer, "loss", patience).until(
        epochs, steps, checked, seed=seed, progress=progress,
        on_epoch=on_epoch,
    )  # fmt: skip


def predict_shadow(
    model: nn.Module,
    data: NodeData,
    nodes: torch.Tensor,
    *,
    fanouts: Sequence[int] = (10, 5),
    apart: bool = True,
    batch_size: int = 128,
    seed: int = 0,
) -> torch.Tensor:
    """Compute the logits of some nodes, from subgraphs of the whole graph.

    Parameters
    ----------
    model : nn.Module
        The model, called as ``model(subgraph, feat, roots)`` in evaluation
        mode.
    data : NodeData
        The data set.
    nodes : Tensor
        Ids of nodes, which give the order of the rows.
    fanouts, apart, batch_size, seed : optional
        As for :func:`fit_shadow`.

    Returns
    -------
    Tensor
        Logits on the CPU, one row per node.
    """
    nodes = check_ids(nodes, "nodes", data.graph.num_nodes())
    if len(nodes) == 0:
        raise DGLError("nodes is empty: give at least one node.")
    if int(nodes.max()) >= data.graph.num_nodes():
        raise DGLError(
            f"nodes holds {int(nodes.max())}, but the graph has nodes 0 to "
            f"{data.graph.num_nodes() - 1}."
        )
    # DGL's sampler does not accept a root that occurs twice.
    roots, where = nodes.unique(return_inverse=True)
    graph = _looped(data.graph)
    source = _Roots(graph, data.feat, roots, fanouts, batch_size, apart)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            _seed_dgl(torch.Generator().manual_seed(seed))
            steps = source.logits(model, torch.arange(len(roots)))
            return torch.cat([logits.cpu() for _, logits in steps])[where]
    finally:
        model.train(training)


class _Roots:
    """Samples subgraphs around nodes, and applies a model to them."""

    def __init__(
        self,
        graph: dgl.DGLGraph,
        feat: torch.Tensor,
        ids: torch.Tensor,
        fanouts: Sequence[int],
        batch_size: int,
        apart: bool,
    ) -> None:
        _check_count("batch_size", batch_size)
        self._sampler = ShaDowKHopSampler(_check_fanouts(fanouts))
        self._graph, self._feat = graph, feat
        self._ids = ids.to(graph.device, graph.idtype)
        self._batch_size, self._apart = batch_size, apart

    def logits(
        self, model: nn.Module, order: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield positions among the ids, and their logits, per batch."""
        device = model_device(model)
        for chosen in order.split(self._batch_size):
            subgraph, nodes, roots = self._draw(self._ids[chosen])
            feat = self._feat[nodes.long()].to(device)
            output = model(subgraph.to(device), feat, roots.to(device))
            yield chosen, check_output(output)

    def _draw(
        self, ids: torch.Tensor
    ) -> tuple[dgl.DGLGraph, torch.Tensor, torch.Tensor]:
        """Sample a subgraph; return it, its node ids, and the roots' rows."""
        if not self._apart:
            nodes, _, subgraph = self._sampler.sample(self._graph, ids)
            return subgraph, nodes, torch.arange(len(ids))
        drawn = [self._sampler.sample(self._graph, i) for i in ids.split(1)]
        nodes = torch.cat([nodes for nodes, _, _ in drawn])
        batch = dgl.batch([g for _, _, g in drawn], ndata=None, edata=None)
        # The root is the first node of its subgraph.
        sizes = batch.batch_num_nodes()
        return batch, nodes, sizes.cumsum(0) - sizes


def _looped(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    """Return the graph with self-loops, but without its node and edge data."""
    graph = with_self_loops(graph)
    # The sampler would copy the data with every subgraph.
    for frame in (graph.ndata, graph.edata):
        for name in list(frame):
            frame.pop(name)
    return graph


def _seed_dgl(generator: torch.Generator) -> None:
    """Seed DGL's sampler from a generator of torch."""
    dgl.seed(int(torch.randint(2**31 - 1, (), generator=generator)))


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise DGLError(f"{name}={value} should be at least 1.")


def _check_fanouts(fanouts: Sequence[int]) -> list[int]:
    try:
        found = [operator.index(fanout) for fanout in fanouts]
    except TypeError:
        found = []
    if not found or any(n < 1 and n != -1 for n in found):
        raise DGLError(
            f"fanouts={fanouts!r} should be a sequence of integers, each at "
            f"least 1, or -1 for all neighbours."
        )
    return found
