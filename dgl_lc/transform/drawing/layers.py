"""Layers of a picture: which boxes are in a row, and in which order.

Arrows go down. A box is one layer below the lowest box that has an arrow to
it. An arrow that passes layers gets a place in each of them, so that it never
runs through a box.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Sweeps over all layers that look for an order with fewer crossings.
_SWEEPS = 12


@dataclass
class Layers:
    """Places in layers, and the arrows between neighbouring layers.

    Attributes
    ----------
    rows : list of list of int
        Places of each layer, from left to right. A place below
        ``num_boxes`` is the box of that number, any other one belongs to an
        arrow that passes.
    above, below : list of list of int
        For each place, those it is connected to in the next layers.
    routes : list of list of int
        Places of each arrow, from its first box to its last.
    """

    num_boxes: int
    rows: list[list[int]] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    routes: list[list[int]] = field(default_factory=list)


def make_layers(
    num_boxes: int,
    arrows: Sequence[tuple[int, int]],
    lowest: Sequence[int] | None = None,
) -> Layers:
    """Put boxes into layers, and order each layer.

    Parameters
    ----------
    num_boxes : int
        Number of boxes.
    arrows : list of (int, int)
        Pairs of boxes; a cycle is an error.
    lowest : list of int, optional
        For each box, the first layer that it may be in.

    Examples
    --------
    >>> layers = make_layers(3, [(0, 1), (1, 2), (0, 2)])
    >>> layers.rows  # place 3 belongs to the arrow from 0 to 2
    [[0], [1, 3], [2]]
    """
    level = _levels(num_boxes, arrows, lowest or [0] * num_boxes)
    layers = Layers(num_boxes)
    layers.rows = [[] for _ in range(max(level, default=-1) + 1)]
    layers.above = [[] for _ in range(num_boxes)]
    layers.below = [[] for _ in range(num_boxes)]
    for box in range(num_boxes):
        layers.rows[level[box]].append(box)
    for start, end in arrows:
        layers.routes.append(_add_route(layers, level, start, end))
    _order(layers)
    return layers


def _levels(
    num_boxes: int, arrows: Sequence[tuple[int, int]], lowest: Sequence[int]
) -> list[int]:
    """Return the layer of each box: the longest path that leads to it."""
    level = list(lowest)
    after: list[list[int]] = [[] for _ in range(num_boxes)]
    waiting = [0] * num_boxes
    for start, end in arrows:
        after[start].append(end)
        waiting[end] += 1
    ready = [box for box in range(num_boxes) if not waiting[box]]
    for box in ready:  # grows while it is read
        for end in after[box]:
            level[end] = max(level[end], level[box] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                ready.append(end)
    if len(ready) < num_boxes:
        raise ValueError("the arrows of a picture form a cycle")
    # A box that begins a path moves down to where it is used.
    has_above = {end for _, end in arrows}
    for box in range(num_boxes):
        if box not in has_above and after[box]:
            level[box] = max(
                level[box], min(level[end] for end in after[box]) - 1
            )
    return level


def _add_route(
    layers: Layers, level: list[int], start: int, end: int
) -> list[int]:
    """Add the places of an arrow to the layers that it passes."""
    route = [start]
    for number in range(level[start] + 1, level[end]):
        place = len(layers.above)
        layers.above.append([])
        layers.below.append([])
        layers.rows[number].append(place)
        route.append(place)
    route.append(end)
    for upper, lower in itertools.pairwise(route):
        layers.below[upper].append(lower)
        layers.above[lower].append(upper)
    return route


def _order(layers: Layers) -> None:
    """Order each layer by the middle of its neighbours, sweep by sweep."""
    best, fewest = [list(row) for row in layers.rows], _crossings(layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        rows = layers.rows if down else layers.rows[::-1]
        near = layers.above if down else layers.below
        for fixed, row in itertools.pairwise(rows):
            where = {place: number for number, place in enumerate(fixed)}
            own = {place: number for number, place in enumerate(row)}
            row.sort(
                key=lambda place, where=where, own=own: _middle(  # type: ignore[misc]
                    [where[other] for other in near[place]], own[place]
                )
            )
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in layers.rows], crossings
    layers.rows = best


def _middle(numbers: list[int], otherwise: int) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _crossings(layers: Layers) -> int:
    """Count the pairs of arrows that cross between two layers."""
    total = 0
    for upper, lower in zip(layers.rows, layers.rows[1:], strict=False):
        where = {place: number for number, place in enumerate(lower)}
        ends: list[int] = []
        for place in upper:
            mine = sorted(where[other] for other in layers.below[place])
            total += sum(sum(earlier > end for earlier in ends) for end in mine)
            ends.extend(mine)
    return total
