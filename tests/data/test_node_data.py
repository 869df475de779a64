"""A graph with features, labels and a split."""

import collections

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.data import NodeData
from dgl_lc.testing.random_graphs import graphs


def make(**changes):
    arguments = {
        "graph": dgl.graph(([0, 1, 1, 2, 3], [1, 0, 2, 1, 4]), num_nodes=6),
        "feat": torch.ones(6, 3),
        "labels": torch.tensor([0, 1, 2, 0, 1, -1]),
        "train": torch.tensor([0, 1]),
        "valid": torch.tensor([2]),
        "test": torch.tensor([3, 4]),
        "num_classes": 3,
        "name": "six",
    }
    return NodeData(**(arguments | changes))


def ids(*nodes):
    return torch.tensor(nodes)


def hetero():
    edges = {("a", "to", "b"): ([0], [0]), ("b", "to", "a"): ([0], [0])}
    return dgl.heterograph(edges)


WRONG = {
    "graph of another type": ({"graph": 3}, "graph should be a DGLGraph"),
    "heterograph": ({"graph": hetero()}, "graph .* dgl.to_homogeneous"),
    "no nodes": ({"graph": dgl.graph(([], []))}, "graph has no nodes"),
    "feat as array": ({"feat": np.ones((6, 3))}, "torch.as_tensor.feat"),
    "sparse feat": ({"feat": torch.eye(6).to_sparse()}, "feat.to_dense"),
    "feat elsewhere": (
        {"feat": torch.ones(6, 3, device="meta")},
        "feat is on meta .*graph.device",
    ),
    "flat feat": ({"feat": torch.ones(6)}, "feat should have two"),
    "too few rows": ({"feat": torch.ones(5, 3)}, "feat has 5 rows.* 6 nodes"),
    "no columns": ({"feat": torch.ones(6, 0)}, "feat has no columns"),
    "double feat": ({"feat": torch.ones(6, 3).double()}, r"feat\.float"),
    "short labels": ({"labels": ids(0, 1)}, "labels has 2 entries.* 6 nodes"),
    "one-hot labels": ({"labels": torch.eye(6).long()}, "labels.argmax"),
    "labels in a column": (
        {"labels": torch.zeros(6, 1).long()},
        r"labels.reshape\(-1\)",
    ),
    "float labels": ({"labels": torch.zeros(6)}, r"labels\.long"),
    "int32 labels": ({"labels": torch.zeros(6).int()}, r"labels\.long"),
    "too high a class": (
        {"labels": ids(0, 1, 3, 0, 1, -1)},
        "labels holds class 3, but num_classes is 3",
    ),
    "too low a class": ({"labels": ids(0, 1, -2, 0, 1, -1)}, "holds -2"),
    "no classes": ({"num_classes": 0}, "num_classes should be at least 1"),
    "half a class": ({"num_classes": 2.5}, "num_classes should be an int"),
    "true classes": ({"num_classes": True}, "num_classes should be an int"),
    "short mask": (
        {"valid": ids(0, 0, 1, 0, 0).bool()},
        "valid is a mask of 5 entries, but there are 6 nodes",
    ),
    "empty mask": ({"valid": [False] * 6}, "valid is empty"),
    "mask with a bare node": ({"test": [False] * 5 + [True]}, "holds node 5"),
    "float ids": ({"test": ids(3.0)}, "test should hold integer ids"),
    "ids in rows": ({"test": ids([3], [4])}, r"test\.reshape"),
    "empty split": ({"test": ids().long()}, "test is empty"),
    "id too high": ({"train": ids(0, 6)}, "train holds 6.* 0 to 5"),
    "id too low": ({"train": ids(0, -1)}, "train holds -1, not a node id"),
    "ids elsewhere": (
        {"train": torch.zeros(1, device="meta").long()},
        "train is on meta .*graph.device",
    ),
    "overlap": ({"valid": ids(2, 1)}, "node 1 is in train and in valid"),
    "late overlap": ({"test": ids(4, 2)}, "node 2 is in valid and in test"),
    "twice": ({"test": ids(3, 4, 3)}, r"test holds some .* test\.unique"),
    "no label": ({"test": ids(3, 5)}, r"test holds node 5.*labels\[test\]"),
    "train graph of another size": (
        {"_train_graph": dgl.graph(([0], [1]), num_nodes=2)},
        "training graph has 2 nodes, but graph has 6",
    ),
    "train graph with test nodes": (
        {"_train_graph": dgl.graph(([0], [4]), num_nodes=6)},
        "training graph has an edge at node 4, which is in test",
    ),
}


@pytest.mark.parametrize(
    ("changes", "message"), WRONG.values(), ids=WRONG.keys()
)
def test_a_wrong_argument_is_named_with_a_way_out(changes, message):
    with pytest.raises(DGLError, match=message):
        make(**changes)


def test_right_arguments_are_kept_as_they_are():
    feat, labels = torch.rand(6, 3), torch.tensor([0, 1, 1, 0, 1, -1])
    data = make(feat=feat, labels=labels, num_classes=np.int64(2))
    assert data.feat is feat
    assert data.labels is labels
    assert (data.num_feats, data.num_classes) == (3, 2)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_masks_and_lists_become_ids(kind):
    data = make(
        train=kind([True, True, False, False, False, False]),
        valid=kind([False, False, True, False, False, False]),
        test=kind([4, 3]),
    )
    for name, nodes in {"train": [0, 1], "valid": [2], "test": [4, 3]}.items():
        assert getattr(data, name).dtype == torch.int64
        assert getattr(data, name).tolist() == nodes


def test_the_text_says_what_is_there():
    assert str(make()) == (
        "NodeData('six', 6 nodes, 5 edges, 3 columns, 3 classes, 2 train, "
        "1 valid, 2 test)"
    )
    assert repr(make(inductive=True)).endswith("2 test, inductive)")


def test_training_sees_the_whole_graph_unless_it_is_inductive():
    data = make()
    assert data.train_graph is data.graph


def test_a_training_graph_of_its_own_is_kept():
    own = dgl.graph(([1], [0]), num_nodes=6)
    assert make(inductive=True, _train_graph=own).train_graph is own
    assert make(_train_graph=own).train_graph is not own


@given(graphs(), st.integers(0, 2**32 - 1))
def test_inductive_training_sees_edges_between_training_nodes(g, seed):
    n = g.num_nodes()
    if n < 3:
        return
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    train, valid, test = order[:-2], order[-2:-1], order[-1:]
    data = NodeData(
        g, torch.ones(n, 1), torch.zeros(n).long(), train, valid, test, 1,
        "random", inductive=True,
    )  # fmt: skip
    inside = set(train.tolist())

    def edges(graph):
        ends = graph.edges(order="srcdst")
        return zip(*(e.tolist() for e in ends), strict=True)

    wanted = collections.Counter(
        (u, v) for u, v in edges(g) if u in inside and v in inside
    )
    assert collections.Counter(edges(data.train_graph)) == wanted
    assert data.train_graph.num_nodes() == n
    assert data.train_graph.idtype == g.idtype
    assert data.train_graph is data.train_graph


def test_an_inductive_training_graph_keeps_edge_weights():
    data = make(inductive=True)
    data.graph.edata["w"] = torch.arange(5.0)
    assert data.train_graph.edata["w"].tolist() == [0, 1]
