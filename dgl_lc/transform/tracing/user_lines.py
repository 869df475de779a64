"""Finding the line of the user's code that an operation is called from."""

import functools
import os
import sys
import sysconfig
from collections.abc import Callable
from types import FrameType
from typing import Any

import dgl
import numpy as np
import torch

from ..refusals import Line


def _folder(file: str | None) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(file or "")), "")


_DGL = _folder(dgl.__file__)
_TORCH_AND_NUMPY = (_folder(torch.__file__), _folder(np.__file__))
_STANDARD = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = tuple(
    os.path.join(sysconfig.get_path(kind), "")
    for kind in ("purelib", "platlib")
)
#: The folder of dgl_lc itself, two above this one.
_OURS = _folder(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def _owner(file: str) -> str:
    """Return whose code a file is: "user", "dgl", or "" for all others."""
    if file.startswith(_DGL):
        return "dgl"
    # Compiled code of DGL and torch has paths of the machine it was built on.
    built = file.startswith(("dgl/", "torch/")) or file.endswith(".pxi")
    if built or file.startswith((_OURS, "<frozen", *_TORCH_AND_NUMPY)):
        return ""
    standard = file.startswith(_STANDARD) and not file.startswith(_PACKAGES)
    return "" if standard else "user"


def is_users(file: str) -> bool:
    """Return whether a file is the user's, not one of a library below it."""
    return _owner(file) == "user"


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package."""
    return file.startswith(_PACKAGES)


def call_model(model: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a model: :func:`user_line` looks at the frames inside this call."""
    return model(*args, **kwargs)


def failing_line(error: Exception) -> Line | None:
    """Return the innermost line of the user's that an error came through."""
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if _owner(file) == "user":
            found = Line(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def function_of_dgl() -> str:
    """Return the name of the function of DGL that the user called."""
    name = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not call_model.__code__:
        owner = _owner(frame.f_code.co_filename)
        if owner == "user":
            break
        if owner == "dgl":
            name = frame.f_code.co_name
            if name in ("__call__", "forward", "__init__"):
                name = type(frame.f_locals.get("self")).__name__
        frame = frame.f_back
    return name


def user_line() -> Line | None:
    """Return the line of the innermost call that is the user's.

    For a model that is a module of DGL itself, it is a line of that module.
    """
    frame: FrameType | None = sys._getframe(1)
    in_dgl = None
    while frame is not None and frame.f_code is not call_model.__code__:
        owner = _owner(frame.f_code.co_filename)
        if owner == "user":
            return Line(frame.f_code.co_filename, frame.f_lineno)
        if owner == "dgl":
            in_dgl = frame
        frame = frame.f_back
    if in_dgl is None or frame is None:
        return None
    return Line(in_dgl.f_code.co_filename, in_dgl.f_lineno)
