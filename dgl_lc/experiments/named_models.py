"""The models of the experiments, by name."""

import inspect
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from dgl import DGLError
from torch import nn

from .. import nn as models
from .._common.bytes import require_memory
from ..data import DiskData, NodeData
from ..nn.model import HopModel
from . import originals
from .closest_name import did_you_mean
from .model_names import AUTOMATIC, HOP_MODELS, NAMES, ORIGINALS

#: The classes: originals, which read the graph, then models on hop features.
MODELS: dict[str, type[nn.Module]] = {
    "GCN": originals.GCN,
    "JKNet": originals.JKNet,
    "GPRGNN": originals.GPRGNN,
    "MLP": originals.FeatureMLP,
    **{name: getattr(models, name) for name in HOP_MODELS},
}

#: Hidden sizes up to this one are not checked.
_SMALL = 4096


def check_names(names: Sequence[str], known: Sequence[str] = NAMES) -> None:
    """Raise an error for the first name that is not among the known ones."""
    for name in names:
        if name not in known:
            raise DGLError(
                f"model {name!r} is not one of {', '.join(known)}."
                f"{did_you_mean(name, known)}"
            )


def module_of(name: str) -> str:
    """Return the LC module that computes the same as an automatic version.

    Other names are returned as they are.

    >>> module_of("autoGCN"), module_of("SGC")
    ('LCGCN', 'SGC')
    """
    return f"LC{AUTOMATIC[name]}" if name in AUTOMATIC else name


def option_names(name: str) -> list[str]:
    """Return the names of a model's options, without those of its sizes."""
    sizes = ("self", "in_feats", "hid_feats", "out_feats")
    signature = inspect.signature(MODELS[name].__init__).parameters
    own = [
        option
        for option, found in signature.items()
        if option not in sizes
        and found.kind not in (found.VAR_POSITIONAL, found.VAR_KEYWORD)
    ]
    if any(found.kind is found.VAR_KEYWORD for found in signature.values()):
        # Options of all models on hop features, which are passed on.
        shared = inspect.signature(HopModel.__init__).parameters.values()
        own += [
            found.name
            for found in shared
            if found.kind is found.KEYWORD_ONLY and found.name not in own
        ]
    return own


def make_model(
    name: str, data: NodeData | DiskData, hid_feats: int, **options: Any
) -> nn.Module:
    """Make a model for a data set.

    Parameters
    ----------
    name : str
        A key of :data:`MODELS`.
    data : NodeData or DiskData
        The data set, which determines the sizes of input and output.
    hid_feats : int
        Hidden feature size; ignored by models without hidden layers.
    **options
        Other options of the model. One that it does not have is an error.
    """
    check_names([name], list(MODELS))
    known = option_names(name)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise DGLError(
            f"{name} has no option {', '.join(unknown)}. It has "
            f"{', '.join(known)}."
        )
    sizes = {"in_feats": data.num_feats, "out_feats": data.num_classes}
    if "hid_feats" in inspect.signature(MODELS[name].__init__).parameters:
        sizes["hid_feats"] = hid_feats
        rows = data.graph.num_nodes() if name in ORIGINALS else 0
        _check_memory(name, sizes, options, rows)
    return MODELS[name](**sizes, **options)


def _check_memory(
    name: str, sizes: dict[str, int], options: dict[str, Any], rows: int
) -> None:
    """Refuse a hidden size with which a model cannot be trained in memory.

    ``rows`` is the number of rows that pass through it at a time, at least.
    """
    hidden = sizes["hid_feats"]
    if hidden <= _SMALL:
        return
    # The number of parameters is a polynomial of degree 2 in the hidden size,
    # so that three small models tell its value for any size.
    small = (16, 32, 48)
    counts = []
    with torch.random.fork_rng(devices=[]):
        for size in small:
            model = MODELS[name](**{**sizes, "hid_feats": size}, **options)
            counts.append(sum(p.numel() for p in model.parameters()))
    first, second, third = counts
    place = Fraction(hidden - small[0], small[1] - small[0])
    count = round(
        first
        + place * (second - first)
        + place * (place - 1) / 2 * (third - 2 * second + first)
    )
    # Weights, gradients and the two moments of Adam, and one hidden layer of
    # all rows, in float32.
    require_memory(
        16 * count + 4 * rows * hidden,
        f"{name} with hid_feats={hidden}",
        "choose a smaller hidden size",
    )
