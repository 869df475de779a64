"""Files of models: their configuration and their weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dgl import DGLError
from torch import nn

from ..label_recipe import LabelRecipe
from ..nn.model import HopModel
from ..row_programs.row_module import RowModule
from .output_kind import KINDS, check_kind
from .row_model_files import ROW_MODEL, read_row_model, write_row_model
from .tensor_files import (
    check_replaceable,
    in_one_line,
    read_file,
    write_file,
)
from .trained_on import TrainedOn

_KIND = "model"
_ADVICE = "Save the model again, or name another file."


def save_model(
    model: nn.Module,
    path: str | Path,
    class_names: Sequence[str] | None = None,
    feat_names: Sequence[str] | None = None,
    output: str | None = None,
) -> None:
    """Write a model of ``dgl_lc.nn``, or an LC version, to a file.

    A model of ``dgl_lc.nn`` is written as its configuration and its weights.
    The module of an LC version is written as the list of its operations:
    the file can be loaded where the class of your model can't be imported.
    An LC version that calls your own functions or modules in a way that a
    file can't hold is an error.

    The file is written in one step. If that fails, the earlier file is
    intact; a file that neither dgl-lc nor torch wrote is not replaced.

    Parameters
    ----------
    model : nn.Module
        The model, or ``lc.module``. The filter and the hops of a model are a
        part of its configuration; so is whether it was trained with edge
        weights, and how its label features were made.
    path : path
        The file.
    class_names : sequence of str, optional
        The name of each class, for those who predict with the model. Default:
        those that the model was loaded with, or none: classes are known by
        their numbers.
    feat_names : sequence of str, optional
        The name of each column of the features, such as
        ``DiskData.feat_names``. Default: those that the model was loaded
        with, or none.
    output : str, optional
        What the model gives, for those who predict with it: "classes", one
        per node; "labels", any number of classes per node (trained by a
        binary cross entropy); or "numbers". Default: what the loss of ``fit``
        says, or what the model was loaded with, or unknown, which is read as
        "classes".

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
    if isinstance(model, RowModule):
        content, sizes = write_row_model(model)
    else:
        content, sizes = _of_nn(model)
    known: Any = getattr(model, "trained_on", TrainedOn())
    for key, names in (
        ("class_names", class_names),
        ("feat_names", feat_names),
    ):
        names = getattr(known, key) if names is None else names
        if names is None:
            continue
        if len(names) not in sizes[key].values():
            has = ", ".join(f"{k}={v}" for k, v in sizes[key].items())
            raise DGLError(
                f"{key} has {len(names)} entries, but the model has {has}: "
                f"give a name for each, or omit it."
            )
        content[key] = [str(text) for text in names]
    output = known.output if output is None else output
    if output is not None:
        check_kind(output)
        content["output"] = output
    write_file(Path(path), _KIND, content)


def _of_nn(model: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the file of a model of dgl_lc.nn holds, and its sizes."""
    name = type(model).__name__
    if _models().get(name) is not type(model):
        raise DGLError(
            f"{name} is not a whole model of dgl_lc.nn, or the module of an "
            f"LC version (lc.module): save its state_dict() with torch.save "
            f"instead."
        )
    config: Any = model.config
    if "activation" in config and config["activation"] is None:
        raise DGLError(
            f"the activation of this {name} has no name that a file could "
            f"hold: save its state_dict() with torch.save instead."
        )
    content = {"name": name, "config": config, "state": model.state_dict()}
    weighted = getattr(model, "weighted", None)
    if weighted is not None:
        content["weighted"] = weighted
    recipe = getattr(model, "label_recipe", None)
    if recipe is not None:
        content["label_recipe"] = recipe.to_json()
    sizes = {
        "class_names": {"out_feats": config["out_feats"]},
        "feat_names": {"in_feats": config["in_feats"]},
    }
    return content, sizes


def check_model_file(path: str | Path) -> None:
    """Refuse a path that :func:`save_model` would not write to.

    Called before a long training, it keeps the result from being lost.
    """
    check_replaceable(Path(path), _KIND)


def load_model(path: str | Path) -> nn.Module:
    """Read a model that :func:`save_model` wrote, in evaluation mode.

    Nothing in the file is executed. A file that is damaged, or not of a
    model, is a DGLError. An LC version becomes a module whose ``needs`` says
    which inputs it takes; ``fit``, ``predict`` and ``save_model`` take it as
    they take ``lc.module``. The names of features and classes that were saved,
    and what the model gives, are the attributes of ``model.trained_on``;
    ``write_predictions`` compares them with those of the data.
    """
    content = read_file(Path(path), _KIND, _ADVICE)
    name, known = content.get("name"), _models()
    if not isinstance(name, str) or name not in {ROW_MODEL, *known}:
        raise DGLError(
            f"{path} holds a {name!r}, which is not a model of dgl_lc.nn. "
            f"{_ADVICE}"
        )
    model: nn.Module
    try:
        if name == ROW_MODEL:
            model = read_row_model(content)
        else:
            model = _read_nn(known[name], content)
    except Exception as error:
        # The content may be of another version, or of no model at all.
        raise DGLError(
            f"{path} does not hold a {name} that can be made again "
            f"({in_one_line(error)}). {_ADVICE}"
        ) from None
    trained_on: Any = TrainedOn(
        feat_names=_names(path, content, "feat_names"),
        class_names=_names(path, content, "class_names"),
        output=_output(path, content),
    )
    model.trained_on = trained_on
    return model.eval()


def _read_nn(kind: type[nn.Module], content: dict[str, Any]) -> nn.Module:
    """Make a model of dgl_lc.nn from what its file holds."""
    model = kind(**content["config"])
    state = content["state"]
    kinds = {v.dtype for v in state.values() if v.is_floating_point()}
    if len(kinds) == 1:
        # Loading would otherwise round the weights of a float64 model.
        model.to(kinds.pop())
    model.load_state_dict(state)
    weighted = content.get("weighted")
    if weighted is not None and type(weighted) is not bool:
        raise ValueError(f"weighted={weighted!r} should be a bool")
    if isinstance(model, HopModel):
        model.weighted = weighted
        if "label_recipe" in content:
            model.label_recipe = LabelRecipe.from_json(content["label_recipe"])
    return model


def _names(
    path: str | Path, content: dict[str, Any], key: str
) -> tuple[str, ...] | None:
    """Return the names that a file has; those of earlier versions lack them."""
    found = content.get(key)
    if found is None:
        return None
    if not isinstance(found, list) or any(type(n) is not str for n in found):
        raise DGLError(f"{path}: its {key} should be texts. {_ADVICE}")
    return tuple(found)


def _output(path: str | Path, content: dict[str, Any]) -> str | None:
    """Return what a model gives; files of earlier versions do not say it."""
    found = content.get("output")
    if found is not None and found not in KINDS:
        raise DGLError(f"{path}: its output {found!r} is not known. {_ADVICE}")
    return found


def _models() -> dict[str, type[nn.Module]]:
    from .. import nn as models

    return {
        name: getattr(models, name)
        for name in models.__all__
        if hasattr(getattr(models, name), "config")
    }
