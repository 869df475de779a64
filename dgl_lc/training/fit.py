"""Training, on mini-batches of hop features or on the whole graph."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from dgl import DGLError
from torch import nn

from ..hops import HopFeatures, check_ids
from .checkpoint import Checkpoint
from .epochs import Fit, Source, TrainingRun, parameter_groups
from .loader import HopLoader, node_labels
from .predict import check_output, is_full_graph, model_device


def fit(
    model: nn.Module,
    inputs: HopFeatures | Sequence,
    labels: torch.Tensor,
    train: torch.Tensor,
    valid: torch.Tensor,
    *,
    valid_inputs: HopFeatures | Sequence | None = None,
    batch_size: int = 4096,
    epochs: int = 2000,
    patience: int = 300,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    optimizer: torch.optim.Optimizer | None = None,
    monitor: str = "loss",
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    progress: bool | None = None,
    on_epoch: Callable[[dict], None] | None = None,
) -> Fit:
    """Train with Adam until the validation no longer improves.

    The weights of the best epoch are kept as a copy and put back at the end.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(graph, feat)``; gives a row of logits for each row.
    inputs : HopFeatures, sequence of Tensor, or (graph, feat)
        What the model reads: hop features (or its inputs) train in
        mini-batches; a graph with its features trains on all of it, one step
        an epoch.
    labels : Tensor
        An integer for each node of the graph.
    train, valid : Tensor
        Ids of nodes.
    valid_inputs : optional
        Other inputs for the validation: in the inductive setting ``inputs``
        are of the training subgraph alone.
    batch_size, epochs, patience : int, optional
        The paper's by default: 4096, at most 2000, 300 without an
        improvement.
    lr, weight_decay : float, optional
        Of Adam. Parameters named in ``model.no_weight_decay`` do not decay.
    optimizer : Optimizer, optional
        Instead of Adam; lr and weight_decay are then not used.
    monitor : str, optional
        What has to improve: "loss" (of the validation, the default) or
        "accuracy".
    seed : int, optional
        Of shuffling and dropout; the generator outside stays as it is.
    device : torch.device, optional
        Where to train. Default: where the model is.
    checkpoint : path, optional
        A file to go on from after an interruption. It is written every half
        minute, at the end, and when the run is interrupted.
    resume : bool, optional
        Whether to go on from the checkpoint if it is there. Default: True.
    progress : bool, optional
        Show a progress bar. Default: where there is a terminal, after two
        seconds.
    on_epoch : callable, optional
        Called with each row of the history; may raise to stop the run.

    Examples
    --------
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import fit
    >>> data = block_model(500, seed=1)
    >>> model = SGC(data.num_feats, data.num_classes)
    >>> hops = model.precompute(data.graph, data.feat)
    >>> found = fit(
    ...     model, hops, data.labels, data.train, data.valid, epochs=20
    ... )
    >>> len(found.history)
    20
    """
    if monitor not in ("loss", "accuracy"):
        raise DGLError(f"monitor={monitor!r} should be 'loss' or 'accuracy'.")
    for name, value in (("epochs", epochs), ("patience", patience)):
        if value < 1:
            raise DGLError(f"{name}={value} should be at least 1.")
    device = model_device(model) if device is None else torch.device(device)
    model.to(device)
    train, valid = check_ids(train, "train"), check_ids(valid, "valid")
    for name, ids in (("train", train), ("valid", valid)):
        if len(ids) == 0:
            raise DGLError(f"{name} is empty: give at least one node.")
    source = _source(inputs, labels, train, batch_size, device, True, seed)
    checked = _source(
        inputs if valid_inputs is None else valid_inputs,
        labels, valid, 4 * batch_size, device, False, seed,
    )  # fmt: skip
    if optimizer is None:
        optimizer = torch.optim.Adam(
            parameter_groups(model, weight_decay), lr=lr
        )
    run = TrainingRun(model, optimizer, monitor, patience)
    saved = None
    if checkpoint is not None:
        settings = {
            "batch_size": batch_size, "lr": lr, "weight_decay": weight_decay,
            "monitor": monitor, "seed": seed, "train": len(train),
            "valid": len(valid),
        }  # fmt: skip
        saved = Checkpoint(Path(checkpoint), model, settings)

    return run.until(
        epochs, source, checked, seed=seed, device=device, saved=saved,
        resume=resume, progress=progress, on_epoch=on_epoch,
    )  # fmt: skip


def _source(inputs, labels, ids, batch_size, device, shuffle, seed) -> Source:
    if is_full_graph(inputs):
        graph, feat = inputs
        graph, feat = graph.to(device), feat.to(device)
        if feat.shape[0] != graph.num_nodes():
            raise DGLError(
                f"feat has {feat.shape[0]} rows, but the graph has "
                f"{graph.num_nodes()} nodes."
            )
        rows = HopFeatures([feat], [0], None)
        target = node_labels(labels, rows, rows.positions(ids)).to(device)
        ids = ids.to(device)

        def whole(model, epoch):
            yield check_output(model(graph, feat))[ids], target

        return whole
    loader = HopLoader(
        inputs, ids, labels, batch_size, shuffle, device, seed=seed
    )

    def batches(model, epoch):
        loader.set_epoch(epoch)
        for batch, target in loader:
            yield check_output(model(None, batch)), target

    return batches
