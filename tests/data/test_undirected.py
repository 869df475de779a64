"""Edges in both directions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data.undirected import both_directions


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))),
        )
    ),
    st.sampled_from([np.int32, np.int64]),
)
def test_each_edge_is_there_and_back_once(case, dtype):
    n, edges = case
    ends = np.array(edges, dtype=dtype).reshape(-1, 2).T
    source, target = both_directions(ends[0], ends[1], n)
    made = list(zip(source.tolist(), target.tolist(), strict=True))
    assert len(made) == len(set(made))
    assert set(made) == set(edges) | {(v, u) for u, v in edges}


def test_ids_whose_product_needs_64_bits():
    n = 2**31 - 1
    ends = np.array([n - 1, n - 2], dtype=np.int32)
    source, target = both_directions(ends[:1], ends[1:], n)
    assert source.tolist() == [n - 2, n - 1]
    assert target.tolist() == [n - 1, n - 2]
