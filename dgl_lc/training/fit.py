"""Training, on mini-batches of hop features or on the whole graph."""

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError
from dgl.base import DGLWarning
from torch import nn

from ..labelled_rows import LabelledRows
from ..nn.model import HopModel
from ..precompute.checks import warn_of_unused_weights
from ..ranks.call import RankCall
from ..ranks.group import find_ranks
from .batch_norm import warn_of_local_norms
from .checkpoint import Checkpoint
from .chunk_order import RowChunks
from .consistency import Consistency, check_consistency
from .decide_shuffle import decide_shuffle
from .description import describe_run
from .epochs import OnEpoch, Source, TrainingRun
from .history import Fit
from .loader import HopLoader, Inputs
from .losses import Loss, Objective, loss_kind, make_class_weight
from .metrics import MetricGiven, make_metric
from .model_rows import is_full_graph, model_device, node_ids
from .optimizers import make_optimizer, parameter_groups
from .output_kind import remember_output
from .pieces import SampleLoader
from .precision import check_precision
from .run_options import RunOptions
from .schedules import SchedulerGiven, check_mode, make_scheduler
from .shuffling import check_shuffle
from .step_sources import batches, rows_of, whole_graph
from .targets import PseudoLabels, Targets, make_targets
from .tensor_files import locked
from .together import Together


def fit(
    model: nn.Module,
    inputs: Inputs,
    labels: torch.Tensor | PseudoLabels,
    train: torch.Tensor,
    valid: torch.Tensor,
    *,
    valid_inputs: Inputs | None = None,
    batch_size: int = 4096,
    epochs: int = 2000,
    patience: int = 300,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    optimizer: torch.optim.Optimizer
    | Callable[[list], torch.optim.Optimizer]
    | None = None,
    scheduler: SchedulerGiven = None,
    loss: Loss = None,
    class_weight: torch.Tensor | Sequence[float] | str | None = None,
    metric: MetricGiven = None,
    monitor: str = "loss",
    clip_norm: float | None = None,
    precision: str = "fp32",
    consistency: Consistency | None = None,
    shuffle: str | RowChunks = "auto",
    shuffle_buffer: int | str | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    progress: bool | None = None,
    on_epoch: OnEpoch | Sequence[OnEpoch] | None = None,
    process_group: Any = None,
) -> Fit:
    """Train with Adam until the validation no longer improves.

    The weights of the best epoch are kept as a copy and put back at the end.
    A model of ``dgl_lc.nn`` remembers whether its inputs were made with edge
    weights, and refuses others later. What the output stands for is in
    ``model.trained_on`` then, for ``write_predictions`` and ``save_model``.

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
        An integer for each node of the graph. For the cross entropy it may
        also be a float row of probabilities for each node; for other losses
        it is a number or a row of numbers: see ``loss``.
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
    optimizer : Optimizer or callable, optional
        Another optimizer than Adam, or a function that makes one from a list
        of parameters; lr and weight_decay are then not used.
    scheduler : LRScheduler or callable, optional
        A scheduler of ``torch.optim.lr_scheduler`` for ``optimizer``, or a
        function that makes one for an optimizer. It makes one step per epoch;
        ``ReduceLROnPlateau`` gets the monitored value.
    loss : str or callable, optional
        What is minimised, as a mean over rows. "cross_entropy" (the default)
        is for classes. "bce" is for several classes per node: logits and
        labels have a column for each class, labels of 0 and 1 (or between);
        "mse" and "l1" are for numbers: as many columns as labels have. Each
        is a mean over columns. A function ``loss(logits, target)`` gives the
        loss of each row, or their mean over rows: the loss of several ranks
        is exact only if it is a plain mean.
    class_weight : Tensor or "balanced", optional
        Weights of classes in the cross entropy: the mean over rows is then
        weighted by them, as that of ``torch.nn.CrossEntropyLoss``. For "bce"
        the weight of the positives of each column. "balanced" gives all
        classes (in a column, positives and negatives) the same total weight
        among the training nodes. The validation loss has the same weights.
    metric : str or callable, optional
        A figure of the validation beside its loss, in the column
        ``valid_METRIC`` of the history: "accuracy" (the default; with "bce"
        that of all entries), "macro_f1", "micro_f1" (the default for "bce")
        or "roc_auc" (of two classes, or the mean over columns in which both
        occur); for numbers "r2", "mae" (the default) or "rmse". Or a function
        of all logits and targets of the validation, on the CPU, of which
        higher values are better.
    monitor : str, optional
        What has to improve: "loss" (of the validation, the default) or the
        name of the metric. Of equally good epochs the first is kept.
    clip_norm : float, optional
        Norm to which the gradients of a step are cut, if theirs is larger.
    precision : str, optional
        "fp32" (the default: the model's own number type) or "bf16", which
        computes in bfloat16 by ``torch.autocast``. Weights stay as they are,
        and losses are computed in float32.
    consistency : Consistency, optional
        A loss between passes with different masks of dropout, of nodes with
        and without a label. The history then has ``train_consistency``.
    shuffle : str, optional
        "full" shuffles all training rows together; rows of a store are read
        one by one. "chunks" reads rows that lie together in a store at once,
        shuffles such chunks, and mixes the rows of many in a buffer: for a
        store that is larger than memory, of which it reads 2 to 9 times as
        many rows per second, depending on the disk. "auto" (the default)
        takes "chunks" if the training rows lie in a store and take more than
        half of the memory that is available, and "full" if not; a run that
        resumes does as its checkpoint says. The choice is logged
        (``logging``, level INFO).
    shuffle_buffer : int or str, optional
        Bytes of the buffer of "chunks". Default: "1GiB".
    seed : int, optional
        Seed of shuffling and dropout; the generator outside stays as it is.
    device : torch.device, optional
        Device to train on. Default: that of the model.
    checkpoint : path, optional
        A file to resume from after an interruption. It is written every half
        minute, at the end, and when the run is interrupted: it then holds the
        state of the last whole epoch. A run resumes only with the same model,
        optimizer, data and options (``epochs`` and ``patience`` may be
        others); a difference is an error that names it. Functions are
        compared by their names alone. If the file can't be
        written, for example on a full disk, that is a warning and training
        continues. Rank 0 alone reads and writes it, and the run may resume
        with another number of ranks if ``batch_size`` times their number is
        the same; masks of dropout are then others.
    resume : bool, optional
        Whether to resume from the checkpoint if it exists. Default: True.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, after two
        seconds.
    on_epoch : callable or sequence of callables, optional
        Functions that are called with each row of the history, a dict. They
        may raise an exception to stop the run. They are called on rank 0
        alone; changes of the optimizer's options, such as the learning rate,
        reach all ranks, and an exception ends all of them.
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
        kind = loss_kind(loss)
        _check_options(epochs, patience, clip_norm)
        check_precision(precision)
        check_shuffle(shuffle, shuffle_buffer, is_full_graph(inputs))
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
        targets = make_targets(labels, rows_of(inputs), train, kind)
        checks = make_targets(labels, rows_of(checked_on), valid, kind)
        figure = make_metric(metric, kind, checks)
        if monitor not in ("loss", figure.name):
            raise DGLError(
                f"monitor={monitor!r} should be 'loss' or {figure.name!r}."
            )
        weights = make_class_weight(class_weight, kind, targets)
        balanced = isinstance(class_weight, str)
        unlabelled = None
        if consistency is not None:
            check_consistency(consistency, kind, targets.classes)
            if consistency.unlabelled is not None:
                unlabelled = node_ids(
                    inputs, consistency.unlabelled, "consistency.unlabelled",
                    len(labels),
                )  # fmt: skip
                consistency = replace(consistency, unlabelled=unlabelled)
        chunks = None
        if not is_full_graph(inputs):
            chunks = decide_shuffle(
                together, rows_of(inputs), len(train), shuffle, shuffle_buffer,
                batch_size, checkpoint if resume else None,
            )  # fmt: skip
        source, steps = _training_source(
            together, inputs, targets, train, batch_size, device, seed,
            precision, consistency, unlabelled, chunks or "full",
        )  # fmt: skip
        checked = _validation_source(
            together, checked_on, checks, valid, 4 * batch_size, device,
            precision,
        )  # fmt: skip
        if optimizer is None:
            optimizer = torch.optim.Adam(
                parameter_groups(model, weight_decay), lr=lr
            )
        else:
            optimizer = make_optimizer(optimizer, list(model.parameters()))
        schedule = make_scheduler(scheduler, optimizer)
        check_mode(schedule, monitor == "loss" or figure.lower)
        options = RunOptions(
            Objective(loss, weights, balanced),
            figure,
            schedule,
            clip_norm,
            consistency,
        )
        described: dict[str, str] = {}
        if together is not None or checkpoint is not None:
            size = 1 if ranks is None else ranks.size
            described = describe_run(
                model, optimizer, inputs, valid_inputs, (train, targets),
                (valid, checks), options, size, batch_size=batch_size * size,
                monitor=monitor, seed=seed, precision=precision,
                shuffle=str(chunks or "full"),
            )  # fmt: skip
        if together is None:
            run = TrainingRun(
                model, optimizer, monitor, patience, options=options
            )
        else:
            warn_of_local_norms(model, device)
            together.agree(
                described, inputs, valid_inputs, epochs=epochs,
                patience=patience, batch_size=batch_size, device=device.type,
                checkpoint=checkpoint is not None, resume=resume,
            )  # fmt: skip
            run = stack.enter_context(
                together.run(
                    model, optimizer, monitor, patience, options, steps,
                    seed, device, checkpoint is not None,
                )
            )  # fmt: skip
            if ranks is not None and ranks.rank:
                checkpoint, on_epoch, progress = None, None, False
        remember_output(model, kind, targets.classes)
        saved = None
        if checkpoint is not None:
            path = Path(checkpoint)
            stack.enter_context(locked(path))
            saved = Checkpoint(path, described)
        found = run.until(
            epochs, source, checked, seed=seed, progress=progress,
            on_epoch=one_function(on_epoch), saved=saved, resume=resume,
        )  # fmt: skip
        return replace(found, shuffle=str(chunks or "full"))


def _check_options(epochs: int, patience: int, clip_norm: float | None) -> None:
    for name, value in (("epochs", epochs), ("patience", patience)):
        if value < 1:
            raise DGLError(f"{name}={value} should be at least 1.")
    if clip_norm is not None and not 0 < clip_norm < math.inf:
        raise DGLError(f"clip_norm={clip_norm} should be a number above 0.")


def one_function(
    given: OnEpoch | Sequence[OnEpoch] | None,
) -> OnEpoch | None:
    """Make one function of those that are called with each row."""
    if given is None or callable(given):
        return given
    functions = list(given)
    if not all(map(callable, functions)):
        raise DGLError("on_epoch should be a function, or several of them.")

    def call_all(row: dict) -> None:
        for function in functions:
            function(row)

    return call_all


def _remember_weights(model: HopModel, inputs: Any) -> None:
    """Let the model know whether it is trained with edge weights.

    Inputs of the other filter are then refused, in validation and later.
    """
    if isinstance(inputs, LabelledRows):
        model.label_recipe = inputs.labels.label_recipe
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


def _training_source(
    together: Together | None,
    inputs: Any,
    targets: Targets,
    ids: torch.Tensor,
    batch_size: int,
    device: torch.device,
    seed: int,
    precision: str,
    consistency: Consistency | None,
    unlabelled: torch.Tensor | None,
    shuffle: str | RowChunks,
) -> tuple[Source, int]:
    """Make the steps of training; return them and their number."""
    passes = consistency is not None
    if is_full_graph(inputs):
        whole = whole_graph(
            inputs, targets, ids, device, precision, unlabelled, passes
        )
        return whole, 1
    if together is None:
        loader = HopLoader(
            inputs, ids, targets, batch_size, shuffle, device, seed=seed
        )
    else:
        loader = together.train_loader(
            inputs, ids, targets, batch_size, device, seed, shuffle
        )
    others: HopLoader | None = None
    if consistency is not None and unlabelled is not None:
        drawn = consistency.batch_size or batch_size
        if together is not None:
            others = together.sample_loader(
                inputs, unlabelled, drawn, device, seed, len(loader)
            )
        else:
            others = SampleLoader(
                inputs, unlabelled, None, drawn, True, device, seed=seed,
                steps=len(loader),
            )  # fmt: skip
    return batches(loader, device, precision, others, passes), len(loader)


def _validation_source(
    together: Together | None,
    inputs: Any,
    targets: Targets,
    ids: torch.Tensor,
    batch_size: int,
    device: torch.device,
    precision: str,
) -> Source:
    """Make the steps of the validation."""
    if is_full_graph(inputs):
        return whole_graph(inputs, targets, ids, device, precision)
    if together is None:
        loader = HopLoader(inputs, ids, targets, batch_size, False, device)
    else:
        loader = together.valid_loader(inputs, ids, targets, batch_size, device)
    return batches(loader, device, precision)
