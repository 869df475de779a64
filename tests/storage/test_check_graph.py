"""Edges by destination are checked before a kernel reads them."""

import numpy as np
import pytest
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.storage.check_graph import check_compressed
from dgl_lc.storage.disk_graph import COUNTS, FILES, KIND, DiskGraph
from dgl_lc.storage.folder import build

# 0 → 1, 0 → 1, 1 → 2, 2 → 0, 2 → 2
GOOD = {
    "indptr": [0, 1, 3, 5, 5],
    "indices": [2, 0, 0, 1, 2],
    "out_edges": [2, 1, 2, 0],
    "loops": [0, 0, 1, 0],
}
CASES = {
    "begins later": ({"indptr": [1, 1, 3, 5, 5]}, "goes from 1 to 5"),
    "ends early": ({"indptr": [0, 1, 3, 4, 4]}, "goes from 0 to 4"),
    "ends late": ({"indptr": [0, 1, 3, 5, 6]}, "goes from 0 to 6"),
    "falls": ({"indptr": [0, 3, 1, 5, 5]}, "falls at node 1"),
    "beyond": ({"indices": [2, 0, 0, 4, 2]}, "edge 3 comes from node 4"),
    "negative": ({"indices": [2, -1, 0, 1, 2]}, "edge 1 comes from node -1"),
    "loops": ({"loops": [0, 0, 2, 0]}, "node 2 has other self-loops"),
}


def craft(folder, **changes):
    """A folder of ours, whole and with the right checksums."""
    arrays = GOOD | changes
    with build(folder, KIND, (*FILES, COUNTS), {}, {}) as work:
        for name, values in arrays.items():
            dtype = np.int64 if name == "indptr" else np.int32
            work.array(f"{name}.npy", dtype).append(np.array(values, dtype))
        work.finish(num_nodes=4, num_edges=5)
    return DiskGraph(folder)


def test_a_good_graph(tmp_path):
    craft(tmp_path / "g").check_edges()


@pytest.mark.parametrize("case", CASES)
def test_a_graph_that_no_kernel_may_read(tmp_path, case):
    changes, message = CASES[case]
    with pytest.raises(DGLError, match=message):
        craft(tmp_path / "g", **changes).check_edges()


@pytest.mark.parametrize("degrees", [[2, 1, 1, 0], [3, 1, 2, -1]])
def test_degrees_that_do_not_add_up(tmp_path, degrees):
    with pytest.raises(DGLError, match="do not add up to 5"):
        craft(tmp_path / "g", out_edges=degrees).check_edges()


def test_rows_are_checked_without_the_others(tmp_path):
    changes, message = CASES["beyond"]  # an edge into node 2
    graph = craft(tmp_path / "beyond", **changes)
    graph.check_counts()
    graph.check_rows(0, 2)
    graph.check_rows(3, 4)
    for low, high in ((0, 4), (2, 3)):
        with pytest.raises(DGLError, match=message):
            graph.check_rows(low, high)
    changes, message = CASES["loops"]  # of node 2
    graph = craft(tmp_path / "loops", **changes)
    graph.check_rows(0, 2)
    with pytest.raises(DGLError, match=message):
        graph.check_rows(2, 4)
    # That some rows are as they should be says nothing of others.
    with pytest.raises(DGLError, match=message):
        graph.check_edges()


@pytest.mark.parametrize("case", ["begins later", "ends late", "falls"])
def test_rows_are_not_read_where_pointers_are_wrong(tmp_path, case):
    changes, message = CASES[case]
    with pytest.raises(DGLError, match=message):
        craft(tmp_path / "g", **changes).check_rows(0, 1)


@given(st.data())
def test_one_wrong_number_anywhere_is_found(data):
    n = data.draw(st.integers(1, 40), "nodes")
    degrees = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    m = int(indptr[-1])
    indices = np.arange(m, dtype=np.int32) % n
    check_compressed(indptr, indices, n, "g")
    if m and data.draw(st.booleans(), "in indices"):
        place = data.draw(st.integers(0, m - 1), "place")
        wrong = data.draw(st.sampled_from([-(2**31), -1, n, 2**31 - 1]))
        indices[place] = wrong
    else:
        place = data.draw(st.integers(0, n), "place")
        indptr[place] = data.draw(st.sampled_from([-1, m + 1, 2**62]))
    with pytest.raises(DGLError, match="g: "):
        check_compressed(indptr, indices, n, "g")
