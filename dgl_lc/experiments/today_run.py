"""One run of the study of today's accuracy, with its record."""

import itertools
import time
import warnings
from typing import Any

import torch
from dgl.base import DGLWarning

from ..data import NodeData
from ..nn.model import HopModel
from ..precompute import with_labels
from ..training import correct_and_smooth, predict
from ..training.label_inputs import compute_labels
from .environment import environment
from .fit_task import fit_task, metric_of
from .named_models import make_model
from .today_space import Contest
from .train_one import accuracy

#: The metric of a data set, if it is not the accuracy.
METRICS = {"tolokers": "roc_auc"}

#: What each part of Correct and Smooth tries on the validation nodes; each
#: part may be left out as well.
NORMS = ("both", "right")
ALPHAS = (0.5, 0.9)
#: Steps of each of its parts.
_STEPS = 10


def metric_for(data: NodeData) -> str:
    """Return the name of the metric that a data set is judged by."""
    # A second data set of a name has its digest appended; see name_data.
    return METRICS.get(data.name.split(" (")[0], "accuracy")


def train_once(
    contest: Contest,
    data: NodeData,
    params: dict[str, Any],
    seed: int = 0,
    *,
    epochs: int = 300,
    patience: int = 60,
    batch_size: int = 4096,
    precision: str = "fp32",
    stages: int = 1,
    threshold: float = 0.9,
    smooth: bool = False,
) -> dict[str, Any]:
    """Train a model, then correct and smooth it; return the record.

    Labels of validation nodes choose the epoch and the parameters of Correct
    and Smooth. They are never an input of the model, and neither they nor
    those of test nodes spread over the graph.

    Parameters
    ----------
    contest : Contest
        The model and its pieces.
    data : NodeData
        The data set.
    params : dict
        Parameters of :meth:`~.today_space.Contest.draw`.
    seed : int, optional
        Random seed of weights, shuffling and dropout. Default: 0.
    epochs, patience, batch_size : int, optional
        Limits of each stage. The patience is that of the metric.
    precision : str, optional
        As in :func:`dgl_lc.training.fit`. Default: ``"fp32"``.
    stages : int, optional
        Stages of self-training. Default: 1, which is none.
    threshold : float, optional
        Least probability of nodes that join a later stage. Default: 0.9.
    smooth : bool, optional
        Whether to correct and smooth afterwards. Default: False.
    """
    # The time of this process alone: studies run beside other work.
    start = time.process_time()
    metric = metric_for(data)
    torch.manual_seed(seed)
    options = contest.model_options(params)
    if contest.labels:
        options["label_feats"] = data.num_classes
    model = make_model(
        contest.entrant.model, data, params.get("hid_feats", 0), **options
    )
    assert isinstance(model, HopModel)
    # Rows of all nodes: Correct and Smooth spreads the predictions of all.
    inputs: Any = model.precompute(data.graph, data.feat, progress=False)
    if contest.labels:
        inputs = with_labels(inputs, compute_labels(model, data))
    with warnings.catch_warnings():
        # The record says how many nodes joined; none is a result as well.
        warnings.filterwarnings("ignore", "none of .* nodes", DGLWarning)
        found = fit_task(
            model, inputs, inputs, data, stages=stages, threshold=threshold,
            lr=params["lr"], weight_decay=params["weight_decay"],
            epochs=epochs, patience=patience, batch_size=batch_size,
            metric=metric, monitor=metric, seed=seed, precision=precision,
            progress=False,
        )  # fmt: skip
    logits = predict(model, inputs).float()
    trained = time.process_time()
    record = {
        "model": contest.title,
        "data": data.name,
        "seed": seed,
        "params": params,
        "stages": stages,
        "threshold": threshold if stages > 1 else None,
        "joined": (int(found.history.pseudo.max()) if stages > 1 else None),
        "metric": metric,
        **_scores(metric, logits, data),
        "epochs": len(found.history),
        "best_epoch": int(found.best_epoch),
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "train_seconds": trained - start,
        "environment": environment(),
    }
    if smooth:
        record["smoothed"] = _smooth(metric, logits, data)
        record["smooth_seconds"] = time.process_time() - trained
    return record


def _scores(
    metric: str, logits: torch.Tensor, data: NodeData
) -> dict[str, float]:
    """Compute the metric and the accuracy on validation and test nodes."""
    found = {}
    for split in ("valid", "test"):
        ids = getattr(data, split)
        own, labels = logits[ids], data.labels[ids]
        right = accuracy(own, labels)
        found[f"{split}_accuracy"] = right
        found[split] = right
        if metric != "accuracy":
            found[split] = metric_of(metric, own, labels)
    return found


def _smooth(
    metric: str, logits: torch.Tensor, data: NodeData
) -> dict[str, Any]:
    """Correct, then smooth, as is best on the validation nodes."""
    rows = logits.softmax(dim=1)
    best = _scores(metric, logits, data)
    steps: dict[str, Any] = {"num_correction": 0, "num_smoothing": 0}
    norms = ("both", "both")
    chosen: dict[str, Any] = {}
    for part in ("correction", "smoothing"):
        before, norms_before = steps, norms
        for norm, alpha in itertools.product(NORMS, ALPHAS):
            trial = {**before, f"{part}_alpha": alpha, f"num_{part}": _STEPS}
            pair = (
                (norm, norms_before[1])
                if part == "correction"
                else (norms_before[0], norm)
            )
            tried = correct_and_smooth(
                rows, data.graph, data.labels, data.train, norm=pair,
                probabilities=True, **trial,
            )  # fmt: skip
            found = _scores(metric, tried, data)
            if found["valid"] > best["valid"]:
                best, steps, norms = found, trial, pair
                chosen[part] = {"norm": norm, "alpha": alpha}
    return {"params": chosen, **best}
