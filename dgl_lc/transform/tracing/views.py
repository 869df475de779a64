"""Views: tensors that share memory, so that a write into one changes others.

A write is recorded as a function that returns a new tensor. The tensors that
a view was made from get values of their own at once; other views of them are
read from these again when the model uses them next.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...row_programs.written_rows import VIEWS, write_view
from .values import Value, name_of

if TYPE_CHECKING:
    from .recorder import Recorder


@dataclass(frozen=True)
class View:
    """How a tensor was made from another one whose memory it shares.

    Attributes
    ----------
    of : Tensor
        The tensor that it is a view of, which may be a view as well.
    function : callable or None
        Function that returns the view; None: it is the same, item by item.
    args, kwargs
        Further arguments; tensors and sizes among them are values.
    """

    of: torch.Tensor
    function: Callable | None
    args: tuple
    kwargs: dict

    @property
    def detached(self) -> bool:
        """Whether autograd does not see that it is a view."""
        return self.function is torch.Tensor.detach

    @property
    def method(self) -> str:
        """The name of the method that returns the view."""
        name = name_of(self.function)
        if name == "T":
            return "t"
        return "__getitem__" if self.function is operator.getitem else name


class Views:
    """Knows which tensors are views of which."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self._views: dict[int, tuple[torch.Tensor, View]] = {}

    def add(
        self, tensor: Any, of: Any, function: Callable | None,
        args: tuple = (), kwargs: dict | None = None,
    ) -> None:  # fmt: skip
        """Remember a tensor, if it is a view that can be followed."""
        tensors = isinstance(tensor, torch.Tensor) and isinstance(
            of, torch.Tensor
        )
        if not tensors or tensor is of:
            return
        if not isinstance(of, torch.Tensor):
            return
        view = View(of, function, args, kwargs or {})
        known = _shares(tensor, of) and view.method in VIEWS
        if function is None or view.detached or known:
            self._views[id(tensor)] = tensor, view

    def sources(self, tensor: Any) -> list[tuple[View, Value]]:
        """Return what a tensor is a view of, with present values.

        The tensor that it was made from comes first, and one that is no view
        comes last.
        """
        found = []
        while id(tensor) in self._views:
            _, view = self._views[id(tensor)]
            found.append((view, self._recorder.value_of(view.of)))
            tensor = view.of
        return found

    def read_again(self, tensor: torch.Tensor) -> Value | None:
        """Return the value of a view after a write, if it is a known view."""
        if id(tensor) not in self._views:
            return None
        _, view = self._views[id(tensor)]
        source = self._recorder.value_of(view.of)
        if view.function is None:
            return source
        return self._recorder.add(
            "call", view.function, (source, *view.args), view.kwargs, tensor
        )

    def write(self, value: Value, sources: list[tuple[View, Value]]) -> None:
        """Let what a view was made from have the value written to it."""
        for view, before in sources:
            if view.function is not None and not view.detached:
                value = self._recorder.add(
                    "call", write_view,
                    (before, value, view.method, *view.args), view.kwargs,
                    view.of,
                )  # fmt: skip
            self._recorder.bind(view.of, value)

    def turn(
        self, tensor: torch.Tensor, before: torch.Tensor, function: Callable,
        args: tuple, kwargs: dict,
    ) -> None:  # fmt: skip
        """Note that a tensor changed its shape in place.

        ``before`` is a tensor of the old shape, with the same memory; it
        takes the place of the tensor in what is known of views.
        """
        turned = View(before, function, args, kwargs)
        if id(tensor) in self._views:
            self._views[id(before)] = before, self._views.pop(id(tensor))[1]
        for key, (made, view) in list(self._views.items()):
            if view.of is tensor:
                moved = View(before, view.function, view.args, view.kwargs)
                self._views[key] = made, moved
        self._views[id(tensor)] = tensor, turned


def _shares(tensor: torch.Tensor, of: torch.Tensor) -> bool:
    """Return whether a tensor is a view of another."""
    if not isinstance(of, torch.Tensor):
        return False  # the equation of einsum
    base = tensor._base
    return base is not None and (base is of or base is of._base)
