"""A module that runs a row program, step by step."""

from typing import Any

import torch
from dgl import DGLError

from .._common.nested import leaves, replace
from .allowed_calls import find_call
from .needs import Needs
from .row_module import RowModule, find_owner
from .steps import Result, Step, Training


class RowProgram(RowModule):
    """A transformed model that was read from a file.

    It computes what the LC version computes that was saved, with the same
    operations in the same order, and trains in the same way. Its parameters
    have the names that they had in the model.

    Attributes
    ----------
    needs : Needs
        The inputs that have to be precomputed; ``print(model.needs)``.
    """

    def __init__(
        self, name: str, needs: Needs, steps: list[Step], output: Any
    ) -> None:
        super().__init__()
        self._name = name
        self._row_needs: Needs = needs
        self._steps = steps
        self._output = output
        self._last_uses = _last_uses(steps, output, len(needs.inputs))

    @property
    def needs(self) -> Needs:
        """The inputs that have to be precomputed."""
        return self._row_needs

    def forward(self, *rows: torch.Tensor, **named: torch.Tensor) -> Any:
        """Compute the output for rows of the inputs, in their order."""
        results: dict[int, Any] = dict(enumerate(self._in_order(rows, named)))

        def known(leaf: Any) -> Any:
            if isinstance(leaf, Result):
                return results[leaf.number]
            return self.training if isinstance(leaf, Training) else leaf

        first = len(results)
        for number, step in enumerate(self._steps, first):
            args, kwargs = replace((step.args, step.kwargs), known)
            results[number] = self._call(step, args, kwargs)
            for done in self._last_uses[number - first]:
                del results[done]
        return replace(self._output, known)

    def _call(self, step: Step, args: tuple, kwargs: dict) -> Any:
        if step.call == "tensor":
            owner, name = find_owner(self, step.target)
            kind = owner._parameters if name in owner._parameters else None
            return (owner._buffers if kind is None else kind)[name]
        if step.call == "module":
            owner, name = find_owner(self, step.target)
            module = owner._modules[name]
            assert module is not None
            return module(*args, **kwargs)
        function = find_call(step.call)
        assert function is not None
        return function(*args, **kwargs)

    def _in_order(self, rows: tuple, named: dict[str, Any]) -> list:
        """Return the inputs in their order, however they were passed."""
        names = [entry.name for entry in self._row_needs.inputs]
        found = dict(zip(names, rows, strict=False))
        both = found.keys() & named.keys()
        found.update(named)
        if len(rows) > len(names) or both or found.keys() != set(names):
            raise DGLError(
                f"the model takes the rows of {len(names)} inputs, "
                f"{', '.join(names)}: pass each of them once."
            )
        return [found[name] for name in names]

    def _get_name(self) -> str:
        return self._name

    def extra_repr(self) -> str:
        """Show the inputs that are needed."""
        return str(self._row_needs)


def _last_uses(steps: list[Step], output: Any, inputs: int) -> list[list[int]]:
    """Return for each step the results that no later step reads."""
    seen = {
        leaf.number for leaf in leaves(output) if isinstance(leaf, Result)
    }  # fmt: skip
    found: list[list[int]] = []
    for number in reversed(range(len(steps))):
        step = steps[number]
        read = {
            leaf.number
            for leaf in leaves((step.args, step.kwargs))
            if isinstance(leaf, Result)
        }
        # A result that nothing reads is dropped at once.
        own = inputs + number
        found.append(sorted((read | {own}) - seen))
        seen |= read | {own}
    return found[::-1]
