"""Outputs of a model: dataclasses become dicts, other objects are refused."""

from dataclasses import fields, is_dataclass
from enum import Enum
from numbers import Number
from types import SimpleNamespace
from typing import Any

import torch

from ..._common.nested import replace
from .. import causes
from ..refusals import refuse

#: Types of outputs that hold no rows.
_PLAIN = (
    torch.Tensor, Number, str, bytes, Enum, torch.dtype, torch.device,
    type(None),
)  # fmt: skip


def plain_output(output: Any) -> Any:
    """Return an output with dicts instead of dataclasses and namespaces.

    What the LC version returns is written to files, which have no classes of
    the user's.
    """
    return replace(output, _plain_leaf)


def _plain_leaf(leaf: Any) -> Any:
    if is_dataclass(leaf) and not isinstance(leaf, type):
        names = [field.name for field in fields(leaf)]
        return plain_output({name: getattr(leaf, name) for name in names})
    if isinstance(leaf, SimpleNamespace):
        return plain_output(dict(vars(leaf)))
    if not isinstance(leaf, _PLAIN):
        refuse(
            causes.NO_ROWS_IN_OUTPUT, "", "the output",
            f"has an object of the class {type(leaf).__name__}, whose tensors "
            f"can't be found",
            "Return tensors, in tuples, lists, dicts or dataclasses",
        )  # fmt: skip
    return leaf
