"""The folder of results: tuned parameters, records of runs, and tables."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dgl import DGLError

from .._common.json_files import read_json, write_json

#: Format of the files; another one is an error.
FORMAT = 1


class ResultsFolder:
    """A folder with ``best/`` (tuned parameters) and ``runs/`` (records).

    A file is written completely or not at all, so that earlier results stay
    readable when a worker is killed.

    Parameters
    ----------
    folder : path
        The folder, which is created if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            for name in ("best", "runs"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DGLError(
                f"out={str(folder)!r} cannot be written: {error}"
            ) from None
        about = self.folder / "about.json"
        if not about.exists():
            write_json(about, {"format": FORMAT})
        found = read_json(about).get("format")
        if found != FORMAT:
            raise DGLError(
                f"out={str(folder)!r} has results of format {found}, but this "
                f"version writes format {FORMAT}: give another folder, or "
                f"remove it."
            )

    @property
    def storage(self) -> str:
        """The address of the database in which Optuna keeps the studies."""
        return f"sqlite:///{self.folder.absolute() / 'studies.db'}"

    def load_best(self, model: str, data: str) -> dict[str, Any] | None:
        """Return the tuned parameters of a model, with how they were found.

        None if the model was not tuned on this data set.
        """
        return _read_if_exists(self._path("best", data, model))

    def save_best(self, model: str, data: str, found: dict[str, Any]) -> None:
        """Save the tuned parameters of a model."""
        write_json(self._path("best", data, model), found)

    def load_run(
        self, model: str, data: str, seed: int, key: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the record of a run with the same key, or None."""
        path = self._path("runs", data, model, str(seed), hash_of(key))
        return _read_if_exists(path)

    def save_run(self, record: dict[str, Any], key: dict[str, Any]) -> None:
        """Save the record of a run, under what the run depends on."""
        path = self._path(
            "runs", record["data"], record["model"], str(record["seed"]),
            hash_of(key),
        )  # fmt: skip
        write_json(path, {**record, "key": key})

    def _path(self, folder: str, *names: str) -> Path:
        name = "--".join(slug(name) for name in names)
        return self.folder / folder / f"{name}.json"


def _read_if_exists(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None


def hash_of(key: dict[str, Any]) -> str:
    """Return a short name for what a run depends on."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def slug(name: str) -> str:
    """Return a name in a form that can be part of a file name.

    >>> slug("arxiv (TAPE-P)")
    'arxiv--TAPE-P'
    """
    kept = [c if c.isalnum() or c in "-_" else "-" for c in name]
    return "".join(kept).strip("-")
