"""Graphs given as sparse matrices or pairs, against DGL's own conversions."""

from pathlib import Path

import dgl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases
from scipy import sparse

from dgl_lc.data import block_model
from dgl_lc.precompute import block_aggregate, edge_blocks, normalize, plan
from dgl_lc.precompute.graph.adjacency import as_graph
from dgl_lc.precompute.graph.edge_reader import EdgeReader
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.reference import dense_filter


@st.composite
def matrices(draw, values=False):
    """Draw COO matrices: hubs, self-loops, entries stored several times."""
    n, m = draw(st.integers(1, 30)), draw(st.integers(0, 120))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    row, col = rng.integers(0, n, (2, m)).astype(
        draw(st.sampled_from([np.int32, np.int64]))
    )
    if draw(st.booleans()):
        col[: m // 2] = rng.integers(0, n)
    data = rng.normal(size=m) if values else np.ones(m)
    kind = draw(st.sampled_from([np.float32, np.float64]))
    return sparse.coo_matrix((data.astype(kind), (row, col)), shape=(n, n))


def torch_coo(matrix):
    ends = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        ends, torch.from_numpy(matrix.data), matrix.shape
    )


def torch_compressed(make, matrix):
    arrays = (matrix.indptr, matrix.indices, matrix.data)
    return make(*map(torch.from_numpy, arrays), matrix.shape)


def without_zeros(coo):
    coo.eliminate_zeros()
    return coo


# Each with the matrix whose entries are its edges, in their order.
FORMATS = {
    "coo": lambda coo: (coo, coo),
    "coo array": lambda coo: (sparse.coo_array(coo), coo),
    "csr": lambda coo: (coo.tocsr(), coo.tocsr().tocoo()),
    "csr array": lambda coo: (sparse.csr_array(coo), coo.tocsr().tocoo()),
    "csc": lambda coo: (coo.tocsc(), coo.tocsc().tocoo()),
    "csc array": lambda coo: (sparse.csc_array(coo), coo.tocsc().tocoo()),
    "lil": lambda coo: (coo.tolil(), coo.tolil().tocoo()),
    "dok": lambda coo: (coo.todok(), coo.todok().tocoo()),
    "bsr": lambda coo: (coo.tobsr(), without_zeros(coo.tobsr().tocoo())),
    "dia": lambda coo: (coo.todia(), coo.todia().tocoo()),
    "torch coo": lambda coo: (torch_coo(coo), coo),
    "torch csr": lambda coo: (
        torch_compressed(torch.sparse_csr_tensor, coo.tocsr()),
        coo.tocsr().tocoo(),
    ),
    "torch csc": lambda coo: (
        torch_compressed(torch.sparse_csc_tensor, coo.tocsc()),
        coo.tocsc().tocoo(),
    ),
}
FORMAT = pytest.mark.parametrize("name", FORMATS)
#: By day, few matrices in each of so many formats.
FEW = settings(max_examples=cases(8, 500))
PAIRS = {
    "arrays": lambda coo: (coo.row, coo.col),
    "tensors": lambda coo: (
        torch.from_numpy(coo.row), torch.from_numpy(coo.col)
    ),
    "lists": lambda coo: (coo.row.tolist(), coo.col.tolist()),
    "two types": lambda coo: (coo.row.astype(np.int16), coo.col),
    "foreign byte order": lambda coo: (coo.row.astype(">i8"), coo.col),
    "unsigned": lambda coo: (coo.row.astype(np.uint64), coo.col),
    "columns": lambda coo: tuple(np.stack([coo.row, coo.col], axis=1).T),
    "reversed twice": lambda coo: (coo.row[::-1].copy()[::-1], coo.col),
    "series": lambda coo: (pd.Series(coo.row), pd.Series(coo.col)),
}  # fmt: skip


def dgl_graph(coo):
    ends = (torch.from_numpy(coo.row), torch.from_numpy(coo.col))
    return dgl.graph(ends, num_nodes=coo.shape[0])


def same_hops(found, wanted):
    assert found.filter == wanted.filter
    return all(map(torch.equal, found, wanted))


@FORMAT
@FEW
@given(coo=matrices())
def test_a_matrix_gives_the_bits_of_the_same_graph(name, coo):
    # Where entries are merged, those that were stored twice become a 2.
    if name not in ("coo", "coo array", "torch coo"):
        coo = sparse.coo_matrix((coo.toarray() > 0).astype(np.float32))
    matrix, edges = FORMATS[name](coo)
    feat = make_features(coo.shape[0], 5)
    found = block_aggregate(matrix, feat, 3)
    assert not found.filter.weighted
    assert same_hops(found, block_aggregate(dgl_graph(edges), feat, 3))


@FORMAT
@FEW
@given(coo=matrices(values=True))
def test_values_are_the_weights_of_the_edges(name, coo):
    matrix, edges = FORMATS[name](coo)
    feat = make_features(coo.shape[0], 5)
    weight = torch.from_numpy(edges.data)
    if not len(weight):
        weight = None
    found = block_aggregate(matrix, feat, 2, norm="right")
    wanted = block_aggregate(
        dgl_graph(edges), feat, 2, norm="right", edge_weight=weight
    )
    assert found.filter.weighted == (weight is not None)
    assert same_hops(found, wanted)


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(coo=matrices())
def test_a_pair_gives_the_bits_of_the_same_graph(name, coo):
    feat = make_features(coo.shape[0], 5)
    found = block_aggregate(PAIRS[name](coo), feat, 2, self_loop=False)
    wanted = block_aggregate(dgl_graph(coo), feat, 2, self_loop=False)
    assert same_hops(found, wanted)


@FORMAT
@FEW
@given(coo=matrices(values=True))
def test_the_direction_is_that_of_from_scipy(name, coo):
    """Entry (i, j) is an edge from i to j; hop 1 is A^T X without norms."""
    coo.sum_duplicates()
    n = coo.shape[0]
    feat = make_features(n, 3, dtype=torch.float64)
    matrix, edges = FORMATS[name](coo)
    found = block_aggregate(matrix, feat, 1, norm="none", self_loop=False)
    product = coo.toarray().astype(float).T @ feat.numpy()
    np.testing.assert_allclose(found[1], product, rtol=1e-6, atol=1e-6)
    g = dgl.from_scipy(edges)
    weight = torch.from_numpy(edges.data)
    reference = dense_filter(g, edge_weight=weight if len(weight) else None)
    np.testing.assert_allclose(
        block_aggregate(matrix, feat, 1)[1], reference @ feat.numpy(),
        rtol=1e-6, atol=1e-6,
    )  # fmt: skip


@FORMAT
def test_the_arrays_of_a_matrix_are_viewed(name):
    coo = sparse.random(50, 50, 0.1, "coo", dtype=np.float32)
    matrix, _ = FORMATS[name](coo)
    if name in ("lil", "dok", "bsr", "dia"):
        return
    graph, weight = as_graph(matrix)
    reader = EdgeReader(graph)
    if isinstance(matrix, torch.Tensor):
        own = {
            torch.sparse_coo: lambda: matrix._indices()[0],
            torch.sparse_csr: matrix.col_indices,
            torch.sparse_csc: matrix.row_indices,
        }[matrix.layout]().numpy()  # fmt: skip
        values = matrix._values() if name == "torch coo" else matrix.values()
    else:
        own = matrix.row if matrix.format == "coo" else matrix.indices
        values = torch.from_numpy(matrix.data)
    if reader.format == "coo":
        array = next(reader.slices()).source
    else:
        array = reader.compressed(reader.format).indices
    assert np.shares_memory(array, own)
    assert weight.data_ptr() == values.data_ptr()


@pytest.mark.parametrize(
    ("values", "weight"),
    [
        (np.array([1, 0, 1]), [1.0, 0.0, 1.0]),
        (np.array([True, False, True]), [1.0, 0.0, 1.0]),
        (np.array([3, -2, 1], np.int8), [3.0, -2.0, 1.0]),
        (np.array([3, 2, 1], np.uint16), [3.0, 2.0, 1.0]),
        (np.array([2**24 + 1, 0, 0]), [2.0**24 + 1, 0.0, 0.0]),
        (np.array([True, True, True]), None),
        (np.ones(3, np.uint64), None),
    ],
)
def test_stored_zeros_are_edges_and_integers_are_exact(values, weight):
    row, col = np.array([0, 1, 2]), np.array([1, 2, 0])
    matrix = sparse.coo_matrix((values, (row, col)), shape=(3, 3))
    graph, found = as_graph(matrix)
    assert graph.num_edges() == 3
    assert (None if found is None else found.tolist()) == weight


def test_arrays_that_are_longer_than_the_matrix_are_cut():
    matrix = sparse.csr_matrix(np.array([[0, 1.0], [1, 0]]))
    matrix.indices = np.append(matrix.indices, [7, 7]).astype(np.int32)
    matrix.data = np.append(matrix.data, [5.0, 5.0])
    graph, weight = as_graph(matrix)
    assert graph.num_edges() == 2
    assert weight is None


def test_pointers_of_another_type_are_converted():
    indptr, indices = torch.tensor([0, 1, 2]), torch.tensor([1, 0]).int()
    matrix = sparse.csr_matrix((2, 2))
    matrix.indptr, matrix.indices = indptr.numpy(), indices.numpy()
    matrix.data = np.ones(2)
    graph, _ = as_graph(matrix)
    assert graph.idtype == torch.int32
    assert graph.edges()[1].tolist() == [1, 0]


def test_a_pair_has_as_many_nodes_as_there_are_rows():
    pair = (np.array([0, 1]), np.array([1, 0]))
    assert block_aggregate(pair, torch.ones(5, 2), 1)[1].shape == (5, 2)
    assert edge_blocks(pair, 1)[0].num_nodes() == 2
    empty = ([], [])
    assert torch.equal(
        block_aggregate(empty, torch.ones(3, 2), 1)[1], torch.ones(3, 2)
    )


@given(coo=matrices(values=True), count=st.integers(1, 5))
def test_edge_blocks_keep_the_values(coo, count):
    blocks = edge_blocks(coo, count)
    found = sum(
        sparse.coo_matrix(
            (block.edata["weight"], block.edges()), shape=coo.shape
        ).toarray()
        for block in blocks
        if block.num_edges()
    )
    np.testing.assert_allclose(found, coo.toarray(), rtol=1e-5, atol=1e-6)


def test_plan_and_normalize_take_a_matrix():
    g = block_model(60, 2, 3).graph
    matrix = sparse.csr_matrix(
        (np.ones(g.num_edges()), [e.numpy() for e in g.edges()])
    )
    feat = torch.ones(60, 4)
    assert plan(matrix, feat, 2).num_edge_blocks == 1
    chosen = plan(matrix, feat, 2, memory="4MiB")
    assert block_aggregate(matrix, feat, 2, plan=chosen).shape == (60, 4)
    ones = dgl.from_scipy(matrix)
    assert torch.equal(normalize(matrix).diagonal, normalize(ones).diagonal)
    with pytest.raises(DGLError, match="weights of edges are not used here"):
        normalize(2 * matrix)


def test_the_same_content_has_the_same_store(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    coo = sparse.random(40, 40, 0.1, "csr", random_state=rng).tocoo()
    feat, weight = make_features(40, 3), torch.from_numpy(coo.data)
    block_aggregate(
        dgl_graph(coo), feat, 2, edge_weight=weight, out=tmp_path / "w"
    )
    ones = coo.copy()
    ones.data[:] = 1
    block_aggregate(dgl_graph(coo), feat, 2, out=tmp_path / "hops")

    def fail(*args):
        raise AssertionError("it was computed again")

    monkeypatch.setattr("dgl_lc.precompute.api._survey", fail)
    for make in FORMATS.values():
        block_aggregate(make(coo)[0], feat, 2, out=tmp_path / "w")
        block_aggregate(make(ones)[0], feat, 2, out=tmp_path / "hops")
    for make in PAIRS.values():
        block_aggregate(make(coo), feat, 2, out=tmp_path / "hops")


class Data:
    """Has the attributes of PyG's Data."""

    edge_index = torch.zeros(2, 0)


SparseTensor = type("SparseTensor", (), {})
EYE = sparse.eye_array(3, format="csr")
REFUSED = {
    "networkx": (nx.path_graph(3), "got Graph: use dgl.from_networkx"),
    "PyG": (Data(), r"got Data: use .*edge_index\[0\].*NodeData.from_pyg"),
    "torch_sparse": (SparseTensor(), "to_torch_sparse_csr_tensor"),
    "frame": (pd.DataFrame({"a": [0]}), r"to_numpy\(\).*from_pandas"),
    "dense array": (np.eye(3), "scipy.sparse.coo_array"),
    "edge index": (torch.zeros(2, 4).long(), r"\(g\[0\], g\[1\]\)"),
    "text": ("graph.npz", r"got str: read it .*dgl_lc\.data\.load"),
    "path": (Path("graph"), "dgl_lc.data.DiskGraph"),
    "task": (block_model(30, 2, 3), "got NodeData: use its graph, g.graph"),
    "list of edges": ([(0, 1), (1, 2)], r"got list: use a tuple \(src, dst\)"),
    "number": (3, "got int: make one with dgl.graph"),
    "three ends": (([0], [1], [2]), "got tuple"),
    "uneven pair": (([0, 1], [1]), "2 sources and 1 destinations"),
    "float pair": (([0.5], [1.0]), "integer ids in one dimension, got float"),
    "bool pair": (([True], [False]), "integer ids in one dimension, got bool"),
    "bool tensors": ((torch.ones(3).bool(),) * 2, "got torch.bool"),
    "wide pair": ((np.zeros((2, 2), int),) * 2, r"int64 of shape \(2, 2\)"),
    "ragged pair": (([[0], [1, 2]], [0, 1]), "g should be"),
    "id too high": (([0, 3], [1, 2]), "node id 3, but there are 3 nodes"),
    "id too low": (([0, -1], [1, 2]), "node id -1"),
    "id far too high": ((np.full(1, 2**64 - 1, np.uint64), [0]), "node id"),
    "not square": (sparse.csr_array((3, 4)), r"g has shape \(3, 4\)"),
    "complex": (EYE * 1j, "values of type complex128"),
    "blocks": (
        torch.eye(4).to_sparse_bsr((2, 2)),
        r"layout torch.sparse_bsr: use g.to_sparse_csr",
    ),
    "dense entries": (
        torch.ones(3, 3, 2).to_sparse(2),
        r"g has shape \(3, 3, 2\)",
    ),
    "gradient": (
        torch.eye(3).to_sparse().requires_grad_(),
        "g requires grad",
    ),
    "complex tensor": (
        (torch.eye(3) * 2j).to_sparse_csr(),
        "g has complex values",
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse.*beta state")
@pytest.mark.parametrize(("g", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_a_graph_is_refused_with_a_way_out(g, message):
    with pytest.raises(DGLError, match=message):
        block_aggregate(g, torch.ones(3, 2), 1)


def test_a_matrix_of_another_size_than_the_features_is_refused():
    with pytest.raises(DGLError, match="feat has 4 rows, but g has 3 nodes"):
        block_aggregate(EYE, torch.ones(4, 2), 1)


def test_weights_may_be_given_once():
    weight = torch.tensor([1.0, 2.0, 3.0])
    feat = make_features(3, 2)
    found = block_aggregate(EYE, feat, 1, self_loop=False, edge_weight=weight)
    assert torch.equal(found[1], feat * weight[:, None])
    plain = block_aggregate(EYE * 2, feat, 1, edge_weight=False)
    assert same_hops(plain, block_aggregate(EYE, feat, 1))
    with pytest.raises(DGLError, match="omit edge_weight"):
        block_aggregate(EYE * 2, feat, 1, edge_weight=weight)
