"""Suggestions for names that were mistyped."""

import difflib
from collections.abc import Iterable


def closest_name(
    name: str, known: Iterable[str], cutoff: float = 0.0
) -> str | None:
    """Return the known name that is most similar to ``name``.

    ``cutoff`` is the least similarity, from 0 to 1; None if no name has it.

    >>> closest_name("LCGNC", ["GCN", "LCGCN"])
    'LCGCN'
    """
    lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(str(name).lower(), lower, 1, cutoff)
    return lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question to append to an error message, or an empty string.

    >>> did_you_mean("LCGNC", ["GCN", "LCGCN"])
    " Did you mean 'LCGCN'?"
    """
    close = closest_name(name, known, cutoff=0.5)
    return f" Did you mean {close!r}?" if close else ""
