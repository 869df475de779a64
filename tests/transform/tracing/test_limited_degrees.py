"""Edges of probes with small degrees."""

import dgl
import pytest
import torch

from dgl_lc.transform.tracing.limited_degrees import (
    largest_degree,
    limited_edges,
)

PRIMES = [p for p in range(41, 2000) if all(p % d for d in range(2, 45))]


@pytest.mark.parametrize("n", [41, 53, 97])
@pytest.mark.parametrize("limit", [2, 3, 5, 50])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_degrees_are_within_the_limit_and_differ(n, limit, seed):
    primes = [p for p in PRIMES if p != n]
    generator = torch.Generator().manual_seed(seed)
    edges = limited_edges(n, limit, seed, primes, generator)
    if limit == 2 and edges is None:
        pytest.skip("no number of edges is free")
    g = dgl.graph(edges, num_nodes=n)
    assert g.num_edges() in primes
    for degrees in (g.in_degrees(), g.out_degrees()):
        assert 1 <= degrees.min() < degrees.max() <= limit
    assert g.is_multigraph
    assert g.has_edges_between(g.nodes(), g.nodes()).any()


def test_a_permutation_leaves_no_choice():
    generator = torch.Generator().manual_seed(0)
    assert limited_edges(53, 1, 1, PRIMES, generator) is None


def test_the_largest_degree_is_reached_by_both_ends():
    star = dgl.graph((torch.zeros(5, dtype=torch.int64), torch.arange(1, 6)))
    assert largest_degree(star) == 1
    assert largest_degree(dgl.add_reverse_edges(star)) == 5
