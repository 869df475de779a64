"""Layout: boxes are apart, and no arrow runs through a box."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.transform.drawing.box_layout import lay_out
from dgl_lc.transform.drawing.layers import make_layers


@st.composite
def pictures(draw):
    """Sizes of boxes, arrows from earlier to later ones, and first layers."""
    count = draw(st.integers(1, 14))
    side = st.integers(20, 200)
    sizes = draw(st.lists(st.tuples(side, side), min_size=count,
                          max_size=count))  # fmt: skip
    pairs = [(a, b) for b in range(count) for a in range(b)]
    arrows = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)
                  if pairs else st.just([]))  # fmt: skip
    lowest = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return sizes, arrows, lowest


def curve(path):
    """Points of an arrow as it is drawn."""
    for (x, y), (next_x, next_y) in itertools.pairwise(path):
        for step in range(21):
            t = step / 20
            # A cubic curve whose control points are half-way down.
            across = 3 * (1 - t) * t**2 + t**3
            middle = (y + next_y) / 2
            down = (
                (1 - t) ** 3 * y
                + 3 * (1 - t) ** 2 * t * middle
                + 3 * (1 - t) * t**2 * middle
                + t**3 * next_y
            )
            yield x + (next_x - x) * across, down


@settings(max_examples=cases(60, 2000), deadline=None)
@given(pictures())
def test_boxes_are_apart_and_arrows_run_through_none(picture):
    sizes, arrows, lowest = picture
    layout = lay_out(sizes, arrows, lowest)
    boxes = [
        (x, y, x + width, y + height)
        for (x, y), (width, height) in zip(layout.corners, sizes, strict=True)
    ]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert top >= 0
        assert right <= layout.width + 0.2
        assert bottom <= layout.height + 0.2
        for other in boxes[:number]:
            assert (
                left >= other[2] + 5
                or right <= other[0] - 5
                or top >= other[3] + 5
                or bottom <= other[1] - 5
            )
    for (start, end), path in zip(arrows, layout.paths, strict=True):
        assert path[0][1] == pytest.approx(boxes[start][3])
        assert path[-1][1] == pytest.approx(boxes[end][1])
        assert boxes[start][0] <= path[0][0] <= boxes[start][2]
        assert boxes[end][0] <= path[-1][0] <= boxes[end][2]
        heights = [y for _, y in path]
        assert heights == sorted(heights)
        for x, y in curve(path):
            for left, top, right, bottom in boxes:
                assert not (
                    left + 0.2 < x < right - 0.2
                    and top + 0.2 < y < bottom - 0.2
                )


@settings(max_examples=cases(25, 500), deadline=None)
@given(pictures())
def test_same_boxes_get_same_places(picture):
    assert lay_out(*picture) == lay_out(*picture)


@settings(max_examples=cases(25, 500), deadline=None)
@given(pictures())
def test_arrows_go_down_and_boxes_are_not_above_their_first_layer(picture):
    sizes, arrows, lowest = picture
    layers = make_layers(len(sizes), arrows, lowest)
    level = {place: n for n, row in enumerate(layers.rows) for place in row}
    for start, end in arrows:
        assert level[start] < level[end]
    for box, first in enumerate(lowest):
        assert level[box] >= first
    for route in layers.routes:
        steps = [level[place] for place in route]
        assert steps == list(range(steps[0], steps[0] + len(steps)))


def test_a_chain_is_a_straight_line():
    sizes = [(40 + 20 * n, 20) for n in range(5)]
    layout = lay_out(sizes, [(n, n + 1) for n in range(4)])
    assert len({x for path in layout.paths for x, _ in path}) == 1


def test_crossings_are_removed_by_the_order_of_boxes():
    layers = make_layers(4, [(0, 3), (1, 2)])
    assert layers.rows in ([[0, 1], [3, 2]], [[1, 0], [2, 3]])


def test_nothing_to_lay_out():
    assert lay_out([], []).height == 0


def test_a_cycle_is_an_error():
    with pytest.raises(ValueError, match="cycle"):
        make_layers(2, [(0, 1), (1, 0)])
