"""Training, on mini-batches of hop features or on the whole graph."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError
from dgl.base import DGLWarning
from torch import nn

from ..nn.model import HopModel
from ..node_rows import NodeRows
from ..precompute.checks import warn_of_unused_weights
from ..ranks.call import RankCall
from ..ranks.group import find_ranks
from .batch_norm import warn_of_local_norms
from .checkpoint import Checkpoint
from .description import describe_run
from .epochs import Source, TrainingRun, parameter_groups
from .history import Fit
from .loader import HopLoader, Inputs, node_labels
from .model_rows import check_output, is_full_graph, model_device, node_ids
from .tensor_files import locked
from .together import Together


def fit(
    model: nn.Module,
    inputs: Inputs,
    labels: torch.Tensor,
    train: torch.Tensor,
    valid: torch.Tensor,
    *,
    valid_inputs: Inputs | None = None,
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
    process_group: Any = None,
) -> Fit:
    """Train with Adam until the validation no longer improves.

    The weights of the best epoch are kept as a copy and put back at the end.
    A model of ``dgl_lc.nn`` remembers whether its inputs were made with edge
    weights, and refuses others later.

    Where ``torch.distributed`` is initialised, as under ``torchrun``, all
    ranks have to make the same call, and train together by
    ``DistributedDataParallel``: each takes its part of every batch and of the
    validation. All begin with the weights of rank 0, and end with the same
    weights and the same result.

    Parameters
    ----------
    model : nn.Module
        A model that is called as ``model(graph, feat)`` and gives a row of
        logits for each row.
    inputs : HopFeatures, sequence of Tensor, or (graph, feat)
        What the model reads: hop features, or plain hops from hop 0 on (None
        for a hop that is not needed), train in mini-batches; a graph with its
        features trains on all of it, one step per epoch, in one process.
        Ranks have the same inputs, or row shards of the same inputs.
    labels : Tensor
        An integer for each node of the graph.
    train, valid : Tensor
        Ids of nodes, or masks with an entry for each node of the graph.
    valid_inputs : optional
        Other inputs for the validation: in the inductive setting ``inputs``
        are of the training subgraph alone.
    batch_size, epochs, patience : int, optional
        Nodes in a batch, epochs at the most, and epochs without an
        improvement after which training stops. Default: those of the paper,
        4096, 2000 and 300. With several ranks, ``batch_size`` is the number
        of nodes of each rank.
    lr, weight_decay : float, optional
        Learning rate and weight decay of Adam. Parameters named in
        ``model.no_weight_decay`` do not decay.
    optimizer : Optimizer, optional
        Another optimizer than Adam; lr and weight_decay are then not used.
    monitor : str, optional
        What has to improve: "loss" (of the validation, the default) or
        "accuracy". Of equally good epochs the first is kept.
    seed : int, optional
        Seed of shuffling and dropout; the generator outside stays as it is.
    device : torch.device, optional
        Device to train on. Default: that of the model.
    checkpoint : path, optional
        A file to resume from after an interruption. It is written every half
        minute, at the end, and when the run is interrupted: it then holds the
        state of the last whole epoch. A run resumes only with the same model,
        optimizer, data and options (``epochs`` and ``patience`` may be
        others); a difference is an error that names it. If the file can't be
        written, for example on a full disk, that is a warning and training
        continues. Rank 0 alone reads and writes it, and the run may resume
        with another number of ranks if ``batch_size`` times their number is
        the same; masks of dropout are then others.
    resume : bool, optional
        Whether to resume from the checkpoint if it exists. Default: True.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, after two
        seconds.
    on_epoch : callable, optional
        Function that is called with each row of the history. It may raise
        an exception to stop the run. It is called on rank 0 alone; changes
        of the optimizer's options, such as the learning rate, reach all
        ranks, and an exception ends all of them.
    process_group : ProcessGroup or False, optional
        The ranks that train together; False for this process alone. Default:
        the default group, if it is initialised.

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
    ranks = find_ranks(process_group)
    with ExitStack() as stack:
        together: Together | None = None
        if ranks is not None:
            call = stack.enter_context(RankCall(ranks, "fit"))
            together = Together(call)
        _check_options(monitor, epochs, patience)
        device = model_device(model) if device is None else torch.device(device)
        model.to(device)
        checked_on = inputs if valid_inputs is None else valid_inputs
        if together is not None:
            together.check(model, inputs, valid_inputs, device)
        if isinstance(model, HopModel):
            _remember_weights(model, inputs)
        train = node_ids(inputs, train, "train", len(labels))
        valid = node_ids(checked_on, valid, "valid", len(labels))
        for name, ids in (("train", train), ("valid", valid)):
            if len(ids) == 0:
                raise DGLError(f"{name} is empty: give at least one node.")
        _warn_of_overlap(train, valid)
        if together is None:
            source = _source(
                inputs, labels, train, batch_size, device, True, seed
            )
            checked = _source(
                checked_on, labels, valid, 4 * batch_size, device, False, seed
            )
        else:
            loader = together.train_loader(
                inputs, train, labels, batch_size, device, seed
            )
            source = _batches(loader)
            checked = _batches(
                together.valid_loader(
                    checked_on, valid, labels, 4 * batch_size, device
                )
            )
        if optimizer is None:
            optimizer = torch.optim.Adam(
                parameter_groups(model, weight_decay), lr=lr
            )
        described: dict[str, str] = {}
        if together is not None or checkpoint is not None:
            size = 1 if ranks is None else ranks.size
            described = describe_run(
                model, optimizer, inputs, valid_inputs, labels, train, valid,
                batch_size=batch_size * size, monitor=monitor, seed=seed,
            )  # fmt: skip
        if together is None:
            run = TrainingRun(model, optimizer, monitor, patience)
        else:
            warn_of_local_norms(model, device)
            together.agree(
                described, inputs, valid_inputs, epochs=epochs,
                patience=patience, batch_size=batch_size, device=device.type,
                checkpoint=checkpoint is not None, resume=resume,
            )  # fmt: skip
            run = stack.enter_context(
                together.run(
                    model, optimizer, monitor, patience, len(loader), seed,
                    device, checkpoint is not None,
                )
            )  # fmt: skip
            if ranks is not None and ranks.rank:
                checkpoint, on_epoch, progress = None, None, False
        saved = None
        if checkpoint is not None:
            path = Path(checkpoint)
            stack.enter_context(locked(path))
            saved = Checkpoint(path, described)
        return run.until(
            epochs, source, checked, seed=seed, progress=progress,
            on_epoch=on_epoch, saved=saved, resume=resume,
        )  # fmt: skip


def _check_options(monitor: str, epochs: int, patience: int) -> None:
    if monitor not in ("loss", "accuracy"):
        raise DGLError(f"monitor={monitor!r} should be 'loss' or 'accuracy'.")
    for name, value in (("epochs", epochs), ("patience", patience)):
        if value < 1:
            raise DGLError(f"{name}={value} should be at least 1.")


def _remember_weights(model: HopModel, inputs: Any) -> None:
    """Let the model know whether it is trained with edge weights.

    Inputs of the other filter are then refused, in validation and later.
    """
    if not is_full_graph(inputs):
        model.weighted = model.weighted_of(inputs)
    elif model.weighted is None:
        # The model precomputes, and uses no weights as it was given none.
        warn_of_unused_weights(inputs[0], None, stacklevel=3)
        model.weighted = False


def _warn_of_overlap(train: torch.Tensor, valid: torch.Tensor) -> None:
    shared = int(torch.isin(valid, train).sum())
    if shared:
        warnings.warn(
            f"{shared:,} of {len(valid):,} nodes of valid are in train as "
            f"well: validation is too good on nodes that were trained on.",
            DGLWarning,
            stacklevel=3,
        )


def _source(
    inputs: Any,
    labels: torch.Tensor,
    ids: torch.Tensor,
    batch_size: int,
    device: torch.device,
    shuffle: bool,
    seed: int,
) -> Source:
    """Make the steps of an epoch: batches, or the whole graph at once."""
    if is_full_graph(inputs):
        graph, feat = inputs
        graph, feat = graph.to(device), feat.to(device)
        if feat.shape[0] != graph.num_nodes():
            raise DGLError(
                f"feat has {feat.shape[0]} rows, but the graph has "
                f"{graph.num_nodes()} nodes."
            )
        rows = NodeRows([feat])
        target = node_labels(labels, rows, rows.positions(ids)).to(device)
        ids = ids.to(device)

        def whole(model: nn.Module, epoch: int) -> Iterator:
            yield check_output(model(graph, feat))[ids], target

        return whole
    return _batches(
        HopLoader(inputs, ids, labels, batch_size, shuffle, device, seed=seed)
    )


def _batches(loader: HopLoader) -> Source:
    def batches(model: nn.Module, epoch: int) -> Iterator:
        loader.set_epoch(epoch)
        for batch, target in loader:
            yield check_output(model(None, batch)), target

    return batches
