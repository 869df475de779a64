"""The stages of a self-training: what is kept from one to the next."""

import warnings
from typing import Any

import torch
from dgl import DGLError
from dgl.base import DGLWarning
from torch import nn

from ..label_recipe import LabelRecipe
from ..nn.model import HopModel
from .chunk_order import RowChunks
from .confident_nodes import confident_nodes, nodes_without_label
from .epochs import OnEpoch, copied
from .fit import fit
from .history import Fit, is_better
from .output_kind import remember_output
from .rank_inputs import is_shard
from .stage_record import StageRecord
from .targets import PseudoLabels


class Stages:
    """The stages of a self-training.

    The arguments are those of :func:`~dgl_lc.training.self_train`, checked;
    ``first`` are the inputs of the first stage.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        valid_inputs: Any,
        labels: torch.Tensor,
        train: torch.Tensor,
        valid: torch.Tensor,
        unlabelled: torch.Tensor | None,
        threshold: float,
        weight: float,
        limit: int | None,
        restart: bool,
        seed: int,
        process_group: Any,
        options: dict[str, Any],
        record: StageRecord,
        first: Any,
    ):
        self._model, self._inputs, self._labels = model, inputs, labels
        self._train, self._valid = train, valid
        self._valid_inputs = valid_inputs
        self._unlabelled, self._threshold = unlabelled, threshold
        self._weight, self._limit, self._restart = weight, limit, restart
        self._seed, self._group = seed, process_group
        self._options, self._record = options, record
        #: The inputs of the first stage, until a later one begins.
        self._first = first
        #: Rows of the history, best epoch and metric of each finished stage.
        self._done: list[dict[str, Any]] = []
        self._initial = self._last = self._best = copied(model.state_dict())
        #: The nodes that have joined, and in which stage they train.
        self._ids = torch.empty(0, dtype=torch.int64)
        self._soft = torch.empty((0, 0), dtype=torch.float16)
        self._pseudo_stage = 1

    def until(self, stages: int, resume: bool, on_epoch: OnEpoch | None) -> Fit:
        """Train up to a stage; give the model the weights of the best."""
        state = self._record.read(resume)
        if state is None:
            # The weights to begin with, which later stages need as well.
            self._record.write(self._state())
        else:
            self._load(state)
        while len(self._done) < stages:
            stage = len(self._done) + 1
            if stage > self._pseudo_stage:
                # More stages than there were to be when this was written.
                self._model.load_state_dict(self._last)
                self._choose(self._inputs_of(stage - 1), stage)
            if stage > 1 and not len(self._ids):
                break
            if stage > 1:
                self._first = None
            inputs = self._inputs_of(stage)
            if stage == 1 and stages > 1:
                # What can't train a second stage is refused before the first.
                self._candidates(inputs)
            self._one_stage(stage, inputs, resume, on_epoch)
            if stage < stages:
                self._choose(inputs, stage + 1)
            self._record.write(self._state())
        self._model.load_state_dict(self._best)
        remember_output(self._model, "cross_entropy", of_classes=True)
        _set_inputs(self._model, self._done[self._best_stage() - 1])
        return self._fit()

    def _inputs_of(self, stage: int, given: Any = None) -> Any:
        """Make what the model reads in a stage, or in its validation."""
        given = self._inputs if given is None else given
        if not callable(given):
            return given
        if stage == 1 and given is self._inputs and self._first is not None:
            return self._first
        if stage == 1:
            return given(1, None, None)
        return given(stage, self._ids, self._soft.float())

    def _one_stage(
        self,
        stage: int,
        inputs: Any,
        resume: bool,
        on_epoch: OnEpoch | None,
    ) -> None:
        self._model.load_state_dict(
            self._initial if self._restart else self._last
        )
        labels: Any = self._labels
        if stage > 1:
            labels = PseudoLabels(labels, self._ids, self._soft, self._weight)
        checked_on = None
        if self._valid_inputs is not None:
            checked_on = self._inputs_of(stage, self._valid_inputs)
        before = self._rows()
        joined = len(self._ids)
        options = dict(self._options)
        if options.get("shuffle", "auto") == "auto" and self._done:
            # As the first stage did, on whatever machine that was.
            known = self._done[0].get("shuffle", "full")
            options["shuffle"] = RowChunks.parse(known) or "full"
            options.pop("shuffle_buffer", None)

        def report(row: dict[str, Any]) -> None:
            if on_epoch is not None:
                on_epoch(_through(row, before, stage, joined))

        found = fit(
            self._model, inputs, labels, torch.cat([self._train, self._ids]),
            self._valid, valid_inputs=checked_on, seed=self._seed + stage - 1,
            checkpoint=self._record.of_stage(stage), resume=resume,
            on_epoch=report, process_group=self._group, **options,
        )  # fmt: skip
        self._done.append(
            {
                "rows": found.history.reset_index().to_dict("records"),
                "best_epoch": found.best_epoch,
                "metric": found.metric,
                "pseudo": joined,
                "shuffle": found.shuffle,
                **_read_in_training(self._model),
            }
        )
        self._last = copied(self._model.state_dict())
        if self._best_stage() == stage:
            self._best = self._last

    def _candidates(self, inputs: Any) -> torch.Tensor:
        """Return the nodes that may join."""
        nodes = self._unlabelled
        if nodes is None:
            if is_shard(inputs):
                raise DGLError(
                    "unlabelled should be given with row shards, of which "
                    "each rank knows its own nodes only."
                )
            nodes = nodes_without_label(inputs, self._train, self._valid)
        if not len(nodes):
            raise DGLError(
                "there is no node that may join: give unlabelled=, and inputs "
                "that have rows of these nodes."
            )
        return nodes

    def _choose(self, inputs: Any, stage: int) -> None:
        """Choose the nodes that train in a stage, by the model as it is."""
        nodes = self._candidates(inputs)
        self._ids, self._soft = confident_nodes(
            self._model, inputs, nodes, threshold=self._threshold,
            limit=self._limit, process_group=self._group,
        )  # fmt: skip
        self._pseudo_stage = stage
        if not len(self._ids):
            warnings.warn(
                f"none of {len(nodes):,} nodes without a label has a class of "
                f"probability {self._threshold} or more, so that training ends "
                f"after stage {stage - 1}: choose a lower threshold.",
                DGLWarning,
                stacklevel=4,
            )

    def _best_stage(self) -> int:
        """Return the stage with the best validation, the first of equals."""
        monitor = self._options.get("monitor", "loss")
        best = 0
        for number, stage in enumerate(self._done):
            if number and is_better(
                _best_row(stage), _best_row(self._done[best]), monitor
            ):
                best = number
        return best + 1

    def _rows(self) -> list[dict[str, Any]]:
        """Return the rows of all finished stages, counted through."""
        found: list[dict[str, Any]] = []
        for number, stage in enumerate(self._done):
            before = list(found)
            found += [
                _through(row, before, number + 1, stage["pseudo"])
                for row in stage["rows"]
            ]
        return found

    def _fit(self) -> Fit:
        import pandas as pd  # takes half a second, and only fit needs it

        best = self._best_stage()
        earlier = sum(len(stage["rows"]) for stage in self._done[: best - 1])
        stage = self._done[best - 1]
        return Fit(
            pd.DataFrame(self._rows()).set_index("epoch"),
            earlier + stage["best_epoch"],
            stage["metric"],
        )

    def _state(self) -> dict[str, Any]:
        return {
            "stages": self._done,
            "initial": self._initial,
            "last": self._last,
            "best": self._best,
            "pseudo_stage": self._pseudo_stage,
            "ids": self._ids,
            "soft": self._soft,
        }

    def _load(self, state: dict[str, Any]) -> None:
        self._done = list(state["stages"])
        self._initial, self._last = state["initial"], state["last"]
        self._best = state["best"]
        self._ids, self._soft = state["ids"], state["soft"]
        self._pseudo_stage = state["pseudo_stage"]


def _read_in_training(model: nn.Module) -> dict[str, Any]:
    """Say what a model has read, which its weights do not tell."""
    if not isinstance(model, HopModel):
        return {}
    recipe = model.label_recipe
    return {
        "weighted": model.weighted,
        "label_recipe": None if recipe is None else recipe.to_json(),
    }


def _set_inputs(model: nn.Module, stage: dict[str, Any]) -> None:
    """Let a model know what it has read in the stage whose weights it has.

    Stages that were finished in another process were not trained here, and
    the last stage may have read other label features than the best one.
    """
    if not isinstance(model, HopModel) or "label_recipe" not in stage:
        return
    recipe = stage["label_recipe"]
    model.weighted = stage["weighted"]
    model.label_recipe = (
        None if recipe is None else LabelRecipe.from_json(recipe)
    )


def _best_row(stage: dict[str, Any]) -> dict[str, Any]:
    return stage["rows"][stage["best_epoch"] - 1]


def _through(
    row: dict[str, Any],
    before: list[dict[str, Any]],
    stage: int,
    pseudo: int,
) -> dict[str, Any]:
    """Return a row whose epoch and seconds count earlier stages as well."""
    seconds = before[-1]["seconds"] if before else 0.0
    return {
        **row,
        "epoch": len(before) + int(row["epoch"]),
        "seconds": seconds + row["seconds"],
        "stage": stage,
        "pseudo": pseudo,
    }
