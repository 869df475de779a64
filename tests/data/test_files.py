"""Tasks in NumPy's files."""

import dataclasses
import io
import os

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import NodeData, block_model, files, load, save_npz
from dgl_lc.data.files import load_npz
from dgl_lc.testing.random_graphs import graphs

DENSE = {
    "num_nodes": np.int64(4),
    "edges": np.array([[0, 1, 3], [1, 2, 3]], dtype=np.int32),
    "labels": np.array([0, 1, 1, -1], dtype=np.int16),
    "train": np.array([0], dtype=np.int32),
    "valid": np.array([1]),
    "test": np.array([2]),
    "feat": np.arange(8, dtype=np.float32).reshape(4, 2),
}
SPARSE = {key: DENSE[key] for key in DENSE if key != "feat"} | {
    "feat_indptr": np.array([0, 2, 2, 3, 4]),
    "feat_indices": np.array([0, 2, 1, 0], dtype=np.int32),
    "feat_data": np.array([1.5, 2.0, 3.0, 4.0], dtype=np.float32),
    "feat_dim": np.int64(3),
}


def write(path, arrays, **changes):
    arrays = {
        key: value
        for key, value in (arrays | changes).items()
        if value is not None
    }
    np.savez(path, **arrays)
    return path


def write_folder(path, **changes):
    for key, value in (DENSE | changes).items():
        if key != "num_nodes" and value is not None:
            np.save(path / f"{key}.npy", value)
    return path


def test_a_dense_file_is_read(tmp_path):
    data = load_npz(write(tmp_path / "small.npz", DENSE))
    assert data.name == "small"
    assert data.num_classes == 2
    assert not data.inductive
    assert data.graph.num_nodes() == 4
    assert [ends.tolist() for ends in data.graph.edges()] == [
        [0, 1, 3],
        [1, 2, 3],
    ]
    assert torch.equal(data.feat, torch.arange(8.0).reshape(4, 2))
    assert data.labels.tolist() == [0, 1, 1, -1]
    assert [s.tolist() for s in (data.train, data.valid, data.test)] == [
        [0],
        [1],
        [2],
    ]


def test_sparse_features_become_dense(tmp_path):
    data = load_npz(write(tmp_path / "a.npz", SPARSE))
    wanted = [[1.5, 0, 2], [0, 0, 0], [0, 3, 0], [4, 0, 0]]
    assert data.feat.tolist() == wanted


def test_one_stored_value_stands_for_all(tmp_path):
    one = np.array([0.5], dtype=np.float16)
    data = load_npz(write(tmp_path / "a.npz", SPARSE, feat_data=one))
    wanted = [[0.5, 0, 0.5], [0, 0, 0], [0, 0.5, 0], [0.5, 0, 0]]
    assert data.feat.tolist() == wanted


def test_sparse_entries_stored_twice_add_up(tmp_path):
    twice = np.array([2, 2, 1, 0])
    data = load_npz(write(tmp_path / "a.npz", SPARSE, feat_indices=twice))
    assert data.feat[0].tolist() == [0, 0, 3.5]


def test_add_reverse_makes_the_graph_undirected(tmp_path):
    path = write(tmp_path / "a.npz", DENSE)
    source, target = load_npz(path, add_reverse=True).graph.edges()
    made = set(zip(source.tolist(), target.tolist(), strict=True))
    assert made == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 3)}
    assert len(source) == 5


def test_a_folder_is_read_and_its_features_stay_on_the_disk(tmp_path):
    data = load_npz(write_folder(tmp_path))
    assert data.name == tmp_path.name
    assert data.feat[3].tolist() == [6, 7]
    # What is written into the file now is seen: nothing was copied.
    with open(tmp_path / "feat.npy", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(9).tobytes())
    assert data.feat[3].tolist() == [6, 9]


def test_writing_to_mapped_features_leaves_the_file_alone(tmp_path):
    data = load_npz(write_folder(tmp_path))
    data.feat[0, 0] = 100
    assert load_npz(tmp_path).feat[0, 0] == 0


def test_other_number_types_become_float32(tmp_path):
    wanted = torch.from_numpy(DENSE["feat"])
    for kind in ("float64", "float16", "int8", ">f4"):
        write_folder(tmp_path, feat=DENSE["feat"].astype(kind))
        assert torch.equal(load_npz(tmp_path).feat, wanted)


def pairs(graph):
    """Edges by their ids, whatever the format."""
    ends = graph.edges(form="all", order="srcdst")
    return sorted(zip(*(e.tolist() for e in reversed(ends)), strict=True))


@given(graphs(), st.booleans(), st.booleans())
def test_what_is_saved_is_loaded(tmp_path_factory, g, inductive, own):
    n = g.num_nodes()
    if n < 3:
        return
    data = NodeData(
        graph=g,
        feat=torch.randn(n, 3),
        labels=torch.arange(n) % 2,
        train=torch.arange(2, n),
        valid=torch.tensor([0]),
        test=torch.tensor([1]),
        num_classes=5,
        name="a näme",
        inductive=inductive,
        _train_graph=dgl.graph(([2], [2]), num_nodes=n) if own else None,
    )
    path = tmp_path_factory.mktemp("saved") / "a.npz"
    save_npz(data, path)
    again = load_npz(path)
    assert repr(again) == repr(data)
    for name in ("feat", "labels", "train", "valid", "test"):
        assert torch.equal(getattr(again, name), getattr(data, name))
    for name in ("graph", "train_graph"):
        assert pairs(getattr(again, name)) == pairs(getattr(data, name))


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    data = block_model(10, 2, 3)
    path = tmp_path / "a.npz"
    save_npz(data, path)
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(files.np, "savez", fail)
    with pytest.raises(OSError, match="no space"):
        save_npz(data, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.npz"]


def test_saving_replaces_a_file_and_leaves_no_other(tmp_path):
    save_npz(block_model(10, 2, 3), tmp_path / "a.npz")
    save_npz(block_model(20, 2, 3), tmp_path / "a.npz")
    assert load_npz(tmp_path / "a.npz").graph.num_nodes() == 20
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("name", ["a.npy", "a", "nowhere/a.npz"])
def test_a_path_that_cannot_be_saved_to_is_named(tmp_path, name):
    with pytest.raises(DGLError, match="path"):
        save_npz(block_model(10, 2, 3), tmp_path / name)


NONE = np.array([None, 1, 2, 3], dtype=object)
WRONG = {
    "no edges": (DENSE, {"edges": None}, "has no edges"),
    "no split": (DENSE, {"train": None, "test": None}, "has no train, test"),
    "no feat": (DENSE, {"feat": None}, "has no feat:"),
    "half a CSR": (SPARSE, {"feat_dim": None}, "has no feat_dim"),
    "edges turned": (DENSE, {"edges": np.zeros((3, 2), int)}, "edges.T"),
    "flat edges": (DENSE, {"edges": np.zeros(4, int)}, "edges.* 2 dimensions"),
    "float edges": (DENSE, {"edges": np.zeros((2, 3))}, "edges.* integers"),
    "node too high": (
        DENSE,
        {"edges": np.array([[0, 1], [4, 2]])},
        "edges holds 4, but there are nodes 0 to 3",
    ),
    "node too low": (
        DENSE,
        {"edges": np.array([[0, -1], [1, 2]])},
        "edges holds -1",
    ),
    "float labels": (DENSE, {"labels": np.ones(4)}, "labels.* integers"),
    "labels in rows": (DENSE, {"labels": np.ones((4, 1), int)}, "labels"),
    "short labels": (DENSE, {"labels": np.ones(3, int)}, "labels has 3"),
    "short mask": (DENSE, {"valid": np.ones(3, bool)}, "valid is a mask of 3"),
    "float ids": (DENSE, {"valid": np.ones(1)}, "valid should hold integer"),
    "two names": (
        DENSE,
        {"edge_index": DENSE["edges"]},
        "has both edges and edge_index",
    ),
    "few weights": (DENSE, {"edge_weight": np.ones(2)}, "each of 3 edges, got"),
    "weights in words": (
        DENSE,
        {"edge_weight": np.full(3, "a")},
        "edge_weight",
    ),
    "few class names": (DENSE, {"class_names": np.array(["a"])}, "1 names"),
    "numbers as names": (
        DENSE,
        {"class_names": np.arange(2)},
        "list of texts,",
    ),
    "few ids": (DENSE, {"node_ids": np.arange(3)}, "node_ids has 3 entries"),
    "ids twice": (DENSE, {"node_ids": np.array([1, 2, 3, 1])}, "1 more than"),
    "float ids of nodes": (
        DENSE,
        {"node_ids": np.arange(4.0)},
        "node_ids should be a list of texts or integers, got float64",
    ),
    "id too high": (DENSE, {"valid": np.array([7])}, "valid holds 7"),
    "too few rows": (DENSE, {"feat": np.ones((3, 2))}, "feat has 3 rows"),
    "words": (DENSE, {"feat": np.full((4, 2), "a")}, "feat should hold num"),
    "two counts": (DENSE, {"num_nodes": np.ones(2, int)}, "num_nodes"),
    "no nodes": (DENSE, {"num_nodes": np.int64(0)}, "0 nodes"),
    "few classes": (DENSE, {"num_classes": np.int64(1)}, "num_classes is 1"),
    "pickled labels": (DENSE, {"labels": NONE}, "labels is not .* pickled"),
    "short indptr": (
        SPARSE,
        {"feat_indptr": np.array([0, 2, 4])},
        "indptr has 3 entries, but 4 rows need 5",
    ),
    "falling indptr": (
        SPARSE,
        {"feat_indptr": np.array([0, 3, 2, 3, 4])},
        "indptr should rise",
    ),
    "indptr past the end": (
        SPARSE,
        {"feat_indptr": np.array([0, 2, 2, 3, 5])},
        "indptr should rise from 0 to .* 4",
    ),
    "column too high": (
        SPARSE,
        {"feat_indices": np.array([0, 3, 1, 0])},
        "indices holds 3, but there are columns 0 to 2",
    ),
    "two values": (SPARSE, {"feat_data": np.ones(2)}, "feat_data .* got 2"),
    "no columns": (SPARSE, {"feat_dim": np.int64(0)}, "feat_dim"),
}


def as_folder(folder, **changes):
    folder.mkdir()
    return write_folder(folder, **changes)


def as_file(path, **changes):
    return write(path.with_suffix(".npz"), DENSE, **changes)


BOTH = pytest.mark.parametrize("make", [as_folder, as_file])


@BOTH
def test_edges_have_two_names(tmp_path, make):
    first = load(make(tmp_path / "a"))
    second = load(make(tmp_path / "b", edges=None, edge_index=DENSE["edges"]))
    assert all(map(torch.equal, first.graph.edges(), second.graph.edges()))
    if make is as_folder:
        np.save(tmp_path / "a" / "edge_index.npy", DENSE["edges"])
        with pytest.raises(DGLError, match="has both edges and edge_index"):
            load(tmp_path / "a")


@BOTH
def test_the_split_can_be_masks(tmp_path, make):
    nodes = np.arange(4)
    data = load(
        make(
            tmp_path / "a", train=nodes == 0, valid=nodes == 1, test=nodes == 2
        )
    )
    assert [data.train.tolist(), data.valid.tolist()] == [[0], [1]]
    assert data.test.tolist() == [2]


@BOTH
@pytest.mark.parametrize(
    "ids", [np.array([7, -3, 2**40, 0]), np.array(list("dbca"))]
)
def test_weights_ids_and_names_are_read(tmp_path, make, ids):
    more = {
        "edge_weight": np.array([[0.5], [1], [2]]),
        "class_names": np.array(["no", "yes"]),
        "node_ids": ids,
    }
    data = load(make(tmp_path / "a", **more))
    assert data.edge_weight.tolist() == [0.5, 1, 2]
    assert data.edge_weight.dtype == torch.float64
    assert data.class_names == ["no", "yes"]
    assert data.ids_of([3, 1]).tolist() == ids[[3, 1]].tolist()
    assert data.find_nodes(ids[[3, 1]]).tolist() == [3, 1]
    with pytest.raises(DGLError, match="has edge_weight, so add_reverse"):
        load(make(tmp_path / "b", **more), add_reverse=True)


@given(
    st.one_of(
        st.lists(st.text(min_size=1), min_size=4, max_size=4, unique=True),
        st.lists(
            st.integers(-(2**63), 2**63 - 1),
            min_size=4, max_size=4, unique=True,
        ),
    )
)  # fmt: skip
def test_ids_and_names_are_saved_without_pickle(tmp_path_factory, ids):
    path = tmp_path_factory.mktemp("ids") / "task.npz"
    data = load(write(path, DENSE, node_ids=None))
    data = dataclasses.replace(data, node_ids=ids, class_names=["ä", "b c"])
    data.graph.edata["weight"] = torch.tensor([1.0, 2.0, 0.5])
    if any(str(own).endswith("\0") for own in ids):
        with pytest.raises(DGLError, match="zero character"):
            save_npz(data, path)
        return
    save_npz(data, path)
    found = load(path)
    assert found.ids_of(range(4)).tolist() == ids
    assert found.class_names == ["ä", "b c"]
    assert torch.equal(found.edge_weight, data.edge_weight)
    with np.load(path, allow_pickle=False) as file:
        assert file["node_ids"].dtype.kind in "iU"


def test_ids_that_are_no_texts_are_not_saved(tmp_path):
    data = load(write(tmp_path / "a.npz", DENSE))
    data = dataclasses.replace(data, node_ids=["a", (1, 2), "b", "c"])
    with pytest.raises(DGLError, match=r"node_ids holds \(1, 2\): only int"):
        save_npz(data, tmp_path / "b.npz")
    assert not (tmp_path / "b.npz").exists()


@pytest.mark.parametrize(
    ("arrays", "changes", "message"), WRONG.values(), ids=WRONG.keys()
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, arrays, changes, message):
    path = write(tmp_path / "wrong.npz", arrays, **changes)
    with pytest.raises(DGLError, match=f"wrong.npz.*{message}"):
        load_npz(path)


@pytest.mark.parametrize("key", ["edges", "feat", "labels", "test"])
def test_what_is_missing_or_pickled_in_a_folder_is_named(tmp_path, key):
    write_folder(tmp_path, **{key: NONE})
    with pytest.raises(DGLError, match=rf"{key}\.npy.* pickled"):
        load_npz(tmp_path)
    os.remove(tmp_path / f"{key}.npy")
    with pytest.raises(DGLError, match=f"has no {key}"):
        load_npz(tmp_path)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [b"", b"some text", b"PK\3\4 cut off", npy(np.ones(3))]
)
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(DGLError, match=r"other\.npz"):
        load_npz(path)


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    path = write(tmp_path / "cut.npz", DENSE)
    whole = path.read_bytes()
    for length in range(1, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(DGLError, match=r"cut\.npz"):
            load_npz(path)


def test_a_file_that_is_damaged_inside_is_refused(tmp_path):
    path = write(tmp_path / "bad.npz", DENSE)
    whole = bytearray(path.read_bytes())
    place = whole.index(DENSE["feat"].tobytes())
    whole[place] ^= 255
    path.write_bytes(whole)
    with pytest.raises(DGLError, match="feat is damaged: its checksum"):
        load_npz(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DGLError, match=r"nowhere\.npz does not exist"):
        load_npz(tmp_path / "nowhere.npz")


def test_an_npz_file_named_npy_is_refused(tmp_path):
    write_folder(tmp_path)
    with open(tmp_path / "labels.npy", "wb") as file:
        np.savez(file, labels=DENSE["labels"])
    with pytest.raises(DGLError, match=r"labels\.npy cannot be read"):
        load_npz(tmp_path)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "columns", "classes"),
    [
        ("cora", 2_708, 10_556, 1_433, 7),
        ("pubmed", 19_717, 88_648, 500, 3),
        ("tolokers", 11_758, 1_038_000, 10, 2),
        ("ogbn_arxiv", 169_343, 1_166_243, 40, 40),
    ],
)
def test_real_graphs_have_their_published_sizes(
    shared_data, name, nodes, edges, columns, classes
):
    path = shared_data / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    data = load(path)
    assert data.name == name
    assert data.graph.num_nodes() == nodes
    assert data.graph.num_edges() == edges
    assert (data.num_feats, data.num_classes) == (columns, classes)
