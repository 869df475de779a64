"""The layout of a picture: where boxes are, and which way arrows take.

Boxes are in layers, and arrows change their x between layers only. No arrow
therefore runs through a box.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .layers import Layers, make_layers

#: Smallest distances between boxes: beside each other, and between layers.
BESIDE, BETWEEN = 22.0, 26.0

#: Width of an arrow that passes a layer, and its distance from a box.
_LANE, _BESIDE_LANE = 6.0, 14.0

#: Distance between arrows at one side of a box, and from its corners.
_PORTS, _CORNER = 16.0, 10.0

#: Passes that move boxes towards those they are connected to.
_PASSES = 16

Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Places of boxes and arrows.

    Attributes
    ----------
    corners : list of (float, float)
        Upper left corner of each box.
    paths : list of list of (float, float)
        Points of each arrow. It is straight between points with the same x,
        and bent between others.
    layers : list of (float, float)
        Top and bottom of each layer.
    width, height : float
        Size of it all; the upper left corner is (0, 0).
    """

    corners: list[Point]
    paths: list[list[Point]]
    layers: list[Point]
    width: float
    height: float


def lay_out(
    sizes: Sequence[Point],
    arrows: Sequence[tuple[int, int]],
    lowest: Sequence[int] | None = None,
) -> Layout:
    """Find places for boxes of some sizes and for the arrows between them.

    Parameters
    ----------
    sizes : list of (float, float)
        Width and height of each box.
    arrows : list of (int, int)
        Pairs of boxes, without a cycle; arrows go down.
    lowest : list of int, optional
        For each box, the first layer that it may be in.

    Examples
    --------
    >>> lay_out([(40, 20), (40, 20)], [(0, 1)]).corners
    [(0.0, 0.0), (0.0, 46.0)]
    """
    layers = make_layers(len(sizes), arrows, lowest)
    if not layers.rows:
        return Layout([], [], [], 0.0, 0.0)
    widths = [size[0] for size in sizes]
    widths += [_LANE] * (len(layers.above) - len(sizes))
    middles = _middles(layers, widths)
    ports = _ports(layers, widths, middles)
    tops, bottoms = _heights(layers, sizes)
    corners = [(0.0, 0.0)] * len(sizes)
    for row, top, bottom in zip(layers.rows, tops, bottoms, strict=True):
        for box in row:
            if box < len(sizes):
                width, height = sizes[box]
                y = top + (bottom - top - height) / 2
                corners[box] = (middles[box] - width / 2, y)
    level = {place: n for n, row in enumerate(layers.rows) for place in row}
    paths = []
    for number, route in enumerate(layers.routes):
        path: list[Point] = []
        for step, place in enumerate(route):
            top, bottom = tops[level[place]], bottoms[level[place]]
            enters, leaves = top, bottom
            if step == 0:
                enters = corners[place][1] + sizes[place][1]
            elif step == len(route) - 1:
                leaves = corners[place][1]
            x = ports.get((number, place), middles[place])
            path += [(x, enters), (x, leaves)]
        paths.append(path)
    right = max(m + w / 2 for m, w in zip(middles, widths, strict=True))
    bands = list(zip(tops, bottoms, strict=True))
    return Layout(corners, paths, bands, right, bottoms[-1])


def _middles(layers: Layers, widths: list[float]) -> list[float]:
    """Return the x of the middle of each place.

    Every place moves towards its neighbours, layer by layer. Then chains of
    places are made straight where there is room.
    """
    middles = [0.0] * len(widths)
    for row in layers.rows:
        _place_row(row, layers, widths, [0.0] * len(row), middles)
    for number in range(_PASSES):
        down = number % 2 == 0
        both = number >= _PASSES - 2
        for row in layers.rows if down else layers.rows[::-1]:
            wishes = []
            for place in row:
                near = layers.above[place] if down else layers.below[place]
                if both:
                    near = layers.above[place] + layers.below[place]
                weights = [_pull(layers, place, other) for other in near]
                total = sum(
                    middles[other] * weight
                    for other, weight in zip(near, weights, strict=True)
                )
                wishes.append(total / sum(weights) if near else middles[place])
            _place_row(row, layers, widths, wishes, middles)
    row_of = {place: row for row in layers.rows for place in row}
    for chain in _chains(layers):
        _straighten(chain, row_of, layers, widths, middles)
    left = min(m - w / 2 for m, w in zip(middles, widths, strict=True))
    return [round(middle - left, 1) for middle in middles]


def _pull(layers: Layers, place: int, other: int) -> float:
    """Return how much two neighbours want to be above each other."""
    passing = (place >= layers.num_boxes) + (other >= layers.num_boxes)
    return (4.0, 1.0, 16.0)[passing]


def _distance(layers: Layers, widths: list[float], a: int, b: int) -> float:
    """Return the smallest distance of the middles of two neighbours."""
    passing = (a >= layers.num_boxes) + (b >= layers.num_boxes)
    between = (BESIDE, _BESIDE_LANE, _BESIDE_LANE / 2)[passing]
    return (widths[a] + widths[b]) / 2 + between


def _place_row(
    row: list[int],
    layers: Layers,
    widths: list[float],
    wishes: list[float],
    middles: list[float],
) -> None:
    """Place a layer next to its wishes, in order and without overlaps.

    The sum of the squared distances is the smallest one: with the distance
    that a place needs from the first one taken off, the places have to be in
    ascending order, and neighbours that are not get their common mean.
    """
    needed, offsets = 0.0, []
    for number, place in enumerate(row):
        if number:
            needed += _distance(layers, widths, row[number - 1], place)
        offsets.append(needed)
    groups: list[list[float]] = []  # [sum of weighted wishes, weight, count]
    for place, wish, offset in zip(row, wishes, offsets, strict=True):
        weight = 4.0 if place >= layers.num_boxes else 1.0
        groups.append([(wish - offset) * weight, weight, 1])
        while len(groups) > 1 and (
            groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]
        ):
            last = groups.pop()
            groups[-1] = [a + b for a, b in zip(groups[-1], last, strict=True)]
    number = 0
    for total, weight, count in groups:
        for _ in range(int(count)):
            middles[row[number]] = total / weight + offsets[number]
            number += 1


def _chains(layers: Layers) -> list[list[int]]:
    """Return chains of places that should have the same x.

    First those of boxes, which are the trunk of a picture, and then those of
    arrows that pass several layers.
    """

    def only_box(places: list[int]) -> int | None:
        boxes = [place for place in places if place < layers.num_boxes]
        return boxes[0] if len(boxes) == 1 else None

    chains: list[list[int]] = []
    seen: set[int] = set()
    for box in (box for row in layers.rows for box in row):
        chain: list[int] = []
        place: int | None = box if box < layers.num_boxes else None
        while place is not None and place not in seen:
            seen.add(place)
            chain.append(place)
            after = only_box(layers.below[place])
            mutual = (
                after is not None and only_box(layers.above[after]) == place
            )
            place = after if mutual else None
        chains.append(chain)
    chains += [route[1:-1] for route in layers.routes]
    return [chain for chain in chains if len(chain) > 1]


def _straighten(
    chain: list[int],
    row_of: dict[int, list[int]],
    layers: Layers,
    widths: list[float],
    middles: list[float],
) -> None:
    """Give all places of a chain the same x, if their neighbours allow it."""
    least, most = float("-inf"), float("inf")
    for place in chain:
        row = row_of[place]
        number = row.index(place)
        if number:
            left = row[number - 1]
            space = _distance(layers, widths, left, place)
            least = max(least, middles[left] + space)
        if number + 1 < len(row):
            right = row[number + 1]
            space = _distance(layers, widths, place, right)
            most = min(most, middles[right] - space)
    if least > most:
        return
    wish = sum(middles[place] for place in chain) / len(chain)
    for place in chain:
        middles[place] = min(max(wish, least), most)


def _ports(
    layers: Layers, widths: list[float], middles: list[float]
) -> dict[tuple[int, int], float]:
    """Return the x at which each arrow leaves its first box and ends.

    An arrow wants to go straight, so it leaves and ends above the place it
    comes from or goes to, if the box is as wide. Arrowheads are apart.
    """
    ports: dict[tuple[int, int], float] = {}
    for side, inner in ((0, 1), (-1, -2)):
        ends: dict[int, list[tuple[float, int]]] = {}
        for number, route in enumerate(layers.routes):
            other = route[inner]
            wish = ports.get((number, other), middles[other])
            ends.setdefault(route[side], []).append((wish, number))
        for box, wishes in ends.items():
            wishes.sort()
            room = widths[box] / 2 - _CORNER
            least, most = middles[box] - room, middles[box] + room
            apart = min(_PORTS, 2 * room / max(len(wishes) - 1, 1))
            xs = [min(max(wish, least), most) for wish, _ in wishes]
            for place in range(1, len(xs)):
                xs[place] = max(xs[place], xs[place - 1] + apart)
            for place in range(len(xs) - 1, -1, -1):
                limit = most if place == len(xs) - 1 else xs[place + 1] - apart
                xs[place] = min(xs[place], limit)
            for (_, number), x in zip(wishes, xs, strict=True):
                ports[number, box] = round(x, 1)
    return ports


def _heights(
    layers: Layers, sizes: Sequence[Point]
) -> tuple[list[float], list[float]]:
    """Return the top and the bottom of each layer.

    Layers are further apart where many arrows change their x.
    """
    tops, bottoms, y = [], [], 0.0
    for row in layers.rows:
        tall = [sizes[place][1] for place in row if place < len(sizes)]
        tops.append(y)
        bottoms.append(y + max(tall, default=0.0))
        starts = max((len(layers.below[place]) for place in row), default=0)
        ends = max(
            (
                len(layers.above[p])
                for above in row
                for p in layers.below[above]
            ),
            default=0,
        )
        y = bottoms[-1] + BETWEEN + 5.0 * min(max(starts, ends, 1) - 1, 6)
    return tops, bottoms
