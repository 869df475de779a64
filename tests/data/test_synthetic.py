"""Generated graphs."""

import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import power_law_graph


@given(st.integers(2, 300), st.integers(0, 500), st.integers(0, 5))
def test_both_directions_and_no_self_loops(n, half, seed):
    g = power_law_graph(n, 2 * half, seed=seed)
    assert (g.num_nodes(), g.num_edges()) == (n, 2 * half)
    source, target = g.edges()
    assert (source != target).all()
    assert torch.equal(source[:half], target[half:])
    assert torch.equal(target[:half], source[half:])


def test_a_seed_gives_the_same_graph():
    first, second = power_law_graph(50, 200), power_law_graph(50, 200)
    assert torch.equal(first.edges()[0], second.edges()[0])
    other = power_law_graph(50, 200, seed=1)
    assert not torch.equal(first.edges()[0], other.edges()[0])


def test_degrees_have_a_heavy_tail():
    degrees = power_law_graph(20_000, 200_000).in_degrees().double()
    assert degrees.max() > 30 * degrees.mean()
    assert degrees.median() < degrees.mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ((1, 2), "num_nodes"),
        ((5, 3), "num_edges"),
        ((5, -2), "num_edges"),
    ],
)
def test_bad_sizes_are_named(call, message):
    with pytest.raises(DGLError, match=message):
        power_law_graph(*call)


def test_a_bad_exponent_is_named():
    with pytest.raises(DGLError, match="exponent"):
        power_law_graph(5, 4, exponent=2)
