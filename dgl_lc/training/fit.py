"""Training, on mini-batches of hop features or on the whole graph."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from dgl import DGLError
from torch import nn
from tqdm.auto import tqdm

from ..hops import HopFeatures, check_ids
from .checkpoint import Checkpoint
from .loader import HopLoader, node_labels
from .predict import check_output, is_full_graph, model_device

#: Seconds between two checkpoints.
_CHECKPOINT_SECONDS = 30.0


@dataclass
class Fit:
    """What a training run did; the model holds the weights of the best epoch.

    Attributes
    ----------
    history : DataFrame
        A row for each epoch: train_loss, valid_loss, valid_accuracy,
        train_seconds (of the epoch's steps) and seconds (since the start,
        evaluation included).
    best_epoch : int
        The epoch whose weights were kept, from 1.
    """

    history: pd.DataFrame
    best_epoch: int

    @property
    def valid_accuracy(self) -> float:
        """Validation accuracy in the best epoch."""
        return float(self.history.valid_accuracy[self.best_epoch])

    @property
    def epoch_seconds(self) -> float:
        """Median seconds of an epoch's steps."""
        return float(self.history.train_seconds.median())

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return float(self.history.seconds.iloc[-1])

    def __str__(self) -> str:
        return (
            f"best of {len(self.history)} epochs: {self.best_epoch}, "
            f"validation accuracy {self.valid_accuracy:.4f}; "
            f"{self.epoch_seconds:.3f} s an epoch, {self.seconds:.1f} s in all"
        )


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
        optimizer = torch.optim.Adam(_groups(model, weight_decay), lr=lr)
    run = _Run(model, optimizer, monitor, patience)
    saved = None
    if checkpoint is not None:
        settings = {
            "batch_size": batch_size, "lr": lr, "weight_decay": weight_decay,
            "monitor": monitor, "seed": seed, "train": len(train),
            "valid": len(valid),
        }  # fmt: skip
        saved = Checkpoint(Path(checkpoint), model, settings)

    with torch.random.fork_rng(
        devices=[device] if device.type == "cuda" else []
    ):
        torch.manual_seed(seed)
        if saved is not None and resume and saved.exists():
            run.load(saved.read())
        start = time.perf_counter() - run.seconds
        written = time.perf_counter()
        try:
            with tqdm(
                total=epochs, initial=run.epoch, unit="epoch",
                desc=type(model).__name__, delay=0 if progress else 2,
                disable=None if progress is None else not progress,
            ) as bar:  # fmt: skip
                while run.epoch < epochs and not run.exhausted:
                    row = run.one_epoch(source, checked, start)
                    bar.update()
                    bar.set_postfix(
                        loss=f"{row['train_loss']:.3f}",
                        valid=f"{row['valid_accuracy']:.3f}",
                    )
                    if on_epoch is not None:
                        on_epoch(row)
                    now = time.perf_counter()
                    if saved and now - written > _CHECKPOINT_SECONDS:
                        saved.write(run.state())
                        written = now
        finally:
            # Also when it is interrupted: nothing is lost.
            if saved is not None and run.whole:
                saved.write(run.state())
            run.restore_best()
    history = pd.DataFrame(run.rows).set_index("epoch")
    return Fit(history, run.best_epoch)


def _groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Parameter groups: what decays, and what does not."""
    spared: frozenset[str] = getattr(model, "no_weight_decay", frozenset())
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not named:
        raise DGLError("the model has no parameters to train.")
    groups = [
        {
            "params": [p for n, p in named if n not in spared],
            "weight_decay": weight_decay,
        },
        {
            "params": [p for n, p in named if n in spared],
            "weight_decay": 0.0,
        },
    ]
    return [group for group in groups if group["params"]]


#: Gives (logits, labels) for each step of an epoch.
_Source = Callable[
    [nn.Module, int], Iterator[tuple[torch.Tensor, torch.Tensor]]
]


def _source(inputs, labels, ids, batch_size, device, shuffle, seed) -> _Source:
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


@dataclass
class _Run:
    """The state of a training run between epochs."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    monitor: str
    patience: int
    epoch: int = 0
    best_epoch: int = 0
    best_score: float = math.inf
    rows: list[dict[str, Any]] = field(default_factory=list)
    #: Whether the weights are those at the end of an epoch.
    whole: bool = False

    def __post_init__(self) -> None:
        self.best = _copy(self.model.state_dict())

    @property
    def seconds(self) -> float:
        return self.rows[-1]["seconds"] if self.rows else 0.0

    @property
    def exhausted(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def one_epoch(self, source: _Source, checked: _Source, start: float):
        self.whole = False
        began = time.perf_counter()
        loss = self._train(source)
        took = time.perf_counter() - began
        valid_loss, accuracy = self._evaluate(checked)
        self.epoch += 1
        row = {
            "epoch": self.epoch,
            "train_loss": loss,
            "valid_loss": valid_loss,
            "valid_accuracy": accuracy,
            "train_seconds": took,
            "seconds": time.perf_counter() - start,
        }
        self.rows.append(row)
        score = valid_loss if self.monitor == "loss" else -accuracy
        if score < self.best_score:
            self.best_score, self.best_epoch = score, self.epoch
            self.best = _copy(self.model.state_dict())
        self.whole = True
        return row

    def _train(self, source: _Source) -> float:
        self.model.train()
        total, count = 0.0, 0
        for number, (logits, target) in enumerate(
            source(self.model, self.epoch)
        ):
            if self.epoch == 0 and number == 0:
                _check_classes(logits, target)
            loss = F.cross_entropy(logits, target)
            value = loss.item()
            if not math.isfinite(value):
                kept = (
                    f"those of epoch {self.best_epoch}"
                    if self.best_epoch
                    else "those it began with"
                )
                raise DGLError(
                    f"the loss is {value} in epoch {self.epoch + 1}, batch "
                    f"{number + 1}: the model's weights are {kept} again. A "
                    f"smaller lr, or features without nan and inf, may help."
                )
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += value * len(target)
            count += len(target)
        return total / count

    def _evaluate(self, source: _Source) -> tuple[float, float]:
        self.model.eval()
        total, right, count = 0.0, 0, 0
        with torch.no_grad():
            for logits, target in source(self.model, 0):
                _check_classes(logits, target)
                total += float(F.cross_entropy(logits, target)) * len(target)
                right += int((logits.argmax(dim=1) == target).sum())
                count += len(target)
        return total / count, right / count

    def restore_best(self) -> None:
        self.model.load_state_dict(self.best)

    def state(self) -> dict[str, Any]:
        """All it takes to go on, in tensors and plain values."""
        return {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "rows": self.rows,
            "model": self.model.state_dict(),
            "best": self.best,
            "optimizer": self.optimizer.state_dict(),
            "generator": torch.get_rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]
        self.best_epoch = state["best_epoch"]
        self.best_score = state["best_score"]
        self.rows = state["rows"]
        self.model.load_state_dict(state["model"])
        self.best = state["best"]
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["generator"])
        self.whole = True


def _copy(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # A state dict refers to the live weights: without a copy the best
    # epoch's would go on changing.
    return {name: value.detach().clone() for name, value in state.items()}


def _check_classes(logits: torch.Tensor, target: torch.Tensor) -> None:
    if int(target.max()) >= logits.shape[1]:
        raise DGLError(
            f"labels holds {int(target.max())}, but the model gives "
            f"{logits.shape[1]} classes (0 to {logits.shape[1] - 1})."
        )
