"""ShaDow-GAT, a peer that samples, with DGL's sampler and attention.

An enclosing subgraph is drawn around each root, and a network that may be
deeper than the subgraph reads it.
"""

import operator
from collections.abc import Callable, Iterator, Sequence

import dgl
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl.dataloading import ShaDowKHopSampler
from dgl.nn import AvgPooling, GATConv, MaxPooling
from torch import nn

from ..data import NodeData
from ..hops import check_ids
from ..nn.dropout import Dropout
from ..training import Fit
from ..training.epochs import TrainingRun, parameter_groups
from ..training.predict import check_output, model_device

_POOLINGS = {"mean": AvgPooling, "max": MaxPooling}


class ShaDowGAT(nn.Module):
    """Graph attention on enclosing subgraphs, read at the roots.

    From `Decoupling the Depth and Scope of Graph Neural Networks
    <https://arxiv.org/abs/2201.07858>`__.

    Parameters
    ----------
    in_feats, hid_feats, out_feats : int
        Columns. Each head has ``hid_feats / num_heads``.
    num_layers, num_heads : int, optional
        Of the attention. Default: 3 layers of 4 heads.
    dropout : float, optional
        Before each layer and before the output. Default: 0.35.
    pooling : str, optional
        "mean" or "max" of the root's subgraph, read beside the root.
        Default: None, the root alone. Subgraphs have to be apart for it.
    """

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        num_layers=3,
        num_heads=4,
        dropout=0.35,
        pooling=None,
    ):
        super().__init__()
        _check_count("num_layers", num_layers)
        _check_count("num_heads", num_heads)
        if hid_feats < 1 or hid_feats % num_heads:
            raise DGLError(
                f"hid_feats={hid_feats} should be a multiple of "
                f"num_heads={num_heads}: heads are of one width."
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

    def forward(self, subgraph, feat, roots):
        """Logits of the roots.

        Parameters
        ----------
        subgraph : DGLGraph
            With self-loops; a batch of subgraphs if there is a pooling.
        feat : Tensor
            A row for each node of the subgraph.
        roots : Tensor
            Where the roots are among the rows; one for each subgraph of a
            batch if there is a pooling.
        """
        for layer in self.layers:
            feat = F.elu(layer(subgraph, self.dropout(feat)).flatten(1))
        read = feat[roots]
        if self.pool is not None:
            if subgraph.batch_size != len(roots):
                raise DGLError(
                    f"roots has {len(roots)} nodes, but there are "
                    f"{subgraph.batch_size} subgraphs: pooling wants one for "
                    f"each root, with apart=True."
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
    on_epoch: Callable[[dict], None] | None = None,
) -> Fit:
    """Train on sampled subgraphs until the validation loss is at its best.

    The weights of the best epoch are kept as a copy and put back at the end.
    Training draws its subgraphs from ``data.train_graph``, validation from
    ``data.graph``, the same ones in every epoch; both get self-loops.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(subgraph, feat, roots)``.
    data : NodeData
        The dataset.
    fanouts : sequence of int, optional
        Neighbours to draw, -1 for all, in DGL's order: the last is of the
        root's own. A self-loop is a neighbour too.
    apart : bool, optional
        Whether each root has a subgraph of its own, as in the paper: the
        default. DGL's sampler takes one subgraph for all roots of a batch,
        which is quicker, as nodes are shared; but if there are more layers
        than fanouts, a root's logits then depend on the others.
    batch_size, epochs, patience : int, optional
        128 roots a step, at most 30 epochs, 10 without an improvement.
    lr, weight_decay : float, optional
        Of Adam.
    seed : int, optional
        Of shuffling, dropout and sampling. It seeds DGL, the state of which
        cannot be put back; for another number of threads DGL draws others.
    progress : bool, optional
        Show a progress bar. Default: where there is a terminal, after two
        seconds.
    on_epoch : callable, optional
        Called with each row of the history; may raise to stop the run.

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

    def steps(model, epoch):
        order = torch.randperm(len(data.train), generator=shuffle)
        _seed_dgl(shuffle)
        for chosen, logits in train.logits(model, order):
            yield logits, data.labels[data.train[chosen]].to(device)

    def checked(model, epoch):
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
    """Logits of some nodes, from subgraphs of the whole graph.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(subgraph, feat, roots)``, in evaluation mode.
    data : NodeData
        The dataset.
    nodes : Tensor
        Ids of nodes; the logits are in this order.
    fanouts, apart, batch_size, seed : optional
        As for :func:`fit_shadow`.

    Returns
    -------
    Tensor
        On the CPU, a row for each node.
    """
    nodes = check_ids(nodes, "nodes")
    if len(nodes) == 0:
        raise DGLError("nodes is empty: give at least one node.")
    if int(nodes.max()) >= data.graph.num_nodes():
        raise DGLError(
            f"nodes holds {int(nodes.max())}, but the graph has nodes 0 to "
            f"{data.graph.num_nodes() - 1}."
        )
    # DGL's sampler refuses a root that is there twice.
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
    """Nodes, and the subgraphs to draw around them."""

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
        """Places among the ids, and their logits, batch by batch."""
        device = model_device(model)
        for chosen in order.split(self._batch_size):
            subgraph, nodes, roots = self._draw(self._ids[chosen])
            feat = self._feat[nodes.long()].to(device)
            output = model(subgraph.to(device), feat, roots.to(device))
            yield chosen, check_output(output)

    def _draw(
        self, ids: torch.Tensor
    ) -> tuple[dgl.DGLGraph, torch.Tensor, torch.Tensor]:
        """The subgraph, its nodes' ids, and where in it the roots are."""
        if not self._apart:
            nodes, _, subgraph = self._sampler.sample(self._graph, ids)
            return subgraph, nodes, torch.arange(len(ids))
        drawn = [self._sampler.sample(self._graph, i) for i in ids.split(1)]
        nodes = torch.cat([nodes for nodes, _, _ in drawn])
        batch = dgl.batch([g for _, _, g in drawn], ndata=None, edata=None)
        # A root is the first node of its subgraph.
        sizes = batch.batch_num_nodes()
        return batch, nodes, sizes.cumsum(0) - sizes


def _looped(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    """The graph alone, with self-loops, as the originals get it."""
    # DGL cannot take edges out of a graph that has no COO format.
    graph = graph.formats(["coo", "csr", "csc"])
    graph = dgl.add_self_loop(dgl.remove_self_loop(graph))
    # What nodes and edges carry would be cut out with every subgraph.
    for frame in (graph.ndata, graph.edata):
        for name in list(frame):
            frame.pop(name)
    return graph


def _seed_dgl(generator: torch.Generator) -> None:
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
            f"fanouts={fanouts!r} should be a sequence of numbers of "
            f"neighbours, at least 1, or -1 for all."
        )
    return found
