"""The paper's parameters as options of a model and of its training."""

import inspect
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .tasks import closest
from .train_one import MODELS

#: Made by lc_transform from an original, whose parameters they have.
_TRANSFORMED = {f"auto{name}": name for name in ("GCN", "JKNet", "GPRGNN")}

#: Parameters that a model knows by another name.
_RENAMED = {
    "JKNet": {"pooling": "mode"},
    "LCJKNet": {"pooling": "mode"},
    "GPRGNN": {"mlp_layers": "num_layers"},
    "LCGPRGNN": {"mlp_layers": "num_layers"},
    "LCAPPNP": {"mlp_layers": "num_layers"},
    "FSGNN": {"dp1": "dropout", "dp2": "dropout2"},
}

#: Options that are not searched: the paper's FSGNN has the hidden layer.
_FIXED: dict[str, dict[str, Any]] = {"FSGNN": {"num_layers": 3}}

_POOLING = {"concat": "cat", "max": "max"}

#: Parts of FSGNN, with the parameters that are their lr and weight decay.
_GROUPS = {
    "layers": ("lr1", "wd1"),
    "hidden": ("lr2", "wd2"),
    "output": ("lr3", "wd3"),
    "att": ("lr_att", "wd_att"),
}

#: Of training, for every model.
_TRAINING = ("lr", "weight_decay")


def configure(
    name: str, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a model and of its training, from the paper's parameters.

    Parameters
    ----------
    name : str
        A model of :data:`~dgl_lc.experiments.train_one.MODELS`, "autoGCN",
        "autoJKNet", "autoGPRGNN" (with the parameters of the originals) or
        "ShaDow-GAT" (whose parameters are its options as they are).
    params : dict
        Such as :data:`~dgl_lc.experiments.paper.BEST` has; also any other
        option of the model but its sizes.

    Returns
    -------
    tuple of dict
        Options for :func:`~dgl_lc.experiments.train_one.make_model`, and ``lr``
        and ``weight_decay`` for :func:`~dgl_lc.training.fit`, as far as they
        are given. Of FSGNN's the second is ``{"groups": {part: {"lr": …,
        "weight_decay": …}}}``, for :func:`make_optimizer`; a part's rate or
        decay that is not given is ``lr`` or ``weight_decay``.

    Examples
    --------
    >>> from dgl_lc.experiments.configure import configure
    >>> configure("LCJKNet", {"lr": 0.001, "pooling": "concat"})
    ({'mode': 'cat'}, {'lr': 0.001})
    """
    if name == "ShaDow-GAT":
        options = {k: v for k, v in params.items() if k not in _TRAINING}
    else:
        options = _model_options(name, params)
    training = {key: params[key] for key in _TRAINING if key in params}
    if name == "FSGNN" and any(
        key in params for pair in _GROUPS.values() for key in pair
    ):
        # What is not given is as fit has it.
        training = {"lr": 0.01, "weight_decay": 0.0, **training}
        groups = {
            part: {
                "lr": params.get(lr, training["lr"]),
                "weight_decay": params.get(decay, training["weight_decay"]),
            }
            for part, (lr, decay) in _GROUPS.items()
        }
        training = {"groups": groups}
    return options, training


def _model_options(name: str, params: dict[str, Any]) -> dict[str, Any]:
    model = _TRANSFORMED.get(name, name)
    if model not in MODELS:
        known = [*MODELS, *_TRANSFORMED, "ShaDow-GAT"]
        raise DGLError(
            f"model {name!r} is not known; the nearest is "
            f"{closest(name, known)!r}."
        )
    fixed, renamed = _FIXED.get(model, {}), _RENAMED.get(model, {})
    taken = {"self", "in_feats", "hid_feats", "out_feats"}
    taken |= {*fixed, *renamed.values()}
    signature = inspect.signature(MODELS[model].__init__).parameters
    known = [option for option in signature if option not in taken]
    known += renamed
    training = [*_TRAINING]
    if model == "FSGNN":
        training += [key for pair in _GROUPS.values() for key in pair]
    options = dict(fixed)
    for key, value in params.items():
        if key in training:
            continue
        if key not in known:
            raise DGLError(
                f"{name} has no parameter {key!r}; the nearest is "
                f"{closest(key, known + training)!r}."
            )
        if key == "pooling":
            if value not in _POOLING:
                raise DGLError(
                    f"pooling={value!r} should be 'concat' or 'max'."
                )
            value = _POOLING[value]
        options[renamed.get(key, key)] = value
    return options


def make_optimizer(
    model: nn.Module, training: dict[str, Any]
) -> torch.optim.Optimizer | None:
    """Adam with parameter groups; None where fit's own will do.

    Parameters
    ----------
    model : nn.Module
        The model.
    training : dict
        As :func:`configure` gives it. ``groups`` name parts of the model,
        and together all of it.

    Examples
    --------
    >>> from dgl_lc.experiments.configure import configure, make_optimizer
    >>> from dgl_lc.experiments.paper import BEST
    >>> from dgl_lc.nn import FSGNN
    >>> options, training = configure("FSGNN", BEST["arxiv"]["FSGNN"])
    >>> model = FSGNN(128, 256, 40, **options)
    >>> [g["lr"] for g in make_optimizer(model, training).param_groups]
    [0.0001, 0.001, 0.001, 0.01]
    """
    groups = training.get("groups")
    if groups is None:
        return None
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        parts.setdefault(name.split(".")[0], []).append(parameter)
    if set(groups) != set(parts):
        raise DGLError(
            f"groups are for {', '.join(groups)}, but "
            f"{type(model).__name__} has the parts {', '.join(parts)}."
        )
    return torch.optim.Adam(
        [{"params": parts[part], **rates} for part, rates in groups.items()]
    )
