"""Orders of values: each one follows those that it is computed from."""

from collections.abc import Callable, Iterable

from ..tracing.values import Value


def number_of(value: Value) -> int:
    """Return the number of a value in the order of computation."""
    return value.id


def in_order(
    ends: Iterable[Value],
    sources: Callable[[Value], list[Value]],
    shallow_first: bool = False,
) -> list[Value]:
    """List values so that each one follows its sources.

    Parameters
    ----------
    shallow_first : bool
        Whether a source with fewer steps before it comes first. What is used
        by all layers is then not in the midst of the first one. Otherwise
        values are listed as they are computed.
    """
    ends = list(ends)
    known: dict[Value, list[Value]] = {}
    pending = list(ends)
    while pending:
        value = pending.pop()
        if value not in known:
            known[value] = sources(value)
            pending.extend(known[value])
    if not shallow_first:
        return sorted(known, key=number_of)
    depth: dict[Value, int] = {}
    for value in _after_sources(ends, known):
        depth[value] = 1 + max((depth[s] for s in known[value]), default=0)
    for found in known.values():
        found.sort(key=depth.__getitem__)
    return _after_sources(ends, known)


def _after_sources(
    ends: list[Value], sources: dict[Value, list[Value]]
) -> list[Value]:
    """List values depth first; without recursion, as models may be deep."""
    found: dict[Value, None] = {}
    pending = [(end, iter(sources[end])) for end in reversed(ends)]
    while pending:
        top, rest = pending[-1]
        missing = next((s for s in rest if s not in found), None)
        if missing is None:
            found.setdefault(top)
            pending.pop()
        else:
            pending.append((missing, iter(sources[missing])))
    return list(found)
