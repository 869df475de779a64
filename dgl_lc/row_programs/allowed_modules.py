"""The modules that a step of a row program may call, by their class names.

A file holds the class name and the arguments of the constructor. The module is
made without memory for its tensors, which are put in afterwards.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations

from ..nn.dropout import Dropout as QuickDropout

_RNN = """
    input_size hidden_size num_layers bias batch_first dropout bidirectional
"""
_CONV = """
    in_channels out_channels kernel_size stride padding dilation groups bias
    padding_mode
"""
_BATCH_NORM = "num_features eps momentum affine track_running_stats"

#: Arguments of the constructors, which are attributes of the modules.
_ARGUMENTS: dict[str, str] = {
    "AdaptiveAvgPool1d": "output_size",
    "AdaptiveMaxPool1d": "output_size return_indices",
    "AlphaDropout": "p inplace",
    "AvgPool1d": "kernel_size stride padding ceil_mode count_include_pad",
    "BatchNorm1d": _BATCH_NORM,
    "BatchNorm2d": _BATCH_NORM,
    "Bilinear": "in1_features in2_features out_features bias",
    "CELU": "alpha inplace",
    "Conv1d": _CONV,
    "Conv2d": _CONV,
    "CosineSimilarity": "dim eps",
    "Dropout": "p inplace",
    "Dropout1d": "p inplace",
    "ELU": "alpha inplace",
    "Embedding": "num_embeddings embedding_dim padding_idx max_norm norm_type "
    "scale_grad_by_freq sparse",
    "FeatureAlphaDropout": "p inplace",
    "Flatten": "start_dim end_dim",
    "GELU": "approximate",
    "GLU": "dim",
    "GRU": _RNN,
    "GRUCell": "input_size hidden_size bias",
    "GroupNorm": "num_groups num_channels eps affine",
    "Hardshrink": "lambd",
    "Hardsigmoid": "inplace",
    "Hardswish": "inplace",
    "Hardtanh": "min_val max_val inplace",
    "Identity": "",
    "LSTM": f"{_RNN} proj_size",
    "LSTMCell": "input_size hidden_size bias",
    "LayerNorm": "normalized_shape eps elementwise_affine bias",
    "LeakyReLU": "negative_slope inplace",
    "Linear": "in_features out_features bias",
    "LogSigmoid": "",
    "LogSoftmax": "dim",
    "MaxPool1d": "kernel_size stride padding dilation return_indices ceil_mode",
    "Mish": "inplace",
    "PReLU": "num_parameters",
    "PairwiseDistance": "norm eps keepdim",
    "RMSNorm": "normalized_shape eps elementwise_affine",
    "RNN": f"{_RNN} nonlinearity",
    "RNNCell": "input_size hidden_size bias nonlinearity",
    "RReLU": "lower upper inplace",
    "ReLU": "inplace",
    "ReLU6": "inplace",
    "SELU": "inplace",
    "SiLU": "inplace",
    "Sigmoid": "",
    "Softmax": "dim",
    "Softmin": "dim",
    "Softplus": "beta threshold",
    "Softshrink": "lambd",
    "Softsign": "",
    "Tanh": "",
    "Tanhshrink": "",
    "Threshold": "threshold value inplace",
    "Unflatten": "dim unflattened_size",
    "_WeightNorm": "dim",
}

_CLASSES: dict[str, type[nn.Module]] = {
    # Older versions of torch lack some.
    **{n: getattr(nn, n) for n in _ARGUMENTS if hasattr(nn, n)},
    # What torch.nn.utils.parametrizations.weight_norm puts into a layer.
    "_WeightNorm": parametrizations._WeightNorm,
    "dgl_lc.Dropout": QuickDropout,
}
_NAMES = {kind: name for name, kind in _CLASSES.items()}

#: Arguments whose attribute has another name.
_RENAMED = {"PairwiseDistance": {"p": "norm"}}
_PLAIN = (type(None), bool, int, float, str)
#: A larger size is none of a model, and would be the work of days.
_MOST = 2**40
_MOST_LAYERS = 1000

#: Attributes that are no settings, or that follow from the tensors.
_STATE = frozenset({
    "_parameters", "_buffers", "_modules", "training", "_flat_weights",
    "_flat_weight_refs",
})  # fmt: skip


def class_name(module: nn.Module) -> str | None:
    """Return the name of a module's class, or None for one not allowed."""
    return _NAMES.get(type(module))


def settings_of(module: nn.Module) -> dict[str, Any]:
    """Return the arguments that a module of an allowed class is made with."""
    names = _argument_names(_NAMES[type(module)])
    found = {name: getattr(module, its) for name, its in names.items()}
    if "bias" in found:
        # Recurrent modules have a flag, the others the tensor or None.
        bias = found["bias"]
        found["bias"] = bias if isinstance(bias, bool) else bias is not None
    return found


def make_module(name: str, settings: dict[str, Any]) -> nn.Module:
    """Make a module of an allowed class, without memory for its tensors.

    Raises a ValueError for another class, or for settings that are not those
    of its constructor.
    """
    if name not in _CLASSES:
        raise ValueError(f"{name!r} is not a module that may be read")
    if settings.keys() != _argument_names(name).keys():
        raise ValueError(f"{name} is not made with {list(settings)}")
    for key, value in settings.items():
        parts = value if isinstance(value, tuple) else (value,)
        if not all(type(part) in _PLAIN for part in parts):
            raise ValueError(f"{key} of {name} is not a plain value")
        if any(type(p) is int and abs(p) > _MOST for p in parts):
            raise ValueError(f"{key} of {name} is too large")
    if settings.get("num_layers", 0) > _MOST_LAYERS:
        raise ValueError(f"num_layers of {name} is too large")
    with torch.device("meta"):
        return _CLASSES[name](**settings)


def difference(module: nn.Module, made: nn.Module) -> str | None:
    """Name what makes a module behave differently from one newly made.

    That may be a hook, a method of its own, an attribute that was set later,
    or a tensor of another name or shape.
    """
    fresh = vars(made)
    for name, value in vars(module).items():
        if name in _STATE:
            continue
        if name in fresh:
            if type(value) is not type(fresh[name]) or value != fresh[name]:
                return name
        elif hasattr(type(module), name):
            return name
    for kind in ("_parameters", "_buffers"):
        mine, its = getattr(module, kind), getattr(made, kind)
        for name in {**mine, **its}:
            shapes = [getattr(t.get(name), "shape", None) for t in (mine, its)]
            if shapes[0] != shapes[1]:
                return name
    return None


def _argument_names(name: str) -> dict[str, str]:
    """Return the arguments of a constructor, with their attributes."""
    names = _ARGUMENTS[name.removeprefix("dgl_lc.")].split()
    renamed = {its: key for key, its in _RENAMED.get(name, {}).items()}
    return {renamed.get(its, its): its for its in names}
