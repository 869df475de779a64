"""Stacks of words."""

import torch

from dgl_lc.row_programs.stacked_rows import stack_words, take_words


def test_what_is_stacked_can_be_taken():
    parts = [torch.randn(3, 2) for _ in range(4)]
    stack = stack_words(parts)
    for places in ([0], [1, 2], [3, 1], [0, 1, 2, 3]):
        found = take_words(stack, places, of=4)
        expected = torch.cat([parts[place] for place in places])
        assert torch.equal(found, expected)


def test_rows_may_be_another_dimension():
    parts = [torch.randn(2, 3) for _ in range(3)]
    stack = stack_words(parts, dim=1)
    assert torch.equal(take_words(stack, [1], of=3, dim=1), parts[1])
