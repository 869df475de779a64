"""The options of lc_transform, checked before the model is traced."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NoReturn

from . import causes
from .refusals import refuse


@dataclass(frozen=True)
class Options:
    """The options of lc_transform."""

    fold: bool
    exact_bias: bool
    ignore_edge_dropout: bool
    copy: bool
    max_inputs: int


def check_options(
    fold: Any, bias: Any, ignore_edge_dropout: Any, copy: Any, max_inputs: Any
) -> Options:
    """Return the options, or refuse values that they can't have."""
    flags = {
        "fold": fold, "ignore_edge_dropout": ignore_edge_dropout, "copy": copy,
    }  # fmt: skip
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            _refuse(name, flag, f"Use {name}=True or {name}=False")
    if not isinstance(bias, str) or bias not in ("outside", "exact"):
        _refuse("bias", bias, 'Use bias="outside" or bias="exact"')
    whole = isinstance(max_inputs, Integral) and not isinstance(
        max_inputs, bool
    )
    if not whole or max_inputs < 1:
        advice = "Use a whole number of at least 1: max_inputs=256"
        _refuse("max_inputs", max_inputs, advice)
    return Options(
        fold, bias == "exact", ignore_edge_dropout, copy, int(max_inputs)
    )


def _refuse(name: str, given: Any, advice: str) -> NoReturn:
    """Refuse the value of an option."""
    text = repr(given)
    text = text if len(text) < 60 else f"{text[:60]}…"
    refuse(
        causes.WRONG_CALL, "", f"{name}={text}",
        f"is not a value of the option {name}", advice,
    )  # fmt: skip
