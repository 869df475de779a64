"""One run of the experiments: a model with given parameters and one seed.

The record of a run is plain JSON: what was run, the scores by both protocols,
the times as the paper counts them, the course of the validation accuracy, and
the environment.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import dgl
import torch
from torch import nn

from ..data import DiskData, NodeData
from ..nn.model import HopModel
from ..precompute import block_aggregate
from ..training import Fit, fit, predict
from ..transform import lc_transform
from .configure import configure, make_optimizer
from .environment import environment
from .model_names import AUTOMATIC, SHADOW
from .named_models import check_names, make_model
from .shadow import ShaDowGAT, fit_shadow, predict_shadow
from .train_one import accuracy, prepare

#: What a model reads in training, in evaluation, and the seconds it took.
ModelInputs: TypeAlias = tuple[Any, Any, float]

#: Receives each row of the history; may raise to stop the run.
OnEpoch: TypeAlias = Callable[[dict[str, Any]], None]

#: Limits of ShaDow-GAT, whose epoch consists of thousands of subgraphs.
_SHADOW_LIMITS = {"epochs": 30, "patience": 10}


class TaskInputs:
    """What models read of a data set, made once for each kind of model.

    Tuning needs it, since the precomputation does not depend on what is
    tuned.
    """

    def __init__(self, data: NodeData) -> None:
        self._data = data
        self._found: dict[Any, ModelInputs] = {}

    def of(self, model: nn.Module) -> ModelInputs:
        """Return what the model reads, and the seconds that it took."""
        key: Any = "whole graph"
        if isinstance(model, HopModel):
            key = (type(model).__name__, str(model.hops), str(model.filter))
        if key not in self._found:
            self._found[key] = prepare(model, self._data)
        return self._found[key]


class LastEpoch:
    """Copies the weights after each epoch, so that the last ones are kept."""

    def __init__(
        self, model: nn.Module, on_epoch: OnEpoch | None = None
    ) -> None:
        self._model, self._on_epoch = model, on_epoch
        self.state = _copy_weights(model)

    def __call__(self, row: dict[str, Any]) -> None:
        self.state = _copy_weights(self._model)
        if self._on_epoch is not None:
            self._on_epoch(row)


def _copy_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in model.state_dict().items()}


def run_once(
    name: str,
    data: NodeData,
    params: dict[str, Any],
    seed: int = 0,
    *,
    epochs: int = 2000,
    patience: int = 300,
    batch_size: int = 4096,
    hid_feats: int = 256,
    inputs: TaskInputs | None = None,
    on_epoch: OnEpoch | None = None,
) -> dict[str, Any]:
    """Train a model, test it by both protocols, and return the record.

    Best validation: the weights of the epoch with the lowest validation
    loss, which is what we report. Last epoch: the weights at the end, which
    is what the published code reports by mistake.

    Parameters
    ----------
    name : str
        A name of :data:`~dgl_lc.experiments.named_models.NAMES`.
    data : NodeData
        The data set.
    params : dict
        Parameters of :func:`~dgl_lc.experiments.configure.configure`.
    seed : int, optional
        Random seed of weights, shuffling and dropout. Default: 0.
    epochs, patience, batch_size, hid_feats : int, optional
        Limits of the training, and sizes. Default: the paper's.
    inputs : TaskInputs, optional
        Inputs of earlier runs on the same data set.
    on_epoch : callable, optional
        Receives each row of the history; may raise to stop the run.
    """
    check_names([name])
    options, rates = configure(name, params)
    torch.manual_seed(seed)
    if name == SHADOW:
        return _run_shadow(
            data, params, seed, options, rates, epochs, patience, on_epoch
        )
    _warm_up()
    if name in AUTOMATIC:
        original = make_model(AUTOMATIC[name], data, hid_feats, **options)
        model, found = _transform(original, data)
    else:
        model = make_model(name, data, hid_feats, **options)
        found = (inputs or TaskInputs(data)).of(model)
    return train_and_record(
        name, model, data, params, seed, found, rates, on_epoch,
        epochs=epochs, patience=patience, batch_size=batch_size,
    )  # fmt: skip


def train_and_record(
    name: str,
    model: nn.Module,
    data: NodeData | DiskData,
    params: dict[str, Any],
    seed: int,
    inputs: ModelInputs,
    rates: dict[str, Any],
    on_epoch: OnEpoch | None = None,
    **training: Any,
) -> dict[str, Any]:
    """Train a model on its inputs, test it by both protocols, and record it.

    Parameters
    ----------
    name : str
        Name of the model in the record.
    model : nn.Module
        The model.
    data : NodeData or DiskData
        Labels and split, and the name in the record.
    params : dict
        Parameters in the record.
    seed : int
        Random seed of shuffling and dropout.
    inputs : tuple
        What the model reads in training, in evaluation, and the seconds of
        the precomputation.
    rates : dict
        The second result of :func:`~dgl_lc.experiments.configure.configure`.
    on_epoch : callable, optional
        Receives each row of the history; may raise to stop the run.
    **training
        Other options of :func:`~dgl_lc.training.fit`.
    """
    seen, unseen, seconds = inputs
    optimizer = make_optimizer(model, rates)
    last = LastEpoch(model, on_epoch)
    found = fit(
        model, seen, data.labels, data.train, data.valid, valid_inputs=unseen,
        seed=seed, progress=False, on_epoch=last, **training,
        **(rates if optimizer is None else {"optimizer": optimizer}),
    )  # fmt: skip
    return _test_and_record(
        name, model, data, params, seed, found, last, seconds,
        lambda: predict(model, unseen, data.test),
    )  # fmt: skip


def _transform(
    original: nn.Module, data: NodeData
) -> tuple[nn.Module, ModelInputs]:
    """Make the automatic LC version and what it reads, on the clock."""
    (graph, feat), (whole, _), _ = prepare(original, data)
    start = time.perf_counter()
    lc = lc_transform(original, graph, feat)
    seen = unseen = lc.precompute(graph, feat)
    if data.inductive:
        unseen = lc.precompute(whole, feat)
    return lc.module, (seen, unseen, time.perf_counter() - start)


@functools.cache
def _warm_up() -> None:
    """Load the kernels, so that the first run of a process is not slower."""
    g = dgl.rand_graph(200, 2000)
    for columns in (8, 16, 32, 64, 128, 200):
        x = torch.zeros(200, columns)
        block_aggregate(g, x, 2, progress=False)
        block_aggregate(g, x, 2, nodes=[1, 2], progress=False)


def _run_shadow(
    data: NodeData,
    params: dict[str, Any],
    seed: int,
    options: dict[str, Any],
    rates: dict[str, Any],
    epochs: int,
    patience: int,
    on_epoch: OnEpoch | None,
) -> dict[str, Any]:
    model = ShaDowGAT(
        data.num_feats, options.pop("hid_feats", 64), data.num_classes,
        **options,
    )  # fmt: skip
    last = LastEpoch(model, on_epoch)
    found = fit_shadow(
        model, data, seed=seed, progress=False, on_epoch=last,
        epochs=min(epochs, _SHADOW_LIMITS["epochs"]),
        patience=min(patience, _SHADOW_LIMITS["patience"]),
        **rates,
    )  # fmt: skip
    return _test_and_record(
        SHADOW, model, data, params, seed, found, last, 0.0,
        lambda: predict_shadow(model, data, data.test, seed=seed),
    )  # fmt: skip


def _test_and_record(
    name: str,
    model: nn.Module,
    data: NodeData | DiskData,
    params: dict[str, Any],
    seed: int,
    found: Fit,
    last: LastEpoch,
    precompute_seconds: float,
    test_logits: Callable[[], torch.Tensor],
) -> dict[str, Any]:
    """Test the best and the last weights; return the record of the run."""
    labels = data.labels[data.test]
    best_accuracy = accuracy(test_logits(), labels)
    model.load_state_dict(last.state)
    last_accuracy = accuracy(test_logits(), labels)
    history = found.history
    # As in the paper, neither time includes the validation.
    seconds = history.train_seconds
    return {
        "model": name,
        "data": data.name,
        "seed": seed,
        "params": params,
        "test": best_accuracy,
        "valid": found.valid_accuracy,
        "test_last": last_accuracy,
        "valid_last": float(history.valid_accuracy.iloc[-1]),
        "epochs": len(history),
        "best_epoch": int(found.best_epoch),
        "epoch_seconds": float(seconds.mean()),
        "precompute_seconds": precompute_seconds,
        "total_seconds": precompute_seconds + float(seconds.sum()),
        "seconds_with_validation": precompute_seconds + found.seconds,
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "history": {
            "seconds": [round(float(s), 4) for s in seconds.cumsum()],
            "valid": [round(float(v), 5) for v in history.valid_accuracy],
        },
        "environment": environment(),
    }
