"""One run: a model with given parameters on a data set, from one seed.

The record of a run is plain JSON: what was run, both protocols' scores, the
times as the paper counts them, the course of the validation, and the
environment.
"""

import functools
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl
import torch
from dgl import DGLError
from torch import nn

from ..data import NodeData
from ..precompute import block_aggregate
from ..training import Fit, fit, predict
from .configure import configure, make_optimizer
from .shadow import ShaDowGAT, fit_shadow, predict_shadow
from .tasks import accuracy, nearest
from .train_one import MODELS, make_model, prepare

#: The LC versions that lc_transform makes, and of which originals.
AUTOMATIC = {"autoGCN": "GCN", "autoJKNet": "JKNet", "autoGPRGNN": "GPRGNN"}
SHADOW = "ShaDow-GAT"
#: All that can be run.
NAMES = [*MODELS, *AUTOMATIC, SHADOW]
#: ShaDow-GAT's own: an epoch takes thousands of subgraphs.
SHADOW_TRAINING = {"epochs": 30, "patience": 10}


def module_of(name: str) -> str:
    """The LC module that an automatic version is another form of."""
    return f"LC{AUTOMATIC[name]}" if name in AUTOMATIC else name


def check_names(names: list[str]) -> None:
    """An error for a model that is not there, with the nearest one."""
    for name in names:
        if name not in NAMES:
            raise DGLError(
                f"model {name!r} is not known.{nearest(name, NAMES)} Known "
                f"are {', '.join(NAMES)}."
            )


class Inputs:
    """What models read of a data set, made once for each kind of model.

    For tuning: the precomputation does not depend on what is tuned.
    """

    def __init__(self, data: NodeData):
        self.data = data
        self._found: dict[Any, tuple] = {}

    def of(self, model: nn.Module) -> tuple[Any, Any, float]:
        """Inputs for training and for evaluation, and the seconds."""
        key: Any = "whole graph"
        if hasattr(model, "hops"):
            key = (type(model).__name__, str(model.hops), str(model.filter))
        if key not in self._found:
            self._found[key] = prepare(model, self.data)
        return self._found[key]


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
    inputs: Inputs | None = None,
    on_epoch: Callable[[dict], None] | None = None,
) -> dict[str, Any]:
    """Train a model and test it by both protocols.

    Best validation: the weights of the epoch with the lowest validation
    loss, which is what we report. Last epoch: those at the end, as the
    published code does by mistake.
    """
    check_names([name])
    options, training = configure(name, params)
    torch.manual_seed(seed)
    limits: dict[str, Any] = {
        "epochs": epochs,
        "patience": patience,
        "seed": seed,
    }
    if name == SHADOW:
        return _shadow(data, params, options, training, limits, on_epoch)
    model, seen, unseen, seconds = _ready(
        name, data, hid_feats, options, inputs
    )
    optimizer = make_optimizer(model, training)
    if optimizer is not None:
        training = {"optimizer": optimizer}
    last = LastEpoch(model, on_epoch)
    found = fit(
        model, seen, data.labels, data.train, data.valid, valid_inputs=unseen,
        batch_size=batch_size, progress=False, on_epoch=last, **limits,
        **training,
    )  # fmt: skip

    def test():
        return accuracy(predict(model, unseen, data.test), data, data.test)

    best = test()
    model.load_state_dict(last.state)
    return _record(
        name, data, params, seed, found, best, test(), seconds, model
    )


def _ready(name, data, hid_feats, options, inputs):
    """The model, what it reads in training and after, and the seconds."""
    _warm_up()
    if name not in AUTOMATIC:
        model = make_model(name, data, hid_feats, **options)
        return model, *(inputs or Inputs(data)).of(model)
    from .. import lc_transform

    original = make_model(AUTOMATIC[name], data, hid_feats, **options)
    (graph, feat), (whole, _), _ = prepare(original, data)
    start = time.perf_counter()
    lc = lc_transform(original, graph, feat)
    seen = unseen = lc.precompute(graph, feat)
    if data.inductive:
        unseen = lc.precompute(whole, feat)
    return lc.module, seen, unseen, time.perf_counter() - start


@functools.cache
def _warm_up() -> None:
    """Load the kernels, which the first run of a process would pay for."""
    g = dgl.rand_graph(200, 2000)
    for columns in (8, 16, 32, 64, 128, 200):
        x = torch.zeros(200, columns)
        block_aggregate(g, x, 2, progress=False)
        block_aggregate(g, x, 2, nodes=[1, 2], progress=False)


class LastEpoch:
    """Keeps the weights of the last epoch."""

    def __init__(self, model: nn.Module, on_epoch=None):
        self._model, self._on_epoch = model, on_epoch
        self.state = _copy(model)

    def __call__(self, row: dict) -> None:
        self.state = _copy(self._model)
        if self._on_epoch is not None:
            self._on_epoch(row)


def _copy(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in model.state_dict().items()}


def _shadow(data, params, options, training, limits, on_epoch):
    limits = {
        name: min(value, SHADOW_TRAINING.get(name, value))
        for name, value in limits.items()
    }
    model = ShaDowGAT(
        data.num_feats, options.pop("hid_feats", 64), data.num_classes,
        **options,
    )  # fmt: skip
    last = LastEpoch(model, on_epoch)
    found = fit_shadow(
        model, data, progress=False, on_epoch=last, **limits, **training
    )

    def test():
        logits = predict_shadow(model, data, data.test, seed=limits["seed"])
        return accuracy(logits, data, data.test)

    best = test()
    model.load_state_dict(last.state)
    return _record(
        SHADOW, data, params, limits["seed"], found, best, test(), 0.0, model
    )


def _record(
    name: str,
    data: NodeData,
    params: dict,
    seed: int,
    found: Fit,
    best: float,
    last: float,
    precompute: float,
    model: nn.Module,
) -> dict[str, Any]:
    history = found.history
    return {
        "model": name,
        "data": data.name,
        "seed": seed,
        "params": params,
        "test": best,
        "valid": found.valid_accuracy,
        "test_last": last,
        "valid_last": float(history.valid_accuracy.iloc[-1]),
        "epochs": len(history),
        "best_epoch": int(found.best_epoch),
        # One clock for both, as the paper's: validation is not in them.
        "epoch_seconds": float(history.train_seconds.mean()),
        "precompute_seconds": precompute,
        "total_seconds": precompute + float(history.train_seconds.sum()),
        "seconds_with_validation": precompute + found.seconds,
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "history": {
            "seconds": [
                round(float(s), 4) for s in history.train_seconds.cumsum()
            ],
            "valid": [round(float(v), 5) for v in history.valid_accuracy],
        },
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Versions, threads and commit: what a result depends on."""
    from .. import __version__

    return {
        "dgl_lc": __version__,
        "torch": torch.__version__,
        "dgl": dgl.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of this code, if it runs from a repository."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=folder, check=True,
            capture_output=True, text=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
