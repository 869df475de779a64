"""Graphs that forward reads from global names or enclosing functions.

A model is traced on other graphs than the user's, so a graph has to be an
argument or an attribute of the model, where another one can take its place.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

import dgl
from torch import nn

from .user_lines import call_model, is_users

#: Functions that are looked at, and how deep they may call each other.
_MOST, _DEEPEST = 1000, 5


def hidden_graph(model: nn.Module) -> tuple[str, str] | None:
    """Return (name, function) of a graph that a model's forward reads.

    Functions that forward calls by their names are looked at as well.
    """
    seen: set[int] = set()
    pending = [
        (function, 0)
        for module in model.modules()
        for function in _methods(module)
    ]
    while pending and len(seen) < _MOST:
        function, depth = pending.pop(0)
        if id(function) in seen or not is_users(function.__code__.co_filename):
            continue
        seen.add(id(function))
        for name, item in _names_of(function):
            if isinstance(item, dgl.DGLGraph):
                return name, function.__qualname__
            if isinstance(item, FunctionType) and depth < _DEEPEST:
                pending.append((item, depth + 1))
    return None


def _methods(module: nn.Module) -> Iterator[FunctionType]:
    """Yield the functions of a module: its methods, and those it holds."""
    for kind in type(module).__mro__:
        if kind is nn.Module:
            break
        yield from filter(_is_function, vars(kind).values())
    yield from filter(_is_function, vars(module).values())


def _is_function(item: Any) -> bool:
    return isinstance(item, FunctionType)


def _names_of(function: Callable) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for the names that a function reads."""
    code, known = function.__code__, function.__globals__
    for name in _global_names(code):
        if name in known:
            yield name, known[name]
    cells = function.__closure__ or ()
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # The enclosing function has not assigned it yet.
            continue


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that code reads, and the functions inside it.

    Names of attributes are not among them: ``self.g`` is not ``g``.
    """
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def name_of_graph(index: Any) -> str:
    """Return the name by which the user's code that runs reads a graph."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not call_model.__code__:
        code = frame.f_code
        if is_users(code.co_filename):
            places = [
                (frame.f_globals, list(_global_names(code))),
                (frame.f_locals, list(code.co_freevars)),
            ]
            for known, names in places:
                for name in names:
                    item = known.get(name)
                    if isinstance(item, dgl.DGLGraph) and item._graph is index:
                        return name
        frame = frame.f_back
    return ""
