"""From steps to boxes: chains share a box, repeated parts are folded."""

from collections.abc import Sequence
from dataclasses import dataclass

from .boxes import (
    INPUTS,
    OPERATIONS,
    OUTPUT,
    REPEAT,
    SOURCE,
    TIMES,
    Box,
    Diagram,
    Line,
    shorten,
)
from .steps import Repeat, Step, find_repeats, merge_times

#: Operations in a row that share a box.
_MOST_LINES = 9


@dataclass
class _Node:
    """A step, or a repeated part as a whole, and the nodes it takes from."""

    args: list[int]
    step: Step
    box: Box | None = None  # of a repeated part


def arrange(steps: Sequence[Step], outputs: Sequence[int]) -> Diagram:
    """Make boxes and arrows of steps.

    Parameters
    ----------
    steps : list of Step
        All steps, in order; a step uses earlier ones only.
    outputs : list of int
        Steps whose results are those of the model, in order.

    Examples
    --------
    >>> x = Step("source", "x")
    >>> a = Step("operations", "relu", args=(0,))
    >>> b = Step("operations", "out", args=(1,))
    >>> for box in arrange([x, a, b], [2]).boxes:
    ...     print(*(line.text for line in box.lines))
    x
    relu out
    output
    """
    repeats = {r.first: r for r in find_repeats(steps, outputs)}
    nodes: list[_Node] = []
    node_of: dict[int, int] = {}
    number = 0
    while number < len(steps):
        repeat = repeats.get(number)
        if repeat is None:
            args = [node_of[arg] for arg in steps[number].args]
            node_of[number] = len(nodes)
            nodes.append(_Node(_distinct(args), steps[number]))
            number += 1
            continue
        taken = [
            node_of[arg]
            for step in steps[number : repeat.end]
            for arg in step.args
            if arg < number
        ]
        for inside in range(number, repeat.end):
            node_of[inside] = len(nodes)
        box = _fold(steps, repeat)
        nodes.append(_Node(_distinct(taken), steps[number], box))
        number = repeat.end
    for place, number in enumerate(outputs):
        text = f"output {place}" if len(outputs) > 1 else "output"
        step = steps[number]
        end = Step(OUTPUT, text, shape=step.shape, rows=step.rows[-1:])
        nodes.append(_Node([node_of[number]], end))
    return _merge_chains(nodes)


def _fold(steps: Sequence[Step], repeat: Repeat) -> Box:
    """Make the box of a repeated part, with its steps inside."""
    first, length, times = repeat.first, repeat.length, repeat.times
    nodes: list[_Node] = []
    node_of: dict[int, int] = {}

    def entry(arg: int) -> int:
        """Return the node of a result from outside or from before."""
        if arg not in node_of:
            again = arg >= first
            text = steps[arg].text if steps[arg].text else "input"
            node_of[arg] = len(nodes)
            step = Step(SOURCE, f"{'↻ ' if again else ''}{text}",
                        steps[arg].where)  # fmt: skip
            nodes.append(_Node([], step))
        return node_of[arg]

    # The second repetition has its arguments as all later ones do.
    second = first + length
    for offset in range(length):
        args = []
        for arg in steps[second + offset].args:
            args.append(node_of[arg] if arg >= second else entry(arg))
        everyone = [steps[first + t * length + offset] for t in range(times)]
        node_of[second + offset] = len(nodes)
        nodes.append(_Node(_distinct(args), merge_times(everyone)))
    used = "all results are used" if repeat.all_used else ""
    lines = (Line(f"{times} times"),)
    return Box(REPEAT, lines, foot=used, inner=_merge_chains(nodes))


def _merge_chains(nodes: Sequence[_Node]) -> Diagram:
    """Give chains of operations a common box, and inputs that go together."""
    users: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for arg in node.args:
            users[arg].append(number)
    chains: list[list[int]] = []
    chain_of: dict[int, int] = {}
    same_users: dict[tuple, int] = {}
    for number, node in enumerate(nodes):
        before = _goes_on(nodes, users, number)
        chain = None if before is None else chain_of[before]
        if chain is not None and len(chains[chain]) >= _MOST_LINES:
            chain = None
        if node.step.kind == INPUTS and node.box is None:
            key = tuple(users[number]), tuple(node.args)
            chain = same_users.setdefault(key, len(chains))
            if chain == len(chains):
                chain = None
        if chain is None:
            chain = len(chains)
            chains.append([])
        chains[chain].append(number)
        chain_of[number] = chain
    boxes = tuple(_box([nodes[n] for n in chain]) for chain in chains)
    arrows = {
        (chain_of[arg], chain_of[number])
        for number, node in enumerate(nodes)
        for arg in node.args
        if chain_of[arg] != chain_of[number]
    }
    return Diagram(boxes, tuple(sorted(arrows)))


def _goes_on(
    nodes: Sequence[_Node], users: list[list[int]], number: int
) -> int | None:
    """Return the operation whose box an operation may share."""
    node = nodes[number]
    if node.step.kind != OPERATIONS or node.box or len(node.args) != 1:
        return None
    (before,) = node.args
    other = nodes[before]
    if other.step.kind != OPERATIONS or other.box or len(users[before]) != 1:
        return None
    return before


def _box(nodes: Sequence[_Node]) -> Box:
    """Make the box of a chain of steps."""
    if nodes[0].box is not None:
        return nodes[0].box
    lines, before = [], ""
    for node in nodes:
        step = node.step
        note = step.where if step.where != before else ""
        before = step.where
        lines.append(
            Line(
                shorten(step.text),
                shorten(note, 22),
                step.marks,
                shorten(step.filter, 24),
                step.changed,
            )
        )
    last = nodes[-1].step
    details = dict.fromkeys(n.step.detail for n in nodes if n.step.detail)
    return Box(
        last.kind, tuple(lines),
        "" if last.kind == INPUTS else _foot(last), "\n".join(details),
    )  # fmt: skip


def _foot(step: Step) -> str:
    """Write the shape of a step's result: "N × 16", or "3B × 16"."""
    rows = list(dict.fromkeys(step.rows))
    if not rows:
        return step.shape
    first = rows[0] if len(rows) == 1 else f"{rows[0]}…{rows[-1]}"
    return f"{first} {TIMES} {step.shape}" if step.shape else first


def _distinct(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
