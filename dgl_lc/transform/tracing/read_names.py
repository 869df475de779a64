"""What the functions of a model read: global names and enclosing functions."""

import dis
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from .user_lines import is_users

#: Functions that are looked at, and how deep they may call each other.
_MOST, _DEEPEST = 1000, 5


def functions_of(
    model: nn.Module, with_constructors: bool = True
) -> Iterator[FunctionType]:
    """Yield the user's functions of a model, and those that they call by name.

    Functions of all submodules are looked at.
    """
    seen: set[int] = set()
    pending = [
        (function, 0)
        for module in model.modules()
        for function in _methods(module)
        if with_constructors or function.__name__ != "__init__"
    ]
    while pending and len(seen) < _MOST:
        function, depth = pending.pop(0)
        if id(function) in seen or not is_users(function.__code__.co_filename):
            continue
        seen.add(id(function))
        yield function
        if depth < _DEEPEST:
            for _, item in names_of(function):
                # A function with a cache around it has its own one inside.
                called = getattr(item, "__wrapped__", item)
                if _is_function(called):
                    pending.append((called, depth + 1))


def _methods(module: nn.Module) -> Iterator[FunctionType]:
    """Yield the functions of a module: its methods, and those it holds."""
    for kind in own_classes(module):
        yield from filter(_is_function, vars(kind).values())
    yield from filter(_is_function, vars(module).values())


def own_classes(module: nn.Module) -> Iterator[type]:
    """Yield the classes of a module, up to those of torch."""
    for kind in type(module).__mro__:
        if kind is nn.Module:
            break
        yield kind


def _is_function(item: Any) -> bool:
    return isinstance(item, FunctionType)


def names_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (name, item) for the names that a function reads."""
    code, known = function.__code__, function.__globals__
    for name in global_names(code):
        if name in known:
            yield name, known[name]
    cells = function.__closure__ or ()
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # The enclosing function has not assigned it yet.
            continue


@cache
def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the global names that code reads, and the functions inside it.

    Names of attributes are not among them: ``self.g`` is not ``g``.
    """
    return _names(code, ("LOAD_GLOBAL", "LOAD_NAME"))


@cache
def assigned_globals(code: CodeType) -> tuple[str, ...]:
    """Return the names that code assigns after ``global``."""
    return _names(code, ("STORE_GLOBAL", "DELETE_GLOBAL"))


def _names(code: CodeType, steps: tuple[str, ...]) -> tuple[str, ...]:
    found = [
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in steps
    ]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found.extend(_names(inner, steps))
    return tuple(dict.fromkeys(found))
