"""Drift: how much the outputs of the LC version differ from the model's."""

from collections.abc import Callable
from dataclasses import dataclass

from .lc_module import LCModule


@dataclass(frozen=True)
class OperationDrift:
    """The difference that moving aggregations past an operation makes.

    Operations are swapped one after the other, from the output to the inputs:
    an operation can be swapped only after those that follow it. After the last
    one, the result is the LC version.

    Attributes
    ----------
    submodule, operation, kind : str
        Operation, as in the report.
    count : int
        Number of operations, if several are taken together; the names are
        those of the first one in the model.
    relative : float
        Norm of the change of the outputs when it is swapped, divided by the
        norm of the model's outputs.
    """

    submodule: str
    operation: str
    kind: str
    count: int
    relative: float

    def __str__(self) -> str:
        where = f" in {self.submodule}" if self.submodule else ""
        more = self.count - 1
        times = f" and the {more} that follow" if more else ""
        name = f"{self.kind}: {self.operation}{where}{times}"
        return f"{self.relative:8.2g}  {name}"


@dataclass(frozen=True)
class Drift:
    """The outputs of the LC version compared with those of the model.

    Attributes
    ----------
    relative : float
        Norm of the difference of the outputs, divided by the norm of the
        model's outputs.
    agreement : float or None
        Share of the nodes whose largest output is at the same place (whose
        class is the same); None if the output has no classes.
    operations : list of OperationDrift
        What swapping each operation that is not exact contributes; the
        largest first.
    nodes, num_nodes : int
        Number of nodes that were compared, and of the graph.
    neighbours, hops : int
        Number of nodes that these were computed from, and how many hops
        away they are.
    """

    relative: float
    agreement: float | None
    operations: list[OperationDrift]
    nodes: int
    num_nodes: int
    neighbours: int
    hops: int

    def __str__(self) -> str:
        line = f"drift: outputs differ by {self.relative:.2g} (relative)"
        if self.agreement is not None:
            line += f", argmax agrees for {self.agreement:.1%} of the nodes"
        lines = [line]
        if self.nodes == self.num_nodes:
            lines.append(f"  compared for all {self.nodes:,} nodes")
        else:
            lines.append(
                f"  compared for {self.nodes:,} of {self.num_nodes:,} nodes, "
                f"with all {self.neighbours:,} nodes of their neighbourhoods "
                f"of {self.hops} hops"
            )
        if self.operations:
            lines.append("  by operation, in the order of size:")
            lines.extend(f"  {entry}" for entry in self.operations)
        return "\n".join(lines)


class LazyDrift:
    """A drift that is measured when it is asked for.

    It is measured again if a parameter or a buffer has changed since.
    """

    def __init__(self, measure: Callable[[], Drift], module: LCModule) -> None:
        self._measure, self._module = measure, module
        self._known: tuple[list, Drift] | None = None

    def known(self) -> Drift | None:
        """Return the drift if it was measured for the present parameters."""
        if self._known is None or self._known[0] != self._state():
            return None
        return self._known[1]

    def measure(self) -> Drift:
        """Return the drift for the present parameters."""
        found = self.known()
        if found is None:
            found = self._measure()
            self._known = self._state(), found
        return found

    def _state(self) -> list[tuple[int, int]]:
        tensors = (*self._module.parameters(), *self._module.buffers())
        # Tensors that were made in inference mode do not count changes.
        return [
            (id(tensor), 0 if tensor.is_inference() else tensor._version)
            for tensor in tensors
        ]
