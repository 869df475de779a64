"""Rewriting a trace: a copy in which some values are replaced."""

from dataclasses import replace
from typing import Any

from .tracing.values import Trace, Value
from .tracing.values import replace as replace_leaves


class Rewriter:
    """Copies a trace value by value, with others in the place of some.

    Values that are added on the way get ids in the order of computation.
    """

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._new: dict[Value, Value] = {}

    def rewrite(self, trace: Trace) -> Trace:
        """Return a rewritten trace; no value of the given one is changed."""
        for value in trace.values:
            # Keys of graphs may have values in them, the matrices they are of.
            args, kwargs, target = replace_leaves(
                (value.args, value.kwargs, value.target), self._current
            )
            made = replace(
                value, id=len(self.values), args=args, kwargs=kwargs,
                target=target,
            )  # fmt: skip
            found = None if value.trouble else self.instead(made)
            if found is None:
                # Rules may have added values before this one.
                made.id = len(self.values)
                self.values.append(made)
                found = made
            self._new[value] = found
        for value in self.values:
            # What an embedding is at words comes after it.
            if value.counted in self._new:
                value.counted = self._current(value.counted)
        guards = [
            replace(guard, value=self._current(guard.value))
            for guard in trace.guards
        ]
        output = replace_leaves(trace.output, self._current)
        return replace(trace, values=self.values, guards=guards, output=output)

    def instead(self, value: Value) -> Value | None:
        """Return the value to take in the place of one, or None to keep it."""
        raise NotImplementedError

    def _current(self, leaf: Any) -> Any:
        return self._new[leaf] if isinstance(leaf, Value) else leaf
