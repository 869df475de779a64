"""A folder of results: best parameters, runs, and who may write them."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dgl import DGLError

from ..precompute.disk_folder import read_json, write_json
from .tasks import slug

#: Of the files; another one is an error.
FORMAT = 1


class Results:
    """A folder with ``best/`` (tuned parameters) and ``runs/``.

    Every file is whole or not there, so that a killed worker leaves the
    earlier results readable.
    """

    def __init__(self, folder: str | os.PathLike):
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
                f"out={str(folder)!r} has results of format {found}, and this "
                f"version writes format {FORMAT}: give another folder, or "
                f"remove it."
            )

    @property
    def storage(self) -> str:
        """Where Optuna keeps the studies."""
        return f"sqlite:///{self.folder.absolute() / 'studies.db'}"

    def best(self, model: str, data: str) -> dict[str, Any] | None:
        """Tuned parameters, with how they were found."""
        path = self._path("best", data, model)
        return read_json(path) if path.exists() else None

    def keep_best(self, model: str, data: str, found: dict[str, Any]) -> None:
        write_json(self._path("best", data, model), found)

    def run(
        self, model: str, data: str, seed: int, key: dict
    ) -> dict[str, Any] | None:
        """The record of a run that depends on the same."""
        path = self._path("runs", data, model, str(seed), hash_of(key))
        return read_json(path) if path.exists() else None

    def keep_run(self, record: dict[str, Any], key: dict) -> None:
        path = self._path(
            "runs", record["data"], record["model"], str(record["seed"]),
            hash_of(key),
        )  # fmt: skip
        write_json(path, {**record, "key": key})

    def _path(self, folder: str, *names: str) -> Path:
        name = "--".join(slug(name) for name in names)
        return self.folder / folder / f"{name}.json"


def hash_of(key: dict[str, Any]) -> str:
    """A short name for what a run depends on."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
