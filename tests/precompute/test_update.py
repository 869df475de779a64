"""Updating hop stores: which rows change, and what the new store holds."""

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from dgl.base import DGLWarning
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.data import build_disk_graph, write_features
from dgl_lc.hops import NORMS, FilterSpec
from dgl_lc.precompute import (
    block_aggregate,
    find_reach,
    open_store,
    update_store,
)
from dgl_lc.precompute import update as update_module
from dgl_lc.storage.hop_store import COMPUTED
from dgl_lc.testing.folders import folder_content
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.reference import dense_filter


def sparse_graph(n=60, m=40, seed=0):
    """A graph on which few rows depend on each other."""
    ends = np.random.default_rng(seed).integers(0, n, (2, m))
    return dgl.graph((ends[0], ends[1]), num_nodes=n)


@st.composite
def changed_graphs(draw):
    """Draw a graph and a changed one, both with weights.

    Edges are added, removed and weighted otherwise; among them self-loops and
    multi-edges. New nodes have edges or none. The edges of the new graph are
    in any order.
    """
    n = draw(st.integers(2, 25))
    m = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    more = draw(st.integers(0, 3))
    ends = rng.integers(0, n, (2, m))
    weight = rng.integers(1, 5, m).astype(np.float32)
    for kind in draw(
        st.lists(st.sampled_from(["loops", "multi"]), unique=True)
    ):
        half = m // 3
        if kind == "loops":
            ends[0, :half] = ends[1, :half]
        elif half:
            ends[:, -half:] = ends[:, :half]
    kept = rng.random(m) >= draw(st.sampled_from([0, 0, 0.05, 0.3]))
    count = draw(st.integers(0, 3))
    if draw(st.booleans()):
        added = rng.integers(0, n + more, (2, count))
    else:
        added = np.repeat(rng.integers(0, n + more, (1, count)), 2, axis=0)
    new = np.concatenate([ends[:, kept], added], axis=1)
    new_weight = np.concatenate([weight[kept], np.ones(count, np.float32)])
    if len(new_weight) and draw(st.booleans()):
        new_weight[rng.integers(len(new_weight))] = 9
    order = np.arange(new.shape[1])
    if draw(st.booleans()):
        rng.shuffle(order)
    graphs = [
        dgl.graph((one[0], one[1]), num_nodes=size)
        for one, size in ((ends, n), (new[:, order], n + more))
    ]
    if draw(st.booleans()):
        graphs[1].create_formats_()
    weights = torch.from_numpy(weight), torch.from_numpy(new_weight[order])
    return graphs, weights


def dense_hops(g, x, K, spec, weight):
    """The hop features in float64."""
    filter_ = dense_filter(
        g, norm=spec.norm, self_loop=spec.self_loop, edge_weight=weight
    )
    found = [x.double().numpy()]
    for _ in range(K):
        found.append(filter_ @ found[-1])
    return filter_, found


specs = st.builds(
    FilterSpec, st.sampled_from(NORMS), st.booleans(), st.booleans()
)


@settings(max_examples=cases(40, 1000))
@given(changed_graphs(), specs, st.integers(0, 3), st.integers(0, 99))
def test_the_rows_that_change_are_found_exactly(case, spec, K, seed):
    graphs, weights = case
    if not spec.weighted:
        weights = (None, None)
    n, new = (g.num_nodes() for g in graphs)
    x = make_features(new, 3, seed)
    changed = np.random.default_rng(seed).random(n) < 0.1
    before = x[:n].clone()
    before[torch.from_numpy(changed)] += 1
    found = find_reach(
        *graphs, list(range(K + 1)), spec, old_edge_weight=weights[0],
        edge_weight=weights[1], changed_features=changed,
    )  # fmt: skip
    # A row that differs has to be marked,
    _, hops = dense_hops(graphs[1], x, K, spec, weights[1])
    _, old_hops = dense_hops(graphs[0], before, K, spec, weights[0])
    for one, other in zip(hops, old_hops, strict=True):
        differs = np.abs(one[:n] - other).max(axis=1) > 1e-12
        assert not (differs & ~found.changed[:n]).any()
    assert found.changed[n:].all()
    # and no row that sums over the same numbers with the same factors.
    if not spec.weighted:
        expected = changed_rows(*graphs, changed, K, spec)
        assert list(found.hop_rows) == [int(rows.sum()) for rows in expected]
        assert (found.changed == np.any(expected, axis=0)).all()


def changed_rows(old, new, changed_features, K, spec):
    """The rows of each hop that change, from dense matrices of edges."""
    n = old.num_nodes()
    before, edges = (
        dense_filter(g, norm="none", self_loop=spec.self_loop)
        for g in (old, new)
    )
    own = np.ones(len(edges), bool)
    own[:n] = (before != edges[:n, :n]).any(1) | edges[:n, n:].any(1)
    if spec.norm in ("both", "left"):
        degrees = edges.sum(axis=0)
        degrees[:n] -= before.sum(axis=0)
        degrees[n:] = 0
        own |= (edges[:, degrees != 0] > 0).any(axis=1)
    if spec.norm == "in":
        degrees = np.maximum(edges.sum(axis=1), 1)
        degrees[:n] -= np.maximum(before.sum(axis=1), 1)
        degrees[n:] = 0
        own |= (edges[:, degrees != 0] > 0).any(axis=1)
    marks = np.ones(len(edges), bool)
    marks[:n] = changed_features
    found = [marks]
    for _ in range(K):
        found.append(own | (edges[:, found[-1]] > 0).any(axis=1))
    return found


@settings(max_examples=cases(15, 300))
@given(
    changed_graphs(), specs, st.integers(0, 3), st.integers(0, 99),
    st.sampled_from(["all", "some", "last hop"]),
)  # fmt: skip
def test_an_updated_store_is_that_of_a_full_run(
    tmp_path_factory, case, spec, K, seed, kind
):
    graphs, weights = case
    if not spec.weighted:
        weights = (None, None)
    n, new = (g.num_nodes() for g in graphs)
    path = tmp_path_factory.mktemp("update")
    x = make_features(new, 5, seed)
    before = x[:n].clone()
    before[seed % n] += seed % 2
    options = {"norm": spec.norm, "self_loop": spec.self_loop}
    options["hops"] = [K] if kind == "last hop" else None
    nodes = torch.randperm(n)[: n // 2 + 1] if kind == "some" else None
    block_aggregate(
        graphs[0], before, K, nodes=nodes, edge_weight=weights[0],
        out=path / "old", **options,
    )  # fmt: skip
    added = torch.arange(n, new) if kind == "some" and new > n else None
    update_module.MOST, most = 1.0, update_module.MOST
    try:
        found = update_store(
            path / "old", *graphs, x, old_feat=before, nodes=added,
            old_edge_weight=weights[0], edge_weight=weights[1],
            out=path / "new",
        )  # fmt: skip
    finally:
        update_module.MOST = most
    if nodes is not None and added is not None:
        nodes = torch.cat([nodes, added])
    expected = block_aggregate(
        graphs[1], x, K, nodes=nodes, edge_weight=weights[1],
        out=path / "full", **options,
    )  # fmt: skip
    assert found.head == expected.head
    torch.testing.assert_close(found.stack, expected.stack)
    open_store(path / "new").verify()
    _, dense = dense_hops(graphs[1], x, K, spec, weights[1])
    for hop in found.hops:
        rows = dense[hop] if nodes is None else dense[hop][nodes.numpy()]
        np.testing.assert_allclose(found[hop], rows, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("norm", "expected"), [
    ("both", [0, 1, 2, 3]), ("left", [0, 1, 2, 3]),
    ("right", [3]), ("none", [3]), ("in", [3]),
])  # fmt: skip
def test_a_new_degree_changes_the_rows_of_all_neighbours(norm, expected):
    old = dgl.graph(([0, 0], [1, 2]), num_nodes=5)
    new = dgl.graph(([0, 0, 0], [1, 2, 3]), num_nodes=5)
    found = find_reach(old, new, [1], FilterSpec(norm)).changed
    assert np.flatnonzero(found).tolist() == expected


def test_a_new_in_degree_changes_the_rows_of_out_neighbours():
    old = dgl.graph(([1, 1, 3], [2, 3, 4]), num_nodes=5)
    new = dgl.add_edges(old, [0, 2], [1, 3])
    # Node 1 had no edges into it, which counts as one.
    spec = FilterSpec("in", self_loop=False)
    found = find_reach(old, new, [1], spec).changed
    assert np.flatnonzero(found).tolist() == [1, 3, 4]


def test_a_copied_row_is_the_same_bit_for_bit(tmp_path):
    old, x = sparse_graph(), make_features(60, 40)
    new = dgl.add_edges(old, [3], [7])
    block_aggregate(old, x, 2, out=tmp_path / "s")
    found = update_store(tmp_path / "s", old, new, x, out=tmp_path / "t")
    expected = block_aggregate(new, x, 2, out=tmp_path / "full")
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full")
    assert found.key == expected.key


def test_only_changed_rows_are_computed(tmp_path, monkeypatch):
    old, x = sparse_graph(), make_features(60, 4)
    block_aggregate(old, x, 1, out=tmp_path / "s")
    new = dgl.add_edges(old, [3], [7])
    x = x.clone()
    x[50] += 1
    asked = []
    plain = update_module.write_rows

    def spy(path, old, request, head, found, *rest):
        asked.append(found[1].tolist())
        plain(path, old, request, head, found, *rest)

    monkeypatch.setattr(update_module, "write_rows", spy)
    update_store(tmp_path / "s", old, new, x, out=tmp_path / "t")
    source, target = (ends.tolist() for ends in new.edges())
    pairs = list(zip(source, target, strict=True))
    expected = {3, 7, 50} | {v for u, v in pairs if u in (3, 50)}
    assert asked == [sorted(expected)]
    assert len(expected) < 20


def test_a_store_is_replaced_when_the_new_one_is_finished(tmp_path):
    old, x = sparse_graph(), make_features(60, 4)
    opened = block_aggregate(old, x, 1, out=tmp_path / "s")
    before = opened.stack.clone()
    new = dgl.add_edges(old, [3], [7])
    update_store(opened, old, new, x)
    assert torch.equal(opened.rows(torch.arange(60)).stack, before)
    block_aggregate(new, x, 1, out=tmp_path / "full")
    assert folder_content(tmp_path / "s") == folder_content(tmp_path / "full")
    assert [p.name for p in tmp_path.iterdir() if "s" in p.name] == ["s"]


def test_where_most_rows_change_all_are_computed_and_it_says_so(tmp_path):
    hub = dgl.graph(([0] * 39, list(range(1, 40))), num_nodes=40)
    x = make_features(40, 4)
    block_aggregate(hub, x, 1, out=tmp_path / "s")
    new = dgl.remove_edges(hub, [5])
    with pytest.warns(DGLWarning, match=r"100% of the rows change: all") as w:
        update_store(tmp_path / "s", hub, new, x, out=tmp_path / "t")
    assert w[0].filename == __file__
    assert "100.00% of hop 1" in str(w[0].message)
    block_aggregate(new, x, 1, out=tmp_path / "full")
    assert folder_content(tmp_path / "t") == folder_content(tmp_path / "full")


def test_graph_and_features_on_disk(tmp_path):
    n, x = 60, make_features(63, 40)
    edges = np.random.default_rng(0).integers(0, n, (2, 40))
    more = np.concatenate([edges[:, 2:], [[60, 3], [5, 61]]], axis=1)
    graphs, feats = [], []
    for name, ends, size in (("a", edges, n), ("b", more, 63)):
        np.save(tmp_path / f"{name}.npy", ends)
        np.save(tmp_path / f"{name}x.npy", x[:size].numpy())
        graphs.append(
            build_disk_graph(tmp_path / f"{name}.npy", size, tmp_path / name)
        )
        feats.append(
            write_features(tmp_path / f"{name}x.npy", tmp_path / f"{name}x")
        )
    block_aggregate(graphs[0], feats[0], 2, hops=[2], out=tmp_path / "s")
    with pytest.raises(DGLError, match="Give old_feat"):
        update_store(tmp_path / "s", *graphs, feats[1], out=tmp_path / "t")
    found = update_store(
        tmp_path / "s", *graphs, feats[1], old_feat=feats[0],
        out=tmp_path / "t",
    )  # fmt: skip
    expected = block_aggregate(
        graphs[1], feats[1], 2, hops=[2], out=tmp_path / "full"
    )
    assert found.head == expected.head
    torch.testing.assert_close(found.stack, expected.stack)


@pytest.mark.parametrize(("change", "text"), [
    ({"old_graph": "other"}, "old_graph is not what"),
    ({"old_feat": "other"}, "old_feat is not what"),
    ({"old_feat": torch.ones(59, 4)}, "old_feat: feat has 59 rows"),
    ({"feat": torch.ones(60, 3)}, "feat has 3 columns"),
    ({"g": "smaller"}, "nodes can be added, not removed"),
    ({"edge_weight": torch.ones(41)}, "omit edge_weight"),
    ({"old_edge_weight": torch.ones(40)}, "omit old_edge_weight"),
])  # fmt: skip
def test_what_does_not_fit_is_an_error(tmp_path, change, text):
    old, x = sparse_graph(), make_features(60, 4)
    block_aggregate(old, x, 1, out=tmp_path / "s")
    call = {"old_graph": old, "g": dgl.add_edges(old, [3], [7]), "feat": x}
    call |= change
    if call["old_graph"] == "other":
        call["old_graph"] = sparse_graph(seed=5)
    if call["g"] == "smaller":
        call["g"] = dgl.graph(([0], [1]), num_nodes=59)
    if isinstance(call.get("old_feat"), str):
        call["old_feat"] = x + 1
    with pytest.raises(DGLError, match=text):
        update_store(tmp_path / "s", **call, out=tmp_path / "t")
    assert not (tmp_path / "t" / COMPUTED).exists()


def test_damaged_rows_are_not_copied(tmp_path):
    old, x = sparse_graph(), make_features(60, 4)
    block_aggregate(old, x, 1, hops=[1], out=tmp_path / "s")
    file = tmp_path / "s/rows.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    new = dgl.add_edges(old, [3], [7])
    with pytest.raises(DGLError, match="row of node 59 is not"):
        update_store(tmp_path / "s", old, new, x, out=tmp_path / "t")
    with pytest.raises(DGLError, match="was not finished"):
        open_store(tmp_path / "t")
