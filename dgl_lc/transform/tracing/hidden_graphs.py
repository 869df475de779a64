"""Graphs that forward reads from global names or enclosing functions.

A model is traced on other graphs than the user's, so a graph has to be an
argument or an attribute of the model, where another one can take its place.
"""

import sys
from types import FrameType
from typing import Any

import dgl
from torch import nn

from .read_names import functions_of, global_names, names_of
from .user_lines import call_model, is_users


def hidden_graph(model: nn.Module) -> tuple[str, str] | None:
    """Return (name, function) of a graph that a model's forward reads.

    Functions that forward calls by their names are looked at as well. What a
    constructor reads is not read again when the model is called.
    """
    for function in functions_of(model, with_constructors=False):
        for name, item in names_of(function):
            if isinstance(item, dgl.DGLGraph):
                return name, function.__qualname__
    return None


def name_of_graph(index: Any) -> str:
    """Return the name by which the user's code that runs reads a graph."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not call_model.__code__:
        code = frame.f_code
        if is_users(code.co_filename):
            places = [
                (frame.f_globals, global_names(code)),
                (frame.f_locals, code.co_freevars),
            ]
            for known, names in places:
                for name in names:
                    item = known.get(name)
                    if isinstance(item, dgl.DGLGraph) and item._graph is index:
                        return name
        frame = frame.f_back
    return ""
