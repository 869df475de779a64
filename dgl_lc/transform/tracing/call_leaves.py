"""Graphs and tensors inside the arguments and the attributes of a model.

They may lie in lists, tuples, dicts, dataclasses and namespaces.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

#: A longer list has numbers or names, not graphs.
_LONGEST = 1000


def _parts(item: Any) -> list[tuple[Any, Any]] | None:
    """Return (key, part) for all parts of a container, or None."""
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return list(zip(item._fields, item, strict=True))
    if isinstance(item, (list, tuple)):
        return list(enumerate(item)) if len(item) <= _LONGEST else None
    if isinstance(item, dict):
        return list(item.items()) if len(item) <= _LONGEST else None
    if is_dataclass(item) and not isinstance(item, type):
        names = [field.name for field in fields(item)]
        return [(name, getattr(item, name)) for name in names]
    if isinstance(item, SimpleNamespace):
        return list(vars(item).items())
    return None


def named_leaves(
    item: Any, name: str = "", inside: tuple = ()
) -> Iterator[tuple[str, Any]]:
    """Yield (name, leaf) for whatever is no container: ``graphs.0``."""
    parts = _parts(item)
    if parts is None:
        yield name, item
    elif not any(item is outer for outer in inside):
        for key, part in parts:
            own = f"{name}.{key}" if name else str(key)
            yield from named_leaves(part, own, (*inside, item))


def call_leaves(item: Any) -> list:
    """Return whatever is no container in an item."""
    return [leaf for _, leaf in named_leaves(item)]


def change_leaves(item: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of an item with other leaves."""
    parts = _parts(item)
    if parts is None:
        return change(item)
    changed = [(key, change_leaves(part, change)) for key, part in parts]
    if isinstance(item, tuple):
        new = [part for _, part in changed]
        return type(item)(*new) if hasattr(item, "_fields") else tuple(new)
    made = copy.copy(item)
    for key, part in changed:
        if isinstance(item, (list, dict)):
            made[key] = part
        else:
            # A frozen dataclass has no other way to be changed.
            object.__setattr__(made, key, part)
    return made
