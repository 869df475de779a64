"""The file of the stages of a self-training that are finished."""

import io
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError

from ..label_recipe import LabelRecipe
from ..ranks.call import RankCall
from ..ranks.collectives import Collectives
from ..ranks.group import Ranks
from .checkpoint import Checkpoint
from .tensor_files import check_replaceable, locked

#: What a state of finished stages holds.
_NAMES = ("stages", "initial", "last", "best", "pseudo_stage", "ids", "soft")


class StageRecord:
    """What is known of finished stages, in a file that rank 0 alone uses.

    Parameters
    ----------
    path : Path or None
        The file; None for a record that is not kept.
    described : dict
        What the self-training is made of.
    ranks : Ranks or None
        The ranks that make the call.
    stack : ExitStack
        Gives back the lock of the file, which reading takes.
    """

    def __init__(
        self,
        path: Path | None,
        described: dict[str, str],
        ranks: Ranks | None,
        stack: ExitStack,
    ):
        self._stack = stack
        self._path, self._ranks = path, ranks
        self._file = None if path is None else Checkpoint(path, described)
        self._described = described

    @property
    def _is_first(self) -> bool:
        return self._ranks is None or self._ranks.rank == 0

    def of_stage(self, stage: int) -> Path | None:
        """Return the checkpoint of a stage that is not finished."""
        if self._path is None:
            return None
        return self._path.with_name(f"{self._path.name}.stage{stage}")

    def read(self, resume: bool) -> dict[str, Any] | None:
        """Read what is finished, the same on all ranks; None at the start."""
        if self._ranks is None:
            return self._read(resume)
        with RankCall(self._ranks, "self_train") as call:
            call.stage("comparing the arguments of all ranks")
            call.agree({**self._described, "checkpoint": bool(self._path)})
            if self._path is None:
                return None
            data = None
            if self._is_first:
                buffer = io.BytesIO()
                torch.save(self._read(resume) or {}, buffer)
                data = buffer.getvalue()
            data = Collectives(call).broadcast(data)
            state = torch.load(
                io.BytesIO(data), map_location="cpu", weights_only=True
            )
            return state or None

    def _read(self, resume: bool) -> dict[str, Any] | None:
        if self._file is None or self._path is None:
            return None
        self._stack.enter_context(locked(self._path))
        if not resume or not self._file.exists():
            self._file.check_replaceable()
            return None
        state = self._file.read()
        try:
            _check(state)
        except Exception as error:
            raise self._file.refuse(
                "it does not hold the stages of a self-training"
            ) from error
        for stage in range(1, len(state["stages"]) + 1):
            self._remove(stage)
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write what is finished; its last stage needs no file of its own.

        A full disk must not cost the run: it is a warning.
        """
        if self._file is None or not self._is_first:
            return
        try:
            self._file.write(state)
        except DGLError as error:
            warnings.warn(
                f"the finished stages could not be written: {error} Training "
                f"is not affected.",
                stacklevel=4,
            )
            return
        self._remove(len(state["stages"]))

    def _remove(self, stage: int) -> None:
        path = self.of_stage(stage)
        # A file that is not ours stays.
        with suppress(DGLError, OSError):
            if path is not None and path.exists():
                check_replaceable(path, "checkpoint")
                path.unlink()


def _check(state: dict[str, Any]) -> None:
    """Raise an error of any kind if a state is not whole."""
    stages = state["stages"]
    if any(name not in state for name in _NAMES):
        raise DGLError("a part is missing")
    for stage in stages:
        rows, best = stage["rows"], stage["best_epoch"]
        if not 1 <= best <= len(rows) or not isinstance(stage["metric"], str):
            raise DGLError("its history is not that of a run")
        if stage.get("label_recipe") is not None:
            LabelRecipe.from_json(stage["label_recipe"])
        if stage.get("weighted") not in (None, True, False):
            raise DGLError("it does not say what the model has read")
    ids, soft = state["ids"], state["soft"]
    if len(ids) != len(soft) or ids.dtype != torch.int64 or soft.dim() != 2:
        raise DGLError("its nodes are not those of a stage")
    if state["pseudo_stage"] not in (len(stages), len(stages) + 1):
        raise DGLError("its nodes are those of another stage")
