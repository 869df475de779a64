"""The file that a training run resumes from."""

from pathlib import Path
from typing import Any

from dgl import DGLError

from .description import BEFORE
from .tensor_files import check_replaceable, read_file, write_file

_KIND = "checkpoint"
_ADVICE = "Name another file, or start again with resume=False."
#: Differences between two runs that a message names.
_NAMED = 3
#: Characters of a value that a message shows.
_SHOWN = 80


class Checkpoint:
    """A file with the state of a training run, and what the run is made of.

    Parameters
    ----------
    path : Path
        The file. It need not exist.
    run : dict
        What the run is made of, as :func:`describe_run` gives it. A state is
        read only by a run that is made of the same.
    """

    def __init__(self, path: Path, run: dict[str, str]) -> None:
        self._path = path
        self._run = run

    def exists(self) -> bool:
        """Tell whether something has this name."""
        return self._path.exists()

    def recorded(self, name: str) -> str | None:
        """Look what the file says of its run; None if there is nothing.

        What is wrong with the file is an error of :meth:`read`.
        """
        try:
            run = read_file(self._path, _KIND, _ADVICE).get("run")
        except DGLError:
            return None
        found = run.get(name, BEFORE.get(name)) if type(run) is dict else None
        return found if isinstance(found, str) else None

    def check_replaceable(self) -> None:
        """Refuse to write over a file that dgl-lc did not write."""
        check_replaceable(self._path, _KIND)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; after an error the earlier one is intact."""
        write_file(self._path, _KIND, {"run": self._run, "state": state})

    def read(self) -> dict[str, Any]:
        """Read the state, if it is of a run that is made of the same."""
        content = read_file(self._path, _KIND, _ADVICE)
        if content["format"] == 1:
            raise DGLError(
                f"checkpoint={str(self._path)!r} was written by an earlier "
                f"version of dgl-lc, which did not record the data and the "
                f"options of the run. To make it again, train from the first "
                f"epoch with resume=False, or name another file."
            )
        before, state = content.get("run"), content.get("state")
        if not isinstance(before, dict) or not isinstance(state, dict):
            raise self.refuse("it holds no state")
        # Runs of earlier versions had no choice in these.
        older = {name: BEFORE[name] for name in BEFORE if name in self._run}
        different = _differences({**older, **before}, self._run)
        if different:
            more = len(different) - _NAMED
            text = "; ".join(different[:_NAMED])
            text += f"; and {more} more differences" if more > 0 else ""
            raise DGLError(
                f"checkpoint={str(self._path)!r} is of another run: {text}. "
                f"{_ADVICE}"
            )
        return state

    def refuse(self, reason: str) -> DGLError:
        """Make the error for a state that can't be used."""
        return DGLError(
            f"checkpoint={str(self._path)!r} can't be used: {reason}. {_ADVICE}"
        )


def _differences(before: dict[str, Any], now: dict[str, str]) -> list[str]:
    """Say what differs between two runs, each thing once and in few words."""
    names = [
        name
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]  # fmt: skip
    found: list[str] = []
    for name in names:
        if _follows(name, names):
            continue
        subject, _, _ = name.partition(" (")
        if "(digest" in name or name.endswith(": key"):
            # Digests and keys tell a person nothing.
            text = f"its {_in_words(subject)} differ from those of this run"
        else:
            then, this = _shorten(
                *(str(run.get(name, "absent")) for run in (before, now))
            )
            text = f"its {subject} is {then}, that of this run is {this}"
            if name == "batch_size":
                text += " (all ranks together)"
        if text not in found:
            found.append(text)
    return found


def _shorten(then: str, this: str) -> list[str]:
    """Cut long values to the surroundings of their first difference."""
    if max(len(then), len(this)) <= _SHOWN:
        return [then, this]
    pairs = enumerate(zip(then, this, strict=False))
    first = next((place for place, (a, b) in pairs if a != b), 0)
    begin = max(0, first - _SHOWN // 2)
    return [
        "…" * (begin > 0)
        + text[begin : begin + _SHOWN]
        + "…" * (len(text) > begin + _SHOWN)
        for text in (then, this)
    ]


def _in_words(subject: str) -> str:
    """Name data of a run, given what its description calls it."""
    if "inputs: " in subject:
        return f"{subject.partition(':')[0]} (the graph or the features)"
    return subject.replace("train", "training nodes").replace(
        "valid", "validation nodes"
    )


def _follows(name: str, names: list[str]) -> bool:
    """Tell whether a difference only follows from another one."""
    if name.startswith(("module ", "outermost module", "shape of ")):
        return any(n == "model" or n.startswith("model's ") for n in names)
    if name.startswith("optimizer's "):
        return "optimizer" in names
    if "labels of " in name:
        # Labels of other nodes are other labels.
        return name.rpartition(" of ")[2] in names
    if name.startswith(("inputs: ", "valid_inputs: ")):
        whole, _, _ = name.partition(": ")
        # Of all that differs in the inputs, the first thing is enough.
        first = next(n for n in names if n.partition(": ")[0] == whole)
        return name != first
    return False
