"""The file that a training run resumes from."""

from pathlib import Path
from typing import Any

from dgl import DGLError

from .tensor_files import check_replaceable, read_file, write_file

_KIND = "checkpoint"
_ADVICE = "Name another file, or start again with resume=False."
#: Differences between two runs that a message names.
_NAMED = 5


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
        different = [
            f"its {name} is {before.get(name, 'absent')}, that of this run "
            f"is {self._run.get(name, 'absent')}"
            for name in {**self._run, **before}
            if before.get(name) != self._run.get(name)
        ]
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
