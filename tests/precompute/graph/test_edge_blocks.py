"""Edge blocks and block-wise normalisation."""

import dgl
import numpy as np
import torch
from dgl.ops import u_mul_e_sum
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute import edge_blocks, normalize
from dgl_lc.testing.random_graphs import graphs, make_features
from dgl_lc.testing.reference import dense_filter

COUNTS = st.integers(1, 12)


@given(g=graphs(), count=COUNTS)
def test_blocks_cover_every_edge_once(g, count):
    blocks = edge_blocks(g, count)
    assert len(blocks) == count
    ids = torch.cat([b.edata[dgl.EID] for b in blocks]).sort().values
    assert torch.equal(ids, torch.arange(g.num_edges(), dtype=g.idtype))


@given(g=graphs(), count=COUNTS)
def test_block_sizes_differ_by_at_most_one(g, count):
    """Also where the count does not divide: ``x // b`` would drop edges."""
    sizes = [block.num_edges() for block in edge_blocks(g, count)]
    assert sum(sizes) == g.num_edges()
    assert max(sizes) - min(sizes) <= 1


@given(g=graphs(), count=COUNTS)
def test_block_edges_are_those_of_the_graph(g, count):
    source, target, ids = g.edges(form="all", order="srcdst")
    ends = {
        int(i): (int(u), int(v))
        for u, v, i in zip(source, target, ids, strict=True)
    }
    last = -1
    for block in edge_blocks(g, count):
        assert block.num_nodes() == g.num_nodes()
        assert block.idtype == g.idtype
        eids = block.edata[dgl.EID].tolist()
        for u, v, i in zip(*block.edges(), eids, strict=True):
            assert ends[i] == (int(u), int(v))
            assert int(v) >= last  # sorted by destination
            last = int(v)


@given(
    g=graphs(),
    count=COUNTS,
    norm=st.sampled_from(["both", "right", "left", "none", "in"]),
    self_loop=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_normalized_edges_are_the_filter(g, count, norm, self_loop, dtype):
    weight, diagonal = normalize(
        g, norm=norm, self_loop=self_loop, num_blocks=count, dtype=dtype
    )
    assert weight.dtype == diagonal.dtype == dtype
    matrix = np.diag(diagonal.double().numpy())
    source, target, ids = g.edges(form="all", order="srcdst")
    np.add.at(matrix, (target, source), weight.double().numpy()[ids])
    expected = dense_filter(g, norm=norm, self_loop=self_loop)
    assert np.allclose(matrix, expected, atol=1e-6)


def test_normalized_edges_with_dgl_ops(small_graph):
    weight, diagonal = normalize(small_graph)
    x = make_features(4, 3)
    found = u_mul_e_sum(small_graph, x, weight) + diagonal[:, None] * x
    expected = dense_filter(small_graph) @ x.double().numpy()
    assert np.allclose(found, expected, atol=1e-6)
