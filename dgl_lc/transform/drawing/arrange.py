"""From steps to boxes: repeated parts are folded, chains share a box."""

from collections.abc import Sequence

from .boxes import OUTPUT, REPEAT, SOURCE, Box, Diagram, TextLine
from .chains import Node, merge_chains
from .model_steps import ModelStep
from .repeats import Repeat, find_repeats, merge_times


def arrange(steps: Sequence[ModelStep], outputs: Sequence[int]) -> Diagram:
    """Make boxes and arrows of steps.

    Parameters
    ----------
    steps : list of ModelStep
        All steps, in order; a step uses earlier ones only.
    outputs : list of int
        Steps whose results are those of the model, in order.

    Examples
    --------
    >>> x = ModelStep("source", "x")
    >>> a = ModelStep("operations", "relu", args=(0,))
    >>> b = ModelStep("operations", "out", args=(1,))
    >>> for box in arrange([x, a, b], [2]).boxes:
    ...     print(*(line.text for line in box.lines))
    x
    relu out
    output
    """
    repeats = {r.first: r for r in find_repeats(steps, outputs)}
    nodes: list[Node] = []
    node_of: dict[int, int] = {}
    number = 0
    while number < len(steps):
        repeat = repeats.get(number)
        if repeat is None:
            args = [node_of[arg] for arg in steps[number].args]
            node_of[number] = len(nodes)
            nodes.append(Node(_distinct(args), steps[number]))
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
        nodes.append(Node(_distinct(taken), steps[number], box))
        number = repeat.end
    for place, number in enumerate(outputs):
        text = f"output {place}" if len(outputs) > 1 else "output"
        step = steps[number]
        end = ModelStep(OUTPUT, text, shape=step.shape, rows=step.rows[-1:])
        nodes.append(Node([node_of[number]], end))
    return merge_chains(nodes)


def _fold(steps: Sequence[ModelStep], repeat: Repeat) -> Box:
    """Make the box of a repeated part, with its steps inside."""
    first, length, times = repeat.first, repeat.length, repeat.times
    nodes: list[Node] = []
    node_of: dict[int, int] = {}

    def entry(arg: int) -> int:
        """Return the node of a result from above or from the time before."""
        if arg not in node_of:
            sign = "↻" if arg >= first else "↓"
            text = f"{sign} {_result_name(steps, arg)}"
            node_of[arg] = len(nodes)
            nodes.append(Node([], ModelStep(SOURCE, text, steps[arg].where)))
        return node_of[arg]

    # The second repetition has its arguments as all later ones do.
    second = first + length
    for offset in range(length):
        args = []
        for arg in steps[second + offset].args:
            args.append(node_of[arg] if arg >= second else entry(arg))
        everyone = [steps[first + t * length + offset] for t in range(times)]
        node_of[second + offset] = len(nodes)
        leaves = offset in repeat.entries or offset in repeat.used
        nodes.append(
            Node(_distinct(args), merge_times(everyone), leaves=leaves)
        )
    used = "all results are used" if repeat.all_used else ""
    lines = (TextLine(f"{times} times"),)
    return Box(REPEAT, lines, foot=used, inner=merge_chains(nodes))


def _result_name(steps: Sequence[ModelStep], number: int) -> str:
    """Return what a result is called where it is used."""
    step = steps[number]
    if step.scale and step.args:  # the norm of a filter
        return _result_name(steps, step.args[0])
    return f"{step.filter} {step.text}".strip()


def _distinct(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
