"""Training in stages: confident predictions are the labels of the next one."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from ..node_rows import check_ids
from ..ranks.group import find_ranks
from .description import describe_stages
from .epochs import OnEpoch
from .fit import one_function
from .history import Fit
from .loader import Inputs
from .model_rows import model_device
from .stage_record import StageRecord
from .stages import Stages

#: Inputs of each stage: of its number, the nodes that have joined and their
#: probabilities, which are None in the first stage.
StageInputs = Callable[[int, torch.Tensor | None, torch.Tensor | None], Inputs]


def self_train(
    model: nn.Module,
    inputs: Inputs | StageInputs,
    labels: torch.Tensor,
    train: torch.Tensor,
    valid: torch.Tensor,
    *,
    stages: int = 3,
    threshold: float = 0.9,
    unlabelled: torch.Tensor | None = None,
    weight: float = 1.0,
    limit: int | None = None,
    restart: bool = True,
    valid_inputs: Inputs | StageInputs | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    on_epoch: OnEpoch | list[OnEpoch] | None = None,
    process_group: Any = None,
    **options: Any,
) -> Fit:
    """Train in stages, in which confident nodes without a label join.

    The first stage is :func:`fit`. After each stage the nodes without a label
    are predicted. Those with a class of a probability of at least
    ``threshold`` are training nodes of the next stage, with all their
    probabilities as soft labels; each stage chooses them again. At the end
    the model has the weights of the stage with the best validation, whose
    nodes never join.

    Published schemes differ from this one, and from each other. In SLE
    (`Scalable and Adaptive Graph Neural Networks with Self-Label-Enhanced
    training <https://arxiv.org/abs/2104.09376>`__) the target of a node that
    joins is its most probable class alone, and validation nodes join. RLU
    (`Graph Attention Multi-Layer Perceptron
    <https://arxiv.org/abs/2206.04355>`__) has soft targets, each weighted by
    its largest probability and by 0.1 to 10, and validation nodes join. Both
    compute label features again in each stage, from labels of both kinds.

    Parameters
    ----------
    model, labels, train, valid, process_group
        As for :func:`fit`; labels are integers.
    inputs : inputs of fit, or callable
        What the model reads. They need rows of the nodes of ``unlabelled``.
        Or a function ``inputs(stage, ids, probabilities)`` that makes the
        inputs of each stage, for example with labels among its features;
        ``ids`` are the nodes that have joined and ``probabilities`` their
        rows, both None in stage 1. Those of stage 1 are also made when a run
        resumes in a later one, to compare them with those of the run.
    stages : int, optional
        Number of stages. Default: 3.
    threshold : float, optional
        Least probability of a node's most probable class. Default: 0.9.
    unlabelled : Tensor, optional
        Ids or mask of the nodes that may join. Default: all nodes that have
        a row and are in neither ``train`` nor ``valid``; these include test
        nodes, of which no label is read.
    weight : float, optional
        How much a node that joined counts in the loss; a labelled node counts
        1. Default: 1.
    limit : int, optional
        Number of nodes that join at the most; the most confident ones are
        taken. Their probabilities take two bytes per node and class.
    restart : bool, optional
        Whether each stage begins with the weights that the model was given
        with (the default), or with those of the stage before.
    valid_inputs : inputs of fit, or callable, optional
        Other inputs for the validation. Default: ``inputs``.
    seed : int, optional
        Seed of the first stage; later stages count up from it.
    checkpoint : path, optional
        A file to resume from: it holds the finished stages. The running stage
        has its own, with ``.stageN`` after the name, which is removed when
        the stage is finished. ``stages``, ``epochs`` and ``patience`` may be
        others when a run resumes.
    resume : bool, optional
        Whether to resume from the checkpoint if it exists. Default: True.
    on_epoch : callable or sequence of callables, optional
        As for :func:`fit`; rows have ``stage`` and ``pseudo`` as well.
    **options
        Other options of :func:`fit`. ``optimizer`` and ``scheduler`` have to
        be functions, as each stage has its own. ``loss`` is cross entropy.

    Returns
    -------
    Fit
        The history of all stages, whose epochs are counted through, with the
        columns ``stage`` and ``pseudo``, the number of nodes that had joined.

    Examples
    --------
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import self_train
    >>> data = block_model(500, seed=1)
    >>> model = SGC(data.num_feats, data.num_classes)
    >>> hops = model.precompute(data.graph, data.feat)
    >>> found = self_train(
    ...     model, hops, data.labels, data.train, data.valid, stages=2,
    ...     threshold=0.6, epochs=20, lr=0.1,
    ... )
    >>> found.history.stage.tolist() == 20 * [1] + 20 * [2]
    True
    """
    _check_options(stages, threshold, weight, limit, options)
    # Refuses what is not a module.
    model_device(model)
    labels = torch.as_tensor(labels)
    train = check_ids(train, "train", len(labels))
    valid = check_ids(valid, "valid", len(labels))
    if unlabelled is not None:
        unlabelled = check_ids(unlabelled, "unlabelled", len(labels))
        _check_apart(unlabelled, train, valid, len(labels))
    ranks = find_ranks(process_group)
    batch_size = options.setdefault("batch_size", 4096)
    described: dict[str, str] = {}
    first = None
    if checkpoint is not None or ranks is not None:
        # What a function makes is compared as well: the first stage may be
        # finished, and a run on other data must not take it up.
        first = _of_first_stage(inputs)
        described = describe_stages(
            model, first, _of_first_stage(valid_inputs), labels, train, valid,
            unlabelled, inputs_of_stages=inputs if callable(inputs) else None,
            **{
                **options, "threshold": threshold, "weight": weight,
                "limit": limit, "restart": restart, "seed": seed,
                "batch_size": batch_size * (1 if ranks is None else ranks.size),
            },
        )  # fmt: skip
    path = None if checkpoint is None else Path(checkpoint)
    with ExitStack() as stack:
        record = StageRecord(path, described, ranks, stack)
        run = Stages(
            model, inputs, valid_inputs, labels, train, valid, unlabelled,
            threshold, weight, limit, restart, seed, process_group, options,
            record, first,
        )  # fmt: skip
        # They may take much memory, and are not needed in later stages.
        del first
        return run.until(stages, resume, one_function(on_epoch))


def _of_first_stage(given: Any) -> Any:
    return given(1, None, None) if callable(given) else given


def _check_options(
    stages: int,
    threshold: float,
    weight: float,
    limit: int | None,
    options: dict[str, Any],
) -> None:
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 1:
        raise DGLError(f"stages={stages!r} should be an integer, 1 or more.")
    if not 0 <= threshold <= 1:
        raise DGLError(f"threshold={threshold} should be between 0 and 1.")
    if not 0 < weight < float("inf"):
        raise DGLError(f"weight={weight} should be a number above 0.")
    if limit is not None and limit < 1:
        raise DGLError(f"limit={limit} should be at least 1.")
    if options.get("loss") not in (None, "cross_entropy"):
        raise DGLError(
            "loss should be 'cross_entropy' for self_train, which makes soft "
            "labels of probabilities of classes."
        )
    for name in ("optimizer", "scheduler"):
        given = options.get(name)
        if given is not None and not callable(given):
            raise DGLError(
                f"{name} should be a function that makes one for self_train, "
                f"as each stage has its own."
            )


def _check_apart(
    unlabelled: torch.Tensor,
    train: torch.Tensor,
    valid: torch.Tensor,
    num_nodes: int,
) -> None:
    """Refuse nodes that would teach the validation, or have a label."""
    every = torch.cat([unlabelled, train, valid])
    if len(every) and not 0 <= int(every.min()) <= int(every.max()) < num_nodes:
        raise DGLError(
            f"unlabelled, train or valid holds {int(every.max())}, and labels "
            f"has entries of nodes 0 to {num_nodes - 1}."
        )
    # A byte per node, as there may be many.
    mine = torch.zeros(num_nodes, dtype=torch.bool)
    mine[unlabelled] = True
    for name, ids in (("train", train), ("valid", valid)):
        shared = int(mine[ids].sum())
        if shared:
            raise DGLError(
                f"unlabelled holds {shared:,} nodes of {name}: leave them out."
            )
    if int(mine.sum()) != len(unlabelled):
        raise DGLError("unlabelled holds a node twice: use unique().")
