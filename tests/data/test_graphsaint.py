"""Tasks in GraphSAINT's files."""

import json

import numpy as np
import pytest
import torch
from dgl import DGLError

from dgl_lc.data import load
from dgl_lc.data.graphsaint import FILES, load_graphsaint

# 0 - 1 - 2 - 3 - 4, and 5 is alone; 0, 1 and 2 are for training.
FULL = np.zeros((6, 6))
FULL[[0, 1, 2, 3], [1, 2, 3, 4]] = FULL[[1, 2, 3, 4], [0, 1, 2, 3]] = 1
TRAIN = np.zeros((6, 6))
TRAIN[:3, :3] = FULL[:3, :3]
FEATS = np.array([[1.0, 7], [2, 7], [6, 7], [4, 8], [5, 7], [0, -7]])
CLASSES = {"0": 0, "1": 1, "2": 1, "3": 0, "4": 2}
ROLES = {"tr": [2, 0, 1], "va": [3], "te": [4]}


def csr(matrix):
    rows, columns = matrix.nonzero()
    return {
        "data": matrix[rows, columns],
        "indices": columns.astype(np.int32),
        "indptr": np.searchsorted(rows, np.arange(len(matrix) + 1)),
        "shape": np.array(matrix.shape),
        "format": np.array(b"csr"),
    }


def write(folder, *, full=FULL, train=TRAIN, feats=FEATS, classes=CLASSES,
          roles=ROLES, changes=None):  # fmt: skip
    arrays = csr(full) | (changes or {})
    arrays = {key: item for key, item in arrays.items() if item is not None}
    np.savez(folder / "adj_full.npz", **arrays)
    np.savez(folder / "adj_train.npz", **csr(train))
    np.save(folder / "feats.npy", feats)
    (folder / "class_map.json").write_text(json.dumps(classes))
    (folder / "role.json").write_text(json.dumps(roles))
    return folder


def pairs(graph):
    return sorted(zip(*(e.tolist() for e in graph.edges()), strict=True))


def test_the_files_become_an_inductive_task(tmp_path):
    data = load_graphsaint(write(tmp_path), standardize=False)
    assert data.inductive
    assert data.name == tmp_path.name
    assert data.num_classes == 3
    assert data.labels.tolist() == [0, 1, 1, 0, 2, -1]
    assert data.train.tolist() == [2, 0, 1]
    assert (data.valid.tolist(), data.test.tolist()) == ([3], [4])
    assert data.feat.dtype == torch.float32
    assert data.feat.tolist() == FEATS.tolist()
    assert pairs(data.graph) == [
        (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3),
    ]  # fmt: skip


def test_the_training_graph_is_that_of_its_file(tmp_path):
    # One edge less than there is between training nodes.
    train = TRAIN.copy()
    train[0, 1] = train[1, 0] = 0
    data = load_graphsaint(write(tmp_path, train=train))
    assert pairs(data.train_graph) == [(1, 2), (2, 1)]
    assert data.train_graph.num_nodes() == 6


def test_a_node_gathers_from_the_columns_of_its_row(tmp_path):
    one_way = np.zeros((6, 6))
    one_way[0, 1] = 1
    data = load_graphsaint(write(tmp_path, full=one_way))
    assert pairs(data.graph) == [(1, 0)]


def test_a_stored_zero_is_no_edge(tmp_path):
    data = np.array([1, 0, 1, 1, 1, 1, 1, 5], dtype=np.float32)
    made = load_graphsaint(write(tmp_path, changes={"data": data}))
    assert made.graph.num_edges() == 7


def test_what_scipy_saves_is_read(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    write(tmp_path)
    wanted = pairs(load_graphsaint(tmp_path).graph)
    for make in (sparse.csr_matrix, sparse.csr_array):
        sparse.save_npz(tmp_path / "adj_full.npz", make(FULL.astype(bool)))
        assert pairs(load_graphsaint(tmp_path).graph) == wanted
    sparse.save_npz(tmp_path / "adj_full.npz", sparse.csc_matrix(FULL))
    with pytest.raises(DGLError, match=r"matrix\.tocsr"):
        load_graphsaint(tmp_path)


def test_columns_are_standardised_over_training_nodes(tmp_path):
    feat = load_graphsaint(write(tmp_path)).feat.numpy()
    deviation = np.sqrt((2**2 + 1 + 3**2) / 3)
    np.testing.assert_allclose(feat[:, 0], (FEATS[:, 0] - 3) / deviation)
    # A column that is constant over training nodes is only shifted.
    assert feat[:, 1].tolist() == [0, 0, 0, 1, 0, -14]


def test_many_rows_are_standardised_in_pieces(tmp_path):
    n = 20_000
    feats = np.random.default_rng(0).random((n, 2))
    write(tmp_path, feats=feats)
    ring = {
        "data": np.ones(n), "indices": np.arange(n),
        "indptr": np.arange(n + 1), "shape": np.array([n, n]),
    }  # fmt: skip
    none = ring | {"data": np.zeros(n)}
    np.savez(tmp_path / "adj_full.npz", **ring)
    np.savez(tmp_path / "adj_train.npz", **none)
    roles = {"tr": list(range(n - 2)), "va": [n - 2], "te": [n - 1]}
    (tmp_path / "role.json").write_text(json.dumps(roles))
    classes = {str(node): 0 for node in range(n)}
    (tmp_path / "class_map.json").write_text(json.dumps(classes))
    train = feats[: n - 2]
    wanted = (feats - train.mean(0)) / train.std(0)
    feat = load_graphsaint(tmp_path).feat.numpy()
    np.testing.assert_allclose(feat, wanted, rtol=1e-5, atol=1e-6)


def test_a_constant_column_does_not_blow_up_by_rounding(tmp_path):
    feats = np.full((6, 1), 0.1)
    feats[5] = 0.2
    feat = load_graphsaint(write(tmp_path, feats=feats)).feat
    assert feat.abs().max() < 1


def test_one_hot_rows_are_classes(tmp_path):
    rows = {str(node): [0, 0, 0, 0] for node in range(5)}
    for node, label in CLASSES.items():
        rows[node][label] = 1
    data = load_graphsaint(write(tmp_path, classes=rows))
    assert data.labels.tolist() == [0, 1, 1, 0, 2, -1]
    assert data.num_classes == 4


def test_classes_are_counted_from_the_lowest(tmp_path):
    shifted = {node: label + 3 for node, label in CLASSES.items()}
    data = load_graphsaint(write(tmp_path, classes=shifted))
    assert data.labels.tolist() == [0, 1, 1, 0, 2, -1]
    assert data.num_classes == 3


def edge(u, v):
    matrix = np.zeros((6, 6))
    matrix[u, v] = 1
    return matrix


WRONG = {
    "several labels": (
        {"classes": {str(node): [1, 1, 0] for node in range(5)}},
        "class_map.json: 5 nodes have several labels.* not supported",
    ),
    "no label at all": (
        {"classes": CLASSES | {key: [0, 0] for key in "01234"}},
        "none",
    ),
    "rows of two lengths": (
        {"classes": {"0": [1, 0], "1": [1, 0, 0]}},
        "class_map.json should hold an integer, or a list",
    ),
    "fractions of classes": ({"classes": CLASSES | {"1": 0.5}}, "integers"),
    "truth as a class": ({"classes": CLASSES | {"1": True}}, "integers"),
    "lists and integers": ({"classes": CLASSES | {"1": [1]}}, "integers"),
    "a class that is huge": ({"classes": CLASSES | {"1": 2**70}}, "too large"),
    "a class below 0": ({"classes": CLASSES | {"1": -1}}, "class -1"),
    "no classes": ({"classes": {}}, "class_map.json is empty"),
    "a class of no node": ({"classes": CLASSES | {"6": 1}}, "holds node 6"),
    "a node by name": ({"classes": {"a": 1}}, "keys should be node ids"),
    "a list of classes": ({"classes": [1, 2]}, "does not hold an object"),
    "a node twice": ({"classes": CLASSES | {"01": 1}}, "more than once"),
    "no role": ({"roles": {"tr": [0], "va": [3]}}, "role.json: te"),
    "an empty role": ({"roles": ROLES | {"te": []}}, "role.json: te"),
    "a role of no node": ({"roles": ROLES | {"tr": [0, 6]}}, "tr holds 6"),
    "two roles": ({"roles": ROLES | {"te": [4, 0]}}, "node 0 is in train and"),
    "no label in a role": ({"roles": ROLES | {"te": [5]}}, "test holds node 5"),
    "too few rows": ({"feats": FEATS[:5]}, "feats.npy.* 6 rows"),
    "words": ({"feats": np.full((6, 2), "a")}, "feats.npy.* numbers"),
    "pickled": ({"feats": np.array([None] * 6)}, "feats.npy.* pickled"),
    "training sees a test node": (
        {"train": edge(0, 4)},
        "training graph has an edge at node 4, which is in test",
    ),
    "training graph too small": ({"train": np.eye(3)}, "has 3 nodes"),
    "not square": ({"changes": {"shape": np.array([6, 7])}}, "is square"),
    "no shape": ({"changes": {"shape": None}}, "adj_full.npz has no shape"),
    "no number for an edge": ({"changes": {"data": np.ones(3)}}, "data should"),
    "column too high": (
        {"changes": {"indices": np.full(8, 6)}},
        "indices holds 6",
    ),
}


@pytest.mark.parametrize(
    ("changes", "message"), WRONG.values(), ids=WRONG.keys()
)
def test_what_is_wrong_in_the_files_is_named(tmp_path, changes, message):
    with pytest.raises(DGLError, match=message):
        load_graphsaint(write(tmp_path, **changes))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    (write(tmp_path) / name).unlink()
    with pytest.raises(DGLError, match=f"has no {name}"):
        load_graphsaint(tmp_path)


def test_a_file_that_is_not_json_is_named(tmp_path):
    (write(tmp_path) / "role.json").write_text("{")
    with pytest.raises(DGLError, match=r"role\.json cannot be read"):
        load_graphsaint(tmp_path)


def test_load_finds_the_format(tmp_path):
    data = load(write(tmp_path), standardize=False)
    assert data.feat.tolist() == FEATS.tolist()
