"""Chains: operations in a row, and inputs that go together, share a box."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .boxes import (
    AGGREGATION,
    INPUTS,
    OPERATIONS,
    TIMES,
    Box,
    Diagram,
    TextLine,
    shorten,
)
from .model_steps import ModelStep

#: Operations in a row that share a box.
_MOST_LINES = 9


@dataclass
class Node:
    """A step, or a repeated part as a whole, and the nodes it takes from.

    Attributes
    ----------
    args : list of int
        Numbers of earlier nodes, each once.
    step : ModelStep
        The step; of a repeated part, the first one.
    box : Box or None
        The box of a repeated part.
    leaves : bool
        Whether its result is also used by other nodes than these.
    """

    args: list[int]
    step: ModelStep
    box: Box | None = None
    leaves: bool = False

    @property
    def kind(self) -> str:
        """The kind of box that it needs."""
        return self.step.kind if self.box is None else self.box.kind


@dataclass
class _Chain:
    """Nodes that share a box."""

    kind: str
    nodes: list[int] = field(default_factory=list)


def merge_chains(nodes: Sequence[Node]) -> Diagram:
    """Make boxes of nodes, and arrows between them.

    Operations in a row share a box, and so do inputs that are used by the
    same nodes. An aggregation shares its box with its norms only.
    """
    merger = _Merger(nodes)
    for number in range(len(nodes)):
        merger.add(number)
    return merger.diagram()


class _Merger:
    """Puts nodes into chains, one after the other."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._users: list[list[int]] = [[] for _ in nodes]
        for number, node in enumerate(nodes):
            for arg in node.args:
                self._users[arg].append(number)
        self._chains: list[_Chain] = []
        self._chain_of: list[int] = []
        self._inputs: dict[tuple, int] = {}

    def add(self, number: int) -> None:
        """Put a node into the chain it continues with, or into a new one."""
        chain = self._chain_for(number)
        if chain is None:
            chain = len(self._chains)
            kind = self._nodes[number].kind
            if self._leads_to_aggregation(number):
                kind = AGGREGATION
            self._chains.append(_Chain(kind))
        self._chains[chain].nodes.append(number)
        self._chain_of.append(chain)

    def _chain_for(self, number: int) -> int | None:
        """Return the chain that a node continues with, if any."""
        node = self._nodes[number]
        if node.kind == INPUTS:
            key = tuple(self._users[number]), tuple(node.args)
            chain = self._inputs.setdefault(key, len(self._chains))
            return chain if chain < len(self._chains) else None
        if node.kind not in (OPERATIONS, AGGREGATION) or len(node.args) != 1:
            return None
        (before,) = node.args
        if not self._has_sole_user(before):
            return None
        rows = node.step.rows, self._nodes[before].step.rows
        if all(rows) and rows[0] != rows[1]:
            return None  # it is needed at fewer words than what is before it
        chain = self._chain_of[before]
        found = self._chains[chain]
        if node.kind == AGGREGATION or self._leads_to_aggregation(number):
            return chain if self._leads_to_aggregation(before) else None
        if found.kind == AGGREGATION:
            return chain if node.step.scale else None
        if found.kind != OPERATIONS or len(found.nodes) >= _MOST_LINES:
            return None
        return chain

    def _has_sole_user(self, number: int) -> bool:
        return len(self._users[number]) == 1 and not self._nodes[number].leaves

    def _leads_to_aggregation(self, number: int) -> bool:
        """Return whether it is a norm that is applied before an aggregation."""
        while True:
            node = self._nodes[number]
            if not (node.kind == OPERATIONS and node.step.scale):
                return False
            if not self._has_sole_user(number):
                return False
            (number,) = self._users[number]
            if self._nodes[number].kind == AGGREGATION:
                return True

    def diagram(self) -> Diagram:
        """Return the boxes of all chains, and the arrows between them."""
        boxes = tuple(
            _box(chain.kind, [self._nodes[n] for n in chain.nodes])
            for chain in self._chains
        )
        arrows = {
            (self._chain_of[arg], self._chain_of[number])
            for number, node in enumerate(self._nodes)
            for arg in node.args
            if self._chain_of[arg] != self._chain_of[number]
        }
        return Diagram(boxes, tuple(sorted(arrows)))


def _box(kind: str, nodes: Sequence[Node]) -> Box:
    """Make the box of a chain of steps."""
    if nodes[0].box is not None:
        return nodes[0].box
    lines, before = [], ""
    for node in nodes:
        step = node.step
        text, chip = step.text, step.filter
        if step.scale and kind == OPERATIONS:
            # It moves to the inputs too, so it has the colour of filters.
            text, chip = "", step.text
        again = step.where == before and kind != INPUTS
        before = step.where
        sign = "≈ " if step.changed else ""
        lines.append(
            TextLine(
                shorten(f"{sign}{text} {step.size}".rstrip()),
                "" if again else shorten(step.where, 22),
                step.marks,
                shorten(chip, 24),
                step.changed,
                plain=step.scale,
            )
        )
    last = nodes[-1].step
    details = dict.fromkeys(n.step.detail for n in nodes if n.step.detail)
    foot = "" if kind == INPUTS else _foot(last)
    return Box(kind, tuple(lines), foot, "\n".join(details))


def _foot(step: ModelStep) -> str:
    """Write the shape of a step's result: "N × 16", or "3B × 16"."""
    rows = list(dict.fromkeys(step.rows))
    if not rows:
        return step.shape
    first = rows[0] if len(rows) == 1 else f"{rows[0]}…{rows[-1]}"
    return f"{first} {TIMES} {step.shape}" if step.shape else first
