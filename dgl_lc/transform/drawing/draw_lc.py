"""Drawing an LC version: the model at the left, its LC version at the right."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from ..model_inputs import Input
from ..pushed import Pushed
from .arrange import arrange
from .boxes import INPUTS, SOURCE, Diagram, shorten
from .lc_steps import lc_steps
from .original_steps import ModelSteps, OriginalSteps
from .picture import Panel, Picture, write_picture


def draw_lc(
    model: nn.Module, pushed: Pushed, inputs: Sequence[Input],
    filters: Sequence[str],
) -> str:  # fmt: skip
    """Write the picture of a model and its LC version as SVG.

    Parameters
    ----------
    model : nn.Module
        The original model.
    pushed : Pushed
        The model with its filters on its inputs.
    inputs : list of Input
        The inputs, with their formulas.
    filters : list of str
        Lines that say what the names of filters mean.
    """
    return write_picture(make_picture(model, pushed, inputs, filters))


def make_picture(
    model: nn.Module, pushed: Pushed, inputs: Sequence[Input],
    filters: Sequence[str],
) -> Picture:  # fmt: skip
    """Make the picture of a model and its LC version."""
    original = OriginalSteps(model, pushed)
    before = _smallest(original.steps)
    after = _smallest(
        lambda shallow_first: lc_steps(
            model, pushed, inputs, original, shallow_first
        )
    )
    lowest = {SOURCE: 0, INPUTS: 1}
    after = replace(
        after, lowest=tuple(lowest.get(box.kind, 2) for box in after.boxes)
    )
    name = shorten(type(model).__name__)
    columns = sum(entry.columns for entry in inputs)
    heading = f"LC version: {_count(len(inputs), 'input')}, "
    heading += _count(columns, "column")
    formulas = ", ".join(entry.formula for entry in inputs)
    count = _count(len(original.marks), "aggregation")
    return Picture(
        f"{name} and its LC version",
        f"Left: the operations of {name}, with {count}. Right: its LC "
        f"version, whose inputs are precomputed: {formulas}.",
        (
            Panel(f"{name}: {count}", before),
            Panel(heading, after, "computed once", "run on batches"),
        ),
        tuple(filters),
    )


def _smallest(steps: Callable[[bool], ModelSteps]) -> Diagram:
    """Arrange steps in that order in which more of them can be folded."""
    found = [steps(shallow_first) for shallow_first in (False, True)]
    return min(
        (arrange(each.steps, each.outputs) for each in found), key=_num_boxes
    )


def _num_boxes(diagram: Diagram) -> int:
    inner = [box.inner for box in diagram.boxes if box.inner is not None]
    return len(diagram.boxes) + sum(map(_num_boxes, inner))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
