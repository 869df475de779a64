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
    readable when a worker is killed. The folder is created when something is
    first saved.

    Parameters
    ----------
    folder : path
        The folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self._about.exists():
            self._check_format()

    @property
    def _about(self) -> Path:
        return self.folder / "about.json"

    def _check_format(self) -> None:
        found = read_json(self._about).get("format")
        if found != FORMAT:
            raise DGLError(
                f"out={str(self.folder)!r} has results of format {found}, but "
                f"this version writes format {FORMAT}: give another folder, "
                f"or remove it."
            )

    def create(self) -> None:
        """Create the folder if it does not exist."""
        try:
            for name in ("best", "runs"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            if not self._about.exists():
                write_json(self._about, {"format": FORMAT})
        except OSError as error:
            raise DGLError(
                f"out={str(self.folder)!r} cannot be written: {error}"
            ) from None

    def name_data(self, name: str, key: str, source: str) -> str:
        """Return the name that a data set has in this folder.

        No two data sets have the same name: the first one of a name keeps
        it, and the key of another one is appended to its name.

        Parameters
        ----------
        name : str
            The data set's own name, such as the stem of its file.
        key : str
            Stands for its content.
        source : str
            Where it was loaded from, to be found in ``data.json``.
        """
        path = self.folder / "data.json"
        known = read_json(path) if path.exists() else {}
        for candidate in (name, f"{name} ({key[:8]})", f"{name} ({key})"):
            found = known.get(slug(candidate))
            if found is None:
                self.create()
                entry = {"name": candidate, "key": key, "source": source}
                write_json(path, {**known, slug(candidate): entry})
                return candidate
            if isinstance(found, dict) and found.get("key") == key:
                return candidate
        raise DGLError(f"{path} is damaged: remove it, or give another folder.")

    @property
    def storage(self) -> str:
        """The address of the database in which Optuna keeps the studies."""
        return f"sqlite:///{self.folder.absolute() / 'studies.db'}"

    def load_best(
        self, model: str, data: str, key: str
    ) -> dict[str, Any] | None:
        """Return the tuned parameters of a model, with how they were found.

        None if the model was not tuned on this data set. Parameters that
        were tuned on another data set of that name are an error.
        """
        path = self._path("best", data, model)
        found = _read_if_exists(path)
        if found is not None and found.get("data_key") != key:
            raise DGLError(
                f"{path} has parameters that were not tuned on this {data}, "
                f"or were saved by a version that did not record the data: "
                f"tune {model} on it again, or give another folder."
            )
        return found

    def save_best(self, model: str, data: str, found: dict[str, Any]) -> None:
        """Save the tuned parameters of a model, with the data's key."""
        self.create()
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
        self.create()
        write_json(path, {**record, "key": key})

    def all_runs(self) -> list[dict[str, Any]]:
        """Return the records of all runs, each with its key."""
        return [
            read_json(path)
            for path in sorted((self.folder / "runs").glob("*.json"))
        ]

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
