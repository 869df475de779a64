"""A call of a torch function, as the tracer sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .followed_numbers import plain
from .values import replace


@dataclass(frozen=True)
class TorchCall:
    """A torch function with the arguments that the model gives it."""

    function: Callable
    name: str
    args: tuple
    kwargs: dict

    @property
    def first(self) -> Any:
        """The first argument by position, or None."""
        return self.args[0] if self.args else None

    @property
    def prop(self) -> str:
        """The name of the property, if it reads one."""
        owner = getattr(self.function, "__self__", None)
        return getattr(owner, "__name__", "")

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """Return an argument that is given by position or by name."""
        if len(self.args) > place:
            return self.args[place]
        return self.kwargs.get(name, default)

    def run(self) -> Any:
        """Call the function, with plain numbers instead of followed ones."""
        args, kwargs = replace((self.args, self.kwargs), plain)
        return self.function(*args, **kwargs)
