"""State that a model shares with its copies, which are run on probes.

A forward may keep something for its next call: in a dict or list with a global
name, in a class attribute, in a variable of an enclosing function. What it
keeps of a probe must be seen neither on the user's graph nor on another probe.
"""

import copy
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper, partial
from types import FunctionType
from typing import Any

from torch import nn

from .read_names import assigned_globals, functions_of, names_of, own_classes
from .user_lines import is_installed, is_users

_CONTAINERS = (dict, OrderedDict, defaultdict, list, set, deque)
#: Larger containers are data, and no cache; how deep they are looked into.
_MOST, _DEEPEST = 10_000, 3
_MISSING = object()


@contextmanager
def kept_shared_state(model: nn.Module) -> Iterator[None]:
    """Restore what a model shares with its copies, after this block."""
    restore = list(_snapshots(model))
    try:
        yield
    finally:
        for put_back in restore:
            put_back()


def _snapshots(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Yield functions that put back the present state."""
    seen: set[int] = set()
    for module in model.modules():
        for kind in own_classes(module):
            if id(kind) not in seen and not _of_library(kind):
                seen.add(id(kind))
                yield from _of_class(kind, seen)
    for function in functions_of(model):
        known = function.__globals__
        for name in assigned_globals(function.__code__):
            yield partial(_put_item, known, name, known.get(name, _MISSING))
        yield from _of_cells(function)
        held = [item for _, item in names_of(function)]
        held += [vars(function), *(function.__defaults__ or ())]
        for item in held:
            yield from _of_item(item, seen, 0)


def _of_class(kind: type, seen: set[int]) -> Iterator[Callable[[], None]]:
    """Yield functions that put back the attributes of a class."""
    before = dict(vars(kind))
    yield partial(_put_attributes, kind, before)
    for item in before.values():
        yield from _of_item(item, seen, 0)


def _of_cells(function: FunctionType) -> Iterator[Callable[[], None]]:
    """Yield functions that put back variables of enclosing functions."""
    for cell in function.__closure__ or ():
        try:
            yield partial(setattr, cell, "cell_contents", cell.cell_contents)
        except ValueError:
            # The enclosing function has not assigned it yet.
            continue


def _of_item(
    item: Any, seen: set[int], depth: int
) -> Iterator[Callable[[], None]]:
    """Yield functions that put back the contents of a container."""
    if id(item) in seen or depth > _DEEPEST:
        return
    if isinstance(item, _lru_cache_wrapper):
        yield partial(_forget_new, item, item.cache_info().misses)
    elif isinstance(item, type) and not _of_library(item):
        seen.add(id(item))
        yield from _of_class(item, seen)
    elif type(item) in _CONTAINERS and len(item) <= _MOST:
        seen.add(id(item))
        yield partial(_put_contents, item, copy.copy(item))
        inside = item.values() if isinstance(item, dict) else item
        for part in list(inside):
            yield from _of_item(part, seen, depth + 1)
    elif _is_users_object(item):
        yield from _of_item(vars(item), seen, depth + 1)


def _is_users_object(item: Any) -> bool:
    """Return whether an object of a class of the user's has attributes."""
    plain = not isinstance(item, (nn.Module, type, FunctionType))
    return plain and hasattr(item, "__dict__") and not _of_library(type(item))


def _of_library(kind: type) -> bool:
    """Return whether a class belongs to Python or an installed package."""
    if kind.__module__ == "__main__":
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is None or not is_users(file) or is_installed(file)


def _put_item(items: dict, name: str, value: Any) -> None:
    if value is _MISSING:
        items.pop(name, None)
    else:
        items[name] = value


def _put_attributes(kind: type, before: dict[str, Any]) -> None:
    """Let a class have the attributes that it had before."""
    after = dict(vars(kind))
    for name in after.keys() - before.keys():
        delattr(kind, name)
    for name, value in before.items():
        if after.get(name, _MISSING) is not value:
            setattr(kind, name, value)


def _put_contents(item: Any, before: Any) -> None:
    """Let a container have the contents that it had before, if it changed."""
    pairs = [
        list(part.items()) if isinstance(part, dict) else list(part)
        for part in (item, before)
    ]
    ids = [
        [tuple(map(id, x)) if isinstance(part, dict) else id(x) for x in pair]
        for part, pair in zip((item, before), pairs, strict=True)
    ]
    if ids[0] != ids[1]:
        item.clear()
        add = getattr(item, "update", None) or item.extend
        add(before)


def _forget_new(function: Any, misses: int) -> None:
    """Empty the cache of a function that cached something new."""
    if function.cache_info().misses != misses:
        function.cache_clear()
