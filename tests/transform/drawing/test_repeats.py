"""Repeated parts: found if all repetitions are connected alike."""

from dgl_lc.transform.drawing.arrange import arrange
from dgl_lc.transform.drawing.boxes import (
    AGGREGATION,
    OPERATIONS,
    REPEAT,
    SOURCE,
)
from dgl_lc.transform.drawing.model_steps import ModelStep
from dgl_lc.transform.drawing.repeats import find_repeats


def residual(layers, width="16", skip=True):
    """Steps of layers that aggregate, multiply, and add what they got."""
    steps = [ModelStep(SOURCE, "x", shape=width)]
    last = 0
    for layer in range(layers):
        where = f"layers.{layer}"
        steps.append(ModelStep(AGGREGATION, "S", where, (last,), shape=width,
                          marks=(layer + 1,)))  # fmt: skip
        steps.append(ModelStep(OPERATIONS, "@ weight", where, (len(steps) - 1,),
                          shape=width))  # fmt: skip
        if skip:
            args = last, len(steps) - 1
            steps.append(ModelStep(OPERATIONS, "+", "", args, shape=width))
        last = len(steps) - 1
    return steps, [last]


def test_equal_layers_are_folded():
    steps, outputs = residual(6)
    (repeat,) = find_repeats(steps, outputs)
    assert (repeat.first, repeat.length, repeat.times) == (1, 3, 6)
    assert repeat.entries == {2: 0}
    assert not repeat.all_used


def test_three_layers_are_drawn_one_by_one():
    assert find_repeats(*residual(3)) == []


def test_a_layer_of_another_width_is_not_folded():
    steps, outputs = residual(6)
    steps[5] = ModelStep(OPERATIONS, "@ weight", "layers.1", (4,), shape="32")
    repeats = find_repeats(steps, outputs)
    assert [(r.first, r.length, r.times) for r in repeats] == [(7, 3, 4)]


def test_a_layer_that_is_connected_in_another_way_is_not_folded():
    steps, outputs = residual(8)
    last = steps[-1]  # takes the features instead of the layer before
    steps[-1] = ModelStep(last.kind, last.text, last.where, (0, last.args[1]),
                     shape=last.shape)  # fmt: skip
    repeats = find_repeats(steps, outputs)
    assert [(r.first, r.times) for r in repeats] == [(1, 7)]


def test_layers_that_take_different_features_are_not_folded():
    def steps(others):
        found = [ModelStep(SOURCE, "x"), ModelStep(SOURCE, "y")]
        for layer, other in enumerate(others):
            last = len(found) - 1 if layer else 0
            where = f"layers.{layer}"
            found.append(ModelStep(OPERATIONS, "+", where, (last, other)))
        return found, [len(found) - 1]

    (repeat,) = find_repeats(*steps([1] * 6))
    assert repeat.times == 6
    assert find_repeats(*steps([1, 0, 1, 0, 0, 1])) == []


def test_results_of_all_layers_may_be_used_by_one_step():
    steps, _ = residual(5)
    ends = tuple(3 * n for n in range(1, 6))
    steps.append(ModelStep(OPERATIONS, "cat", "", ends))
    (repeat,) = find_repeats(steps, [len(steps) - 1])
    assert repeat.times == 5
    assert repeat.all_used


def test_results_of_some_layers_keep_them_apart():
    steps, _ = residual(5)
    steps.append(ModelStep(OPERATIONS, "cat", "", (3, 9)))
    assert find_repeats(steps, [len(steps) - 1]) == []
    steps, outputs = residual(5)
    assert find_repeats(steps, [6, *outputs]) == []


def test_features_that_look_alike_are_not_folded():
    steps = [ModelStep(SOURCE, f"x{n}", shape="4") for n in range(6)]
    steps.append(ModelStep(OPERATIONS, "cat", "", tuple(range(6))))
    assert find_repeats(steps, [6]) == []


def test_a_part_ends_with_the_result_that_is_used():
    """A layer ends with its activation, not with the next one's product."""
    steps, ends = [ModelStep(SOURCE, "x", shape="4")], []
    for layer in range(5):
        args, where = (len(steps) - 1,), f"layers.{layer}"
        size = "16 → 16" if layer else "4 → 16"
        steps.append(ModelStep(OPERATIONS, "@", where, args, size, "16"))
        args = (len(steps) - 1,)
        steps.append(ModelStep(OPERATIONS, "relu", "", args, shape="16"))
        ends.append(len(steps) - 1)
    steps.append(ModelStep(OPERATIONS, "cat", "", tuple(ends)))
    (repeat,) = find_repeats(steps, [len(steps) - 1])
    assert (repeat.first, repeat.times, repeat.used) == (3, 4, {1})


def test_a_folded_part_names_all_that_it_stands_for():
    diagram = arrange(*residual(6))
    (part,) = (box for box in diagram.boxes if box.kind == REPEAT)
    assert part.lines[0].text == "6 times"
    texts = [line for box in part.inner.boxes for line in box.lines]
    (aggregation,) = (line for line in texts if line.marks)
    assert aggregation.marks == (1, 2, 3, 4, 5, 6)
    assert aggregation.note == "layers.0…5"


def test_a_chain_of_operations_shares_a_box_and_aggregations_do_not():
    diagram = arrange(*residual(3, skip=False))
    assert [len(box.lines) for box in diagram.boxes] == [1] * 8
    steps = [ModelStep(SOURCE, "x")]
    for n in range(4):
        text = ("lin", "relu", "dropout", "norm")[n]
        steps.append(ModelStep(OPERATIONS, text, args=(n,)))
    (_, box, _) = arrange(steps, [4]).boxes
    assert [line.text for line in box.lines] == [
        "lin", "relu", "dropout", "norm"]  # fmt: skip


def test_norms_beside_an_aggregation_are_in_its_box():
    steps = [
        ModelStep(SOURCE, "x"),
        ModelStep(OPERATIONS, "lin", args=(0,)),
        ModelStep(OPERATIONS, "* norm", args=(1,), scale=True),
        ModelStep(AGGREGATION, "S", args=(2,), marks=(1,)),
        ModelStep(OPERATIONS, "* norm", args=(3,), scale=True),
        ModelStep(OPERATIONS, "relu", args=(4,)),
        ModelStep(OPERATIONS, "* norm", args=(5,), scale=True),
        ModelStep(OPERATIONS, "out", args=(6,)),
    ]
    boxes = arrange(steps, [7]).boxes
    assert [box.kind for box in boxes] == [
        SOURCE, OPERATIONS, AGGREGATION, OPERATIONS, "output"]  # fmt: skip
    assert [line.text for line in boxes[2].lines] == ["* norm", "S", "* norm"]
    # A norm that is not beside it is in the colour of aggregations.
    assert [line.filter for line in boxes[3].lines] == ["", "* norm", ""]
