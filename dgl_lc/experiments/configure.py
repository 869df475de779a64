"""The paper's parameters as options of a model and of its training."""

from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .closest_name import closest_name
from .model_names import AUTOMATIC, SHADOW
from .named_models import check_names, option_names

#: Parameters whose option has another name, by model.
_RENAMED = {
    "JKNet": {"pooling": "mode"},
    "LCJKNet": {"pooling": "mode"},
    "GPRGNN": {"mlp_layers": "num_layers"},
    "LCGPRGNN": {"mlp_layers": "num_layers"},
    "LCAPPNP": {"mlp_layers": "num_layers"},
    "FSGNN": {"dp1": "dropout", "dp2": "dropout2"},
}

#: Options that are not tuned: the FSGNN of the paper has a hidden layer.
_FIXED: dict[str, dict[str, Any]] = {"FSGNN": {"num_layers": 3}}

_POOLING = {"concat": "cat", "max": "max"}

#: Parts of FSGNN, with the parameters of their learning rate and decay.
_GROUPS = {
    "layers": ("lr1", "wd1"),
    "hidden": ("lr2", "wd2"),
    "output": ("lr3", "wd3"),
    "att": ("lr_att", "wd_att"),
}

#: Parameters of the training, for every model.
_TRAINING = ("lr", "weight_decay")


def configure(
    name: str, params: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Turn the paper's parameters into options of a model and its training.

    Parameters
    ----------
    name : str
        A model of :data:`~dgl_lc.experiments.named_models.NAMES`. Automatic
        LC versions have the parameters of their originals; those of
        ShaDow-GAT are its options as they are.
    params : dict
        Parameters as in :data:`~dgl_lc.experiments.paper.BEST`, or any other
        option of the model except its sizes.

    Returns
    -------
    tuple of dict
        Options of :func:`~dgl_lc.experiments.named_models.make_model`, and
        those of ``lr`` and ``weight_decay`` of
        :func:`~dgl_lc.training.fit` that are given. For FSGNN with parameters
        of single parts, the second is ``{"groups": {part: {"lr": …,
        "weight_decay": …}}}``, for :func:`make_optimizer`; ``lr`` and
        ``weight_decay`` are then the values of parts that are not given.

    Examples
    --------
    >>> from dgl_lc.experiments.configure import configure
    >>> configure("LCJKNet", {"lr": 0.001, "pooling": "concat"})
    ({'mode': 'cat'}, {'lr': 0.001})
    """
    if name == SHADOW:
        options = {k: v for k, v in params.items() if k not in _TRAINING}
    else:
        options = _model_options(name, params)
    training = {key: params[key] for key in _TRAINING if key in params}
    if name == "FSGNN" and any(
        key in params for pair in _GROUPS.values() for key in pair
    ):
        # The defaults of fit, for parts that no parameter is given for.
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
    """Rename the parameters to the model's options; check their names."""
    check_names([name])
    model = AUTOMATIC.get(name, name)
    fixed, renamed = _FIXED.get(model, {}), _RENAMED.get(model, {})
    taken = {*fixed, *renamed.values()}
    known = [option for option in option_names(model) if option not in taken]
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
                f"{name} has no parameter {key!r}; the closest name is "
                f"{closest_name(key, known + training)!r}."
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
    """Make Adam with parameter groups, or None if ``fit`` can make its own.

    Parameters
    ----------
    model : nn.Module
        The model.
    training : dict
        The second result of :func:`configure`. Its ``groups`` must name all
        parts of the model.

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
        part = name.split(".")[0]
        # The norms of FSGNN's layers, which only some normalizations have.
        part = "layers" if part == "norms" else part
        parts.setdefault(part, []).append(parameter)
    if set(groups) != set(parts):
        raise DGLError(
            f"groups are for {', '.join(groups)}, but "
            f"{type(model).__name__} has the parts {', '.join(parts)}."
        )
    return torch.optim.Adam(
        [{"params": parts[part], **rates} for part, rates in groups.items()]
    )
