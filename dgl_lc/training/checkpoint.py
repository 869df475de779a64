"""Files of models and of training runs: plain tensors, no pickle."""

import os
import pickle
from pathlib import Path
from typing import Any

import torch
from dgl import DGLError
from torch import nn

_FORMAT = 1


def write(path: Path, content: dict[str, Any]) -> None:
    """Write in one step: an interrupted write leaves the earlier file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    torch.save(content, part)
    os.replace(part, path)


def read(path: Path, kind: str) -> dict[str, Any]:
    """Read what :func:`write` wrote; nothing in the file is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DGLError(f"{path} is not there.") from None
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise DGLError(f"{path} can't be read as a {kind}: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise DGLError(f"{path} is not a {kind} of dgl-lc.")
    if content["format"] != _FORMAT:
        raise DGLError(
            f"{path} has format {content['format']}, which this version of "
            f"dgl-lc does not read."
        )
    return content


class Checkpoint:
    """The file a training run goes on from."""

    def __init__(self, path: Path, model: nn.Module, settings: dict[str, Any]):
        self._path = path
        self._settings = settings
        self._model = {
            name: list(value.shape)
            for name, value in model.state_dict().items()
        }
        self._name = type(model).__name__

    def exists(self) -> bool:
        return self._path.exists()

    def write(self, state: dict[str, Any]) -> None:
        content = {
            "kind": "checkpoint",
            "format": _FORMAT,
            "name": self._name,
            "shapes": self._model,
            "settings": self._settings,
            "state": state,
        }
        write(self._path, content)

    def read(self) -> dict[str, Any]:
        """The state, if it is of the same model and settings."""
        content = read(self._path, "checkpoint")
        if content["name"] != self._name or content["shapes"] != self._model:
            raise DGLError(
                f"checkpoint={str(self._path)!r} is of another model "
                f"({content['name']}, with {len(content['shapes'])} tensors; "
                f"this is {self._name}): name another file, or start anew "
                f"with resume=False."
            )
        other = [
            f"{key}={content['settings'].get(key)!r} there, {value!r} here"
            for key, value in self._settings.items()
            if content["settings"].get(key) != value
        ]
        if other:
            raise DGLError(
                f"checkpoint={str(self._path)!r} is of a run with other "
                f"settings ({'; '.join(other)}): name another file, or start "
                f"anew with resume=False."
            )
        return content["state"]


def save_model(model: nn.Module, path: str | Path) -> None:
    """Write a model of ``dgl_lc.nn`` with its configuration to a file.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import load_model, save_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(SGC(10, 3, K=4), f"{folder}/sgc.pt")
    ...     load_model(f"{folder}/sgc.pt")
    SGC(
      K=4
      (fc): Linear(in_features=10, out_features=3, bias=True)
    )
    """
    name = type(model).__name__
    if _models().get(name) is not type(model):
        raise DGLError(
            f"{name} is not a whole model of dgl_lc.nn: save its "
            f"state_dict() with torch.save instead."
        )
    config: Any = model.config
    if "activation" in config and config["activation"] is None:
        raise DGLError(
            f"the activation of this {name} has no name that a file could "
            f"hold: save its state_dict() with torch.save instead."
        )
    write(
        Path(path),
        {
            "kind": "model",
            "format": _FORMAT,
            "name": name,
            "config": config,
            "state": model.state_dict(),
        },
    )


def load_model(path: str | Path) -> nn.Module:
    """Read a model that :func:`save_model` wrote, in evaluation mode."""
    content = read(Path(path), "model")
    known = _models()
    if content["name"] not in known:
        raise DGLError(
            f"{path} holds a {content['name']}, which is not a model of "
            f"dgl_lc.nn."
        )
    model = known[content["name"]](**content["config"])
    model.load_state_dict(content["state"])
    return model.eval()


def _models() -> dict[str, type]:
    from .. import nn as models

    return {
        name: getattr(models, name)
        for name in models.__all__
        if hasattr(getattr(models, name), "config")
    }
