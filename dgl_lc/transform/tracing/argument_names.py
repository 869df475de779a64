"""Names of the arguments of a call: those that the model's forward has."""

import difflib
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from .. import causes
from ..refusals import refuse

#: Options of lc_transform, lc.precompute and lc.drift.
_OPTIONS = (
    "fold", "bias", "ignore_edge_dropout", "copy", "max_inputs", "nodes",
    "memory", "dtype", "device", "progress", "out", "resume", "samples",
)  # fmt: skip


def check_arguments(model: nn.Module, args: tuple, kwargs: dict) -> None:
    """Refuse arguments that the model's forward does not have, or lacks."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = [name for name in kwargs if name not in signature.parameters]
        near = [
            f"{match}="
            for name in unknown
            for match in difflib.get_close_matches(name, _OPTIONS, 1)
        ]
        meant = f". Did you mean the option {near[0]}?" if near else ""
        refuse(
            causes.WRONG_CALL, "", "the call",
            f"does not fit forward{signature}: {error}{meant}",
            "Pass the model, then the arguments of its forward, as in a call "
            "of the model",
        )  # fmt: skip


def named_arguments(
    model: nn.Module, args: tuple, kwargs: dict
) -> Iterator[tuple[str | None, Any]]:
    """Yield (name, argument); the name is None for one of ``*args``."""
    names: list[str] = []
    try:
        for name, parameter in inspect.signature(
            model.forward
        ).parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                break
            names.append(name)
    except (TypeError, ValueError):
        pass
    for place, item in enumerate(args):
        yield names[place] if place < len(names) else None, item
    yield from kwargs.items()
