"""Nested lists, tuples, dicts and slices: arguments of a call."""

from collections.abc import Callable
from typing import Any


def leaves(item: Any) -> list:
    """Return the leaves of nested lists, tuples, dicts and slices."""
    found: list = []
    stack = [item]
    while stack:
        part = stack.pop()
        if isinstance(part, (list, tuple)):
            stack.extend(reversed(part))
        elif isinstance(part, dict):
            stack.extend(reversed(list(part.values())))
        elif isinstance(part, slice):
            stack.extend((part.step, part.stop, part.start))
        else:
            found.append(part)
    return found


def replace(item: Any, change: Callable[[Any], Any]) -> Any:
    """Change the leaves of nested lists, tuples, dicts and slices."""
    if not isinstance(item, (tuple, list, dict, slice)):
        return change(item)
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*(replace(part, change) for part in item))
    if isinstance(item, tuple):
        return tuple([replace(part, change) for part in item])
    if isinstance(item, list):
        return [replace(part, change) for part in item]
    if isinstance(item, dict):
        return {key: replace(part, change) for key, part in item.items()}
    ends = (item.start, item.stop, item.step)
    return slice(*(replace(part, change) for part in ends))
