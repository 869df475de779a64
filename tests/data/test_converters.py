"""Tasks from objects of PyG, scipy, networkx and pandas."""

import sys
from types import SimpleNamespace

import dgl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dgl_lc.data import NodeData, load, save_npz
from dgl_lc.precompute import block_aggregate
from dgl_lc.testing.random_graphs import graphs
from dgl_lc.testing.reference import dense_filter

N = 8
SOURCE = torch.tensor([0, 1, 2, 2, 3, 4, 7, 7])
TARGET = torch.tensor([1, 2, 0, 3, 3, 5, 6, 6])
X = torch.arange(N * 2.0).reshape(N, 2)
Y = torch.tensor([0, 1, 2, 0, 1, 2, -1, 0])
PARTS = {"train": [0, 1, 2], "valid": [3, 4], "test": [5, 7]}


def mask_of(ids):
    mask = torch.zeros(N, dtype=torch.bool)
    mask[ids] = True
    return mask


def with_nan(values, *places):
    changed = values.clone()
    changed[list(places)] = torch.nan
    return changed


def pyg(**changes):
    """Make a stand-in with the names of PyG's Data; it has no DGLGraph."""
    data = {
        "x": X, "edge_index": torch.stack([SOURCE, TARGET]), "y": Y,
        "train_mask": mask_of(PARTS["train"]),
        "val_mask": mask_of(PARTS["valid"]),
        "test_mask": mask_of(PARTS["test"]),
    }  # fmt: skip
    return SimpleNamespace(**(data | changes))


def adjacency(values=None, n=N):
    values = np.ones(len(SOURCE)) if values is None else values
    return sparse.coo_matrix((values, (SOURCE, TARGET)), shape=(n, n))


def networkx_graph(kind=nx.MultiDiGraph):
    g = kind()
    for node in range(N):
        own = {"feat": X[node].tolist(), "a": node, "b": 2.0}
        if Y[node] >= 0:
            own["label"] = int(Y[node])
        g.add_node(f"n{node}", **own)
    for place, (u, v) in enumerate(zip(SOURCE, TARGET, strict=True)):
        g.add_edge(f"n{u}", f"n{v}", weight=float(place))
    return g


def frames():
    names = np.array([f"n{node}" for node in range(N)])
    edges = pd.DataFrame({"u": names[SOURCE], "v": names[TARGET]})
    edges["w"] = np.arange(len(SOURCE)) / 2
    nodes = pd.DataFrame({"id": names, "x0": X[:, 0], "x1": X[:, 1]})
    nodes["label"] = Y.numpy()
    return edges, nodes


def named(parts):
    return {part: [f"n{node}" for node in ids] for part, ids in parts.items()}


def from_pyg(split):
    return NodeData.from_pyg(pyg(), split=split)


def from_scipy(split):
    return NodeData.from_scipy(adjacency(), X.numpy(), Y, split=split)


def from_networkx(split):
    return NodeData.from_networkx(networkx_graph(), split=named(split))


def from_pandas(split):
    return NodeData.from_pandas(*frames(), split=named(split))


EVERY = pytest.mark.parametrize(
    "convert", [from_pyg, from_scipy, from_networkx, from_pandas]
)


@EVERY
def test_every_source_gives_the_same_task(convert):
    data = convert(PARTS)
    edges = [ends.tolist() for ends in data.graph.edges()]
    assert sorted(zip(*edges, strict=True)) == sorted(
        zip(SOURCE.tolist(), TARGET.tolist(), strict=True)
    )
    assert torch.equal(data.feat, X)
    assert torch.equal(data.labels, Y)
    assert (data.num_classes, data.class_names) == (3, None)
    for part, ids in PARTS.items():
        assert getattr(data, part).tolist() == ids
    assert data.edge_weight is None


@EVERY
def test_the_hop_features_are_the_same_bit_by_bit(convert):
    own = dgl.graph((SOURCE, TARGET), num_nodes=N)
    wanted = block_aggregate(own, X, 3)
    data = convert(PARTS)
    found = block_aggregate(data.graph, data.feat, 3)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("name", ["pandas", "networkx", "torch_geometric"])
def test_no_library_is_imported_to_tell_its_objects(name):
    module = sys.modules["dgl_lc.data.converters"]
    assert not hasattr(module, name)
    assert not hasattr(module, {"pandas": "pd", "networkx": "nx"}.get(name, ""))


# Splits


def test_masks_of_pyg_are_the_split():
    data = NodeData.from_pyg(pyg())
    for part, ids in PARTS.items():
        assert getattr(data, part).tolist() == ids


def test_one_of_several_splits_of_pyg_is_chosen():
    two = torch.stack([mask_of([0]), mask_of([1])], dim=1)
    data = pyg(train_mask=two, val_mask=two.roll(2, 0).to(torch.uint8))
    for column in (0, 1):
        found = NodeData.from_pyg(data, split=column)
        assert found.train.tolist() == [column]
        assert found.valid.tolist() == [column + 2]
        assert found.test.tolist() == PARTS["test"]
    for split in (None, 2, -1):
        with pytest.raises(
            DGLError, match=r"train_mask has 2 columns.*split=0"
        ):
            NodeData.from_pyg(data, split=split)


def bare():
    data = pyg()
    del data.train_mask, data.val_mask, data.test_mask
    return data


def test_without_masks_the_labelled_nodes_are_split_at_random():
    edges, nodes = frames()
    made = [
        NodeData.from_pyg(bare(), seed=5),
        NodeData.from_scipy(adjacency(), X, Y, seed=5),
        NodeData.from_networkx(networkx_graph(), seed=5),
        NodeData.from_pandas(edges, nodes, seed=5),
    ]
    for data in made:
        parts = [data.train, data.valid, data.test]
        assert [len(ids) for ids in parts] == [4, 2, 1]
        assert sorted(torch.cat(parts).tolist()) == [0, 1, 2, 3, 4, 5, 7]
        assert torch.equal(data.train, made[0].train)
    others = [
        NodeData.from_pyg(bare(), seed=s).train.tolist() for s in range(9)
    ]
    assert len(set(map(tuple, others))) > 1


def test_words_at_the_nodes_are_the_split():
    words = ["train"] * 3 + ["val"] * 2 + ["test", None, "test"]
    edges, nodes = frames()
    g = networkx_graph()
    for node, word in zip(g, words, strict=True):
        g.nodes[node]["part"] = g.nodes[node]["split"] = word
    nodes["part"] = nodes["split"] = words
    for data in (
        NodeData.from_networkx(g),
        NodeData.from_networkx(g, split="part"),
        NodeData.from_pandas(edges, nodes),
        NodeData.from_pandas(edges, nodes, split="part"),
    ):
        for part, ids in PARTS.items():
            assert getattr(data, part).tolist() == ids
    assert NodeData.from_pandas(edges, nodes, split="part").num_feats == 2


# Weights


def test_values_of_a_matrix_are_edge_weights():
    weight = np.array([1.0, 2, 0, 4, 5, 6, 7, 8])
    adj = adjacency(weight)
    data = NodeData.from_scipy(adj, X.double(), Y)
    assert data.feat.dtype == torch.float32
    assert data.graph.num_edges() == len(weight)
    hops = block_aggregate(
        data.graph, data.feat, 1, norm="none", self_loop=False,
        edge_weight=data.edge_weight,
    )  # fmt: skip
    np.testing.assert_allclose(hops[1], adj.toarray().T @ X.numpy())
    matrix = adj.tocsr()
    graph = NodeData.from_scipy(matrix, X, Y).graph
    before = matrix.indices.tolist()
    matrix.indices[:] = 0
    assert graph.edges()[1].tolist() == before


@given(g=graphs(max_nodes=12, max_edges=30), seed=st.integers(0, 99))
def test_scipy_has_dgls_direction(g, seed):
    n = g.num_nodes()
    if n < 3:
        return
    rng = np.random.default_rng(seed)
    source, target = (ends.numpy() for ends in g.edges(order="srcdst"))
    values = rng.normal(size=len(source))
    adj = sparse.coo_matrix((values, (source, target)), shape=(n, n))
    data = NodeData.from_scipy(adj.tocsc(), np.eye(n), np.arange(n))
    other = dgl.from_scipy(adj.tocsc(), eweight_name="w")
    wanted = dense_filter(other, edge_weight=other.edata["w"])
    found = block_aggregate(
        data.graph, data.feat, 1, edge_weight=data.edge_weight
    )
    np.testing.assert_allclose(found[1], wanted, rtol=1e-4, atol=1e-6)


def test_weights_of_pyg_networkx_and_pandas():
    weight = torch.rand(len(SOURCE), 1)
    data = NodeData.from_pyg(pyg(edge_weight=weight))
    assert torch.equal(data.edge_weight, weight[:, 0])
    data = NodeData.from_networkx(networkx_graph(), weight="weight")
    assert data.edge_weight.tolist() == list(range(len(SOURCE)))
    data = NodeData.from_pandas(*frames(), weight="w")
    assert data.edge_weight.tolist() == (np.arange(len(SOURCE)) / 2).tolist()
    assert f"{len(SOURCE)} weighted edges" in repr(data)


@pytest.mark.parametrize("name", ["weight", "weights", "edge_weight"])
def test_a_column_of_weights_of_pandas_is_used_unless_refused(name):
    edges, nodes = frames()
    edges = edges.rename(columns={"w": name})
    data = NodeData.from_pandas(edges, nodes)
    assert data.edge_weight.tolist() == edges[name].tolist()
    for ignored in (False, None):
        data = NodeData.from_pandas(edges, nodes, weight=ignored)
        assert data.edge_weight is None
    with pytest.raises(DGLError, match="weight=False to ignore the weights"):
        NodeData.from_pandas(edges, nodes, add_reverse=True)
    NodeData.from_pandas(edges, nodes, weight=False, add_reverse=True)
    with pytest.raises(DGLError, match="no column 'no such'"):
        NodeData.from_pandas(edges, nodes, weight="no such")
    # An end of an edge is not its weight.
    ends = edges[["u", "v"]].rename(columns={"v": name})
    assert NodeData.from_pandas(ends, nodes).edge_weight is None


# networkx


@pytest.mark.parametrize(
    "kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]
)
@given(g=graphs(max_nodes=12, max_edges=30))
def test_edges_of_networkx_are_those_that_dgl_reads(kind, g):
    n = g.num_nodes()
    if n < 3:
        return
    graph = kind()
    graph.add_nodes_from((i, {"feat": [1.0], "label": i}) for i in range(n))
    ends = (ids.tolist() for ids in g.edges(order="srcdst"))
    graph.add_edges_from(zip(*ends, strict=True))
    data = NodeData.from_networkx(graph)
    # DGL relabels an undirected graph, which changes the order.
    found, wanted = (
        sorted(zip(*(ends.tolist() for ends in own.edges()), strict=True))
        for own in (data.graph, dgl.from_networkx(graph))
    )
    assert found == wanted


def test_nodes_of_networkx_keep_their_names():
    g = networkx_graph()
    g.add_node((1, "x"), feat=[0.0, 0.0])
    data = NodeData.from_networkx(g, features="feat")
    assert data.ids_of([8, 0]).tolist() == [(1, "x"), "n0"]
    assert data.find_nodes([(1, "x"), "n3"]).tolist() == [8, 3]
    assert data.labels[8] == -1


def test_features_of_networkx():
    g = networkx_graph()
    two = NodeData.from_networkx(g, features=["a", "b"]).feat
    assert two.tolist() == [[float(node), 2.0] for node in range(N)]
    assert NodeData.from_networkx(g, features="a").feat.shape == (N, 1)
    given_as = NodeData.from_networkx(g, features=X.numpy())
    assert torch.equal(given_as.feat, X)


# pandas


def test_columns_can_be_named():
    edges, nodes = frames()
    edges = edges[["w", "v", "u"]]
    nodes = nodes.rename(columns={"id": "who", "label": "class"})
    data = NodeData.from_pandas(
        edges, nodes, source="u", target="v", id="who", label="class",
        features=["x1"],
    )  # fmt: skip
    assert torch.equal(data.graph.edges()[0], SOURCE)
    assert torch.equal(data.feat, X[:, 1:])
    assert NodeData.from_pandas(
        edges, nodes, source="u", target="v", id="who", label="class",
        features="x0",
    ).feat.shape == (N, 1)  # fmt: skip


@pytest.mark.parametrize("ids", [np.arange(N) * 10**12 - 7, list("hgfedcba")])
def test_ids_may_be_the_index(ids):
    ids = np.array(ids)
    nodes = frames()[1].drop(columns="id").set_index(pd.Index(ids))
    edges = pd.DataFrame({"u": ids[SOURCE], "v": ids[TARGET]})
    data = NodeData.from_pandas(edges, nodes)
    assert torch.equal(data.graph.edges()[1], TARGET)
    assert data.ids_of(torch.tensor([5, 1])).tolist() == ids[[5, 1]].tolist()
    assert data.find_nodes(ids[[5, 1]]).tolist() == [5, 1]


def test_labels_may_be_texts_with_missing_ones():
    edges, nodes = frames()
    nodes["label"] = ["x", "z", None, "x", "", "y", np.nan, "y"]
    nodes["is_new"] = True
    data = NodeData.from_pandas(edges, nodes)
    assert data.labels.tolist() == [0, 2, -1, 0, -1, 1, -1, 1]
    assert data.class_names == ["x", "y", "z"]
    assert data.num_feats == 2


def test_edges_can_be_given_back():
    edges, nodes = frames()
    data = NodeData.from_pandas(edges, nodes, add_reverse=True)
    pairs = set(zip(*(e.tolist() for e in data.graph.edges()), strict=True))
    assert len(pairs) == data.graph.num_edges() == 13
    assert {(v, u) for u, v in pairs} == pairs


# What is wrong


def without(frame, *columns):
    return frame.drop(columns=list(columns))


EDGES, NODES = frames()
REFUSED = {
    "pyg set": (lambda: NodeData.from_pyg([1]), r"edge_index: .*dataset\[0\]"),
    "pyg without x": (
        lambda: NodeData.from_pyg(pyg(x=None)), r"data\.x is missing"
    ),
    "pyg without y": (
        lambda: NodeData.from_pyg(pyg(y=None)), r"data\.y is missing"
    ),
    "pyg one mask": (
        lambda: NodeData.from_pyg(pyg(val_mask=None)), "val_mask is missing"
    ),
    "pyg no masks": (
        lambda: NodeData.from_pyg(bare(), split=0), "train_mask is missing"
    ),
    "pyg edges in rows": (
        lambda: NodeData.from_pyg(pyg(edge_index=torch.zeros(3, 2).long())),
        r"edge_index should have shape \(2, edges\), got \(3, 2\)",
    ),
    "pyg id too high": (
        lambda: NodeData.from_pyg(pyg(x=X[:4])), "node id 7, but there are 4"
    ),
    "pyg few weights": (
        lambda: NodeData.from_pyg(pyg(edge_weight=torch.ones(2))),
        "2 edge weights for 8 edges",
    ),
    "pyg few labels": (
        lambda: NodeData.from_pyg(pyg(y=Y[:5])), "5 labels for 8 nodes"
    ),
    "pyg features with nan": (
        lambda: NodeData.from_pyg(pyg(x=with_nan(X, 3))),
        "the features hold nan at node 3:",
    ),
    "pyg weights with nan": (
        lambda: NodeData.from_pyg(pyg(edge_weight=with_nan(X[:, 0], 1, 5))),
        "the edge weights hold nan at edge 1, and 1 others,",
    ),
    "scipy features with nan": (
        lambda: NodeData.from_scipy(adjacency(), with_nan(X, 0).numpy(), Y),
        "the features hold nan at node 0:",
    ),
    "scipy weights with nan": (
        lambda: NodeData.from_scipy(
            adjacency(with_nan(X[:, 0], 2).numpy()), X, Y
        ),
        "the edge weights hold nan at edge 2:",
    ),
    "networkx features with nan": (
        lambda: NodeData.from_networkx(
            networkx_graph(), features=with_nan(X, 7)
        ),
        "the features hold nan at node 7:",
    ),
    "dense matrix": (
        lambda: NodeData.from_scipy(np.eye(N), X, Y), "adj should be a scipy"
    ),
    "not square": (
        lambda: NodeData.from_scipy(sparse.coo_array((3, 4)), X, Y),
        r"shape \(3, 4\)",
    ),
    "scipy few rows": (
        lambda: NodeData.from_scipy(adjacency(), X[:3], Y), "feat has 3 rows"
    ),
    "scipy ids": (
        lambda: NodeData.from_scipy(adjacency(), X, Y, node_ids=["a"]),
        "node_ids has 1 entries, but graph has 8",
    ),
    "no features": (
        lambda: NodeData.from_networkx(nx.path_graph(4)),
        r"node 0 has no attribute 'feat'.*features=",
    ),
    "no labels": (
        lambda: NodeData.from_networkx(networkx_graph(), label="y"),
        "attribute 'y': name .* label=",
    ),
    "no graph": (lambda: NodeData.from_networkx(3), "networkx graph, got int"),
    "no nodes": (lambda: NodeData.from_networkx(nx.Graph()), "has no nodes"),
    "no weight": (
        lambda: NodeData.from_networkx(networkx_graph(), weight="w"),
        "edge from 'n0' to 'n1' has no attribute 'w'",
    ),
    "text features": (
        lambda: NodeData.from_networkx(networkx_graph(), features=["label"]),
        "node 'n6' has no attribute 'label'",
    ),
    "no frame": (lambda: NodeData.from_pandas([1], NODES), "edges should be a"),
    "one column": (
        lambda: NodeData.from_pandas(EDGES[["u"]], NODES), "two columns"
    ),
    "no such column": (
        lambda: NodeData.from_pandas(EDGES, NODES, label="y"),
        "nodes has no column 'y': its columns are 'id', 'x0'",
    ),
    "unknown end": (
        lambda: NodeData.from_pandas(EDGES, NODES[:6]),
        r"edges\['u'\] holds 'n7', and 1 others, which no node has",
    ),
    "ends of another kind": (
        lambda: NodeData.from_pandas(EDGES, without(NODES, "id")),
        r"edges\['u'\] holds 'n0', and 7 others, which no node has.* as 0",
    ),
    "ids twice": (
        lambda: NodeData.from_pandas(EDGES, pd.concat([NODES, NODES[:1]])),
        r"nodes\['id'\] holds 'n0' more than once",
    ),
    "no numbers": (
        lambda: NodeData.from_pandas(EDGES, without(NODES, "x0", "x1")),
        "no column of numbers",
    ),
    "text as feature": (
        lambda: NodeData.from_pandas(EDGES, NODES, features=["id"]),
        r"nodes\['id'\] should hold numbers",
    ),
    "gap in a feature": (
        lambda: NodeData.from_pandas(
            EDGES, NODES.assign(x1=NODES["x1"].where(NODES["x1"] != 3))
        ),
        r"nodes\['x1'\] has no number in row 1: fill",
    ),
    "weight and reverse": (
        lambda: NodeData.from_pandas(
            EDGES, NODES, weight="w", add_reverse=True
        ),
        "can't be combined",
    ),
    "unknown split": (
        lambda: NodeData.from_pandas(EDGES, NODES, split="id"),
        "holds 'n0', and 7 others, which is no part",
    ),
    "unknown part": (
        lambda: NodeData.from_pandas(EDGES, NODES, split=PARTS),
        r"split\['train'\] holds 0, and 2 others, which no node has",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_converted_is_named(call, message):
    with pytest.raises(DGLError, match=message):
        call()


def test_a_converted_task_is_saved_and_loaded(tmp_path):
    edges, nodes = frames()
    nodes["label"] = ["x", "z", None, "x", "", "y", np.nan, "y"]
    data = NodeData.from_pandas(edges, nodes, weight="w")
    save_npz(data, tmp_path / "task.npz")
    found = load(tmp_path / "task.npz")
    assert found.class_names == data.class_names
    assert found.ids_of(range(N)).tolist() == nodes["id"].tolist()
    assert torch.equal(found.edge_weight, data.edge_weight)
    assert torch.equal(found.train, data.train)
