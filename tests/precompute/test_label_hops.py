"""Label features: exact, and no node sees its own label."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import cases

from dgl_lc.data import build_disk_graph
from dgl_lc.hops import NORMS
from dgl_lc.label_recipe import LabelRecipe
from dgl_lc.precompute import block_aggregate, label_features, open_store
from dgl_lc.precompute import label_request as label_module
from dgl_lc.precompute.label_columns import (
    WRITE_BYTES,
    LabelColumns,
    split_parts,
)
from dgl_lc.precompute.planning.cpu import make_plan
from dgl_lc.precompute.planning.work import Work
from dgl_lc.storage.hop_store import PARTS
from dgl_lc.storage.merge_hops import merge_bytes
from dgl_lc.testing.folders import folder_content
from dgl_lc.testing.peak_memory import LIVE
from dgl_lc.testing.random_graphs import graphs
from dgl_lc.testing.reference import dense_filter


def dense_labels(g, labels, train, K, parts, classes, seed, scale, filter):
    """Label features by their definition, in dense float64."""
    n = g.num_nodes()
    ids = torch.as_tensor(train).unique()
    part = split_parts(len(ids), parts, seed)
    S = dense_filter(g, **filter)
    one_hot = np.zeros((n, classes))
    if labels.dim() == 1:
        one_hot[ids, labels[ids]] = 1
    else:
        one_hot[ids] = labels[ids].double()
    found = []
    for k in range(1, K + 1):
        power = np.linalg.matrix_power(S, k)
        rows = power @ one_hot
        for p in range(parts):
            own = ids[part == p]
            others = one_hot.copy()
            others[own] = 0
            factor = (len(ids) - 1) / (len(ids) - len(own)) if scale else 1.0
            rows[own] = factor * (power @ others)[own]
        found.append(rows)
    return found


@st.composite
def tasks(draw):
    g = draw(graphs(max_nodes=25, max_edges=80))
    if g.num_nodes() < 2:
        g = dgl.graph(([0, 1, 1], [1, 0, 1]))
    if draw(st.booleans()):
        u, v = g.edges(order="srcdst")
        g = dgl.graph((torch.cat([u, v]), torch.cat([v, u])),
                      num_nodes=g.num_nodes())  # fmt: skip
    n = g.num_nodes()
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    classes = draw(st.integers(2, 20))
    labels = torch.from_numpy(rng.integers(0, classes, n))
    count = draw(st.integers(2, n))
    train = torch.from_numpy(rng.permutation(n)[:count])
    outside = torch.ones(n, dtype=torch.bool)
    outside[train] = False
    labels[outside] = -1
    options = {
        "K": draw(st.integers(1, 4)),
        "parts": draw(st.integers(2, min(count, 6))),
        "num_classes": classes,
        "scale": draw(st.booleans()),
        "seed": draw(st.integers(0, 5)),
        "norm": draw(st.sampled_from(NORMS)),
        "self_loop": draw(st.booleans()),
    }
    return g, labels, train, options


def sees_own_label(g, labels, train, options):
    """Whether any training node's row changes with its own label."""
    K = options["K"]
    before = label_features(g, labels, train, **options)
    for node in train[:3].tolist():
        other = labels.clone()
        other[node] = (labels[node] + 1) % options["num_classes"]
        after = label_features(g, other, train, **options)
        for hop in range(1, K + 1):
            if not torch.equal(before[hop][node], after[hop][node]):
                return True
    return False


@settings(max_examples=cases(12, 300))
@given(tasks())
def test_a_node_never_sees_its_own_label(task):
    assert not sees_own_label(*task)


@settings(max_examples=cases(12, 300))
@given(tasks())
def test_rows_are_those_of_the_definition(task):
    g, labels, train, options = task
    found = label_features(g, labels, train, dtype=torch.float64, **options)
    filter = {key: options[key] for key in ("norm", "self_loop")}
    expected = dense_labels(
        g, labels, train, options["K"], options["parts"],
        options["num_classes"], options["seed"], options["scale"], filter,
    )  # fmt: skip
    assert found.hops == list(range(1, options["K"] + 1))
    for hop, rows in enumerate(expected, start=1):
        np.testing.assert_allclose(found[hop].numpy(), rows, atol=1e-10)


def cycle(n=12):
    u = torch.arange(n)
    v = (u + 1) % n
    return dgl.graph((torch.cat([u, v]), torch.cat([v, u])))


CYCLE = {"K": 2, "parts": 3, "num_classes": 4}


@pytest.mark.parametrize("self_loop", [True, False])
def test_the_test_finds_a_leak(monkeypatch, self_loop):
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(12)
    options = {**CYCLE, "self_loop": self_loop}
    assert not sees_own_label(g, labels, train, options)
    # Over the edge to a neighbour and back.
    leave_out = LabelColumns.leave_out
    monkeypatch.setattr(LabelColumns, "leave_out", lambda self, p, v: self)
    assert sees_own_label(g, labels, train, options)
    # Leaving out the labels of another part is not enough.
    monkeypatch.setattr(
        LabelColumns, "leave_out",
        lambda self, part, value: leave_out(self, (part + 1) % 3, value),
    )  # fmt: skip
    assert sees_own_label(g, labels, train, options)


def test_changing_a_label_does_not_change_the_split():
    # A stratified split would be one that depends on the labels.
    g, train = cycle(), torch.arange(8)
    zeros = torch.zeros(12, dtype=torch.int64)
    one = zeros.clone()
    one[3] = 1
    options = {"K": 1, "parts": 2, "num_classes": 2, "self_loop": False}
    before = label_features(g, zeros, train, **options)[1]
    after = label_features(g, one, train, **options)[1]
    changed = (before != after).any(dim=1).nonzero().squeeze(1).tolist()
    assert set(changed) <= {2, 4}


def test_rows_are_those_of_the_nodes_in_their_order():
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(0, 12, 2)
    whole = label_features(g, labels, train, **CYCLE)
    nodes = torch.tensor([7, 0, 4, 4, 11])
    found = label_features(g, labels, train, nodes=nodes, **CYCLE)
    assert torch.equal(found.nodes, nodes)
    for hop in (1, 2):
        torch.testing.assert_close(found[hop], whole[hop][nodes])
    mask = torch.zeros(12, dtype=torch.bool)
    mask[nodes] = True
    again = label_features(g, labels, train, nodes=mask, **CYCLE)
    assert again.nodes.tolist() == [0, 4, 7, 11]


def test_a_mask_of_training_nodes_is_the_same_as_their_ids():
    g, labels = cycle(), torch.arange(12) % 4
    mask = torch.arange(12) % 2 == 0
    one = label_features(g, labels, mask, **CYCLE)
    other = label_features(g, labels, mask.nonzero().squeeze(1), **CYCLE)
    assert torch.equal(one.stack, other.stack)


def test_several_labels_per_node_are_rows_of_a_matrix():
    g = cycle()
    labels = torch.rand(12, 4, generator=torch.Generator().manual_seed(0)) > 0.5
    train = torch.arange(9)
    found = label_features(g, labels, train, K=2, parts=3, dtype=torch.float64)
    expected = dense_labels(g, labels, train, 2, 3, 4, 0, True, {})
    for hop in (1, 2):
        np.testing.assert_allclose(found[hop].numpy(), expected[hop - 1])
    # A matrix of one-hot rows is the same as classes.
    classes = torch.arange(12) % 4
    one_hot = torch.nn.functional.one_hot(classes).float()
    same = label_features(g, one_hot, train, **CYCLE)
    assert torch.equal(
        same.stack, label_features(g, classes, train, **CYCLE).stack
    )


def test_weights_of_edges_multiply_labels():
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(12)
    weight = torch.rand(24, generator=torch.Generator().manual_seed(0))
    found = label_features(
        g, labels, train, edge_weight=weight, dtype=torch.float64, **CYCLE
    )
    assert found.filter.weighted
    expected = dense_labels(
        g, labels, train, 2, 3, 4, 0, True, {"edge_weight": weight}
    )
    np.testing.assert_allclose(found[2].numpy(), expected[1])


def soft_labels(nodes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(nodes), 4, generator=generator).softmax(dim=1)


def test_a_node_does_not_see_its_own_soft_label():
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(6)
    nodes = torch.tensor([9, 7, 10, 8])
    rows = soft_labels(nodes)
    before = label_features(g, labels, train, soft=(nodes, rows), **CYCLE)
    for place, node in enumerate(nodes.tolist()):
        other = rows.clone()
        other[place] = torch.tensor([1.0, 0.0, 0.0, 0.0])
        after = label_features(g, labels, train, soft=(nodes, other), **CYCLE)
        for hop in (1, 2):
            assert torch.equal(before[hop][node], after[hop][node])
        assert not torch.equal(before.stack, after.stack)


def test_soft_labels_do_not_change_the_split_of_the_training_nodes():
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(6)
    nodes = torch.tensor([8, 9, 10])
    zeros = torch.zeros(3, 4)
    options = {**CYCLE, "scale": False}
    plain = label_features(g, labels, train, **options)
    found = label_features(g, labels, train, soft=(nodes, zeros), **options)
    assert torch.equal(found[1], plain[1])


def test_soft_labels_reach_nodes_without_a_label_as_they_are():
    g, labels, train = cycle(), torch.arange(12) % 4, torch.arange(6)
    nodes = torch.tensor([10, 8])
    rows = soft_labels(nodes)
    found = label_features(
        g, labels, train, K=1, parts=2, num_classes=4, soft=(nodes, rows),
        norm="none", self_loop=False,
    )  # fmt: skip
    torch.testing.assert_close(found[1][9], rows.sum(dim=0))


def test_rows_of_training_nodes_have_the_scale_of_the_others():
    # A clique: without labels of its own part a node would see fewer.
    n = 40
    u, v = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    g = dgl.graph((u.flatten(), v.flatten()))
    labels = torch.zeros(n, dtype=torch.int64)
    train = torch.arange(20)
    options = {"K": 1, "parts": 4, "norm": "none", "self_loop": False}
    found = label_features(g, labels, train, **options)[1].squeeze(1)
    torch.testing.assert_close(found[20:], torch.full((20,), 20.0))
    torch.testing.assert_close(found[:20], torch.full((20,), 19.0))
    plain = label_features(g, labels, train, scale=False, **options)[1]
    assert plain[:20].eq(15).all()


def on_disk(g, folder):
    np.save(folder / "edges.npy", torch.stack(g.edges()).numpy())
    return build_disk_graph(
        folder / "edges.npy", g.num_nodes(), folder / "graph"
    )


def random_task(n=300, m=1500, classes=9):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(n, (2, m), generator=generator)
    g = dgl.graph((ends[0], ends[1]), num_nodes=n)
    labels = torch.randint(classes, (n,), generator=generator)
    train = torch.randperm(n, generator=generator)[:100]
    return g, labels, train


@pytest.mark.parametrize("some", [True, False])
def test_a_store_has_the_same_rows(tmp_path, some):
    g, labels, train = random_task()
    nodes = torch.randperm(300)[:170] if some else None
    expected = label_features(g, labels, train, 3, nodes=nodes)
    for graph, name in ((g, "one"), (on_disk(g, tmp_path), "two")):
        found = label_features(
            graph, labels, train, 3, nodes=nodes, out=tmp_path / name
        )
        assert found.hops == [1, 2, 3]
        torch.testing.assert_close(found.stack, expected.stack)
        assert not (tmp_path / name / PARTS).exists()
        again = open_store(tmp_path / name)
        again.verify()
        assert again.label_recipe == expected.label_recipe
    assert expected.label_recipe == LabelRecipe(
        3, 9, 5, 0, True, "both", True, False, False,
        label_module.recipe_key(labels, train),
    )  # fmt: skip


def test_a_finished_store_is_opened_again(tmp_path, monkeypatch):
    g, labels, train = random_task()
    found = label_features(g, labels, train, 2, out=tmp_path / "s")
    key, content = found.key, folder_content(tmp_path / "s")

    def refuse(*args, **options):
        raise AssertionError("computed again")

    monkeypatch.setattr(label_module, "block_aggregate", refuse)
    again = label_features(g, labels, train, 2, out=tmp_path / "s")
    assert again.key == key
    assert folder_content(tmp_path / "s") == content
    with pytest.raises(AssertionError, match="computed again"):
        label_features(g, labels, train, 2, out=tmp_path / "s", resume=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The store of the random task; node 5 is not one of its own."""
    folder = tmp_path_factory.mktemp("whole") / "s"
    g, labels, train = random_task()
    label_features(g, labels, train[train != 5], 2, out=folder)
    return folder


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parts": 4}, "parts=5, asked for is 4"),
        ({"seed": 1}, "seed=0, asked for is 1"),
        ({"scale": False}, "scale=True, asked for is False"),
        ({"K": 3}, "hops"),
        ({"num_classes": 10}, "num_classes=9, asked for is 10"),
        ({"nodes": [1, 2]}, "nodes"),
        ({"norm": "right"}, "norm='both', asked for is 'right'"),
        ({"dtype": torch.float16}, "dtype='float32'"),
        ({"soft": (torch.tensor([5]), torch.ones(1, 9) / 9)}, "labels="),
    ],
)
def test_a_store_of_something_else_is_an_error(tmp_path, whole, change, named):
    g, labels, train = random_task()
    train = train[train != 5]
    shutil.copytree(whole, tmp_path / "s")
    options = {"K": 2, **change}
    with pytest.raises(DGLError, match=named):
        label_features(g, labels, train, out=tmp_path / "s", **options)


def test_another_label_or_graph_is_an_error(tmp_path):
    g, labels, train = random_task()
    label_features(g, labels, train, 2, out=tmp_path / "s")
    other = labels.clone()
    other[train[0]] = (other[train[0]] + 1) % 9
    for graph, own, some in (
        (g, other, train),
        (g, labels, train[1:]),
        (dgl.add_edges(g, [0], [1]), labels, train),
    ):
        with pytest.raises(DGLError, match="holds something else"):
            label_features(graph, own, some, 2, out=tmp_path / "s")
    # A label that is not read may be another.
    outside = labels.clone()
    unused = (~torch.isin(torch.arange(300), train)).nonzero()[0]
    outside[unused] = -1
    label_features(g, outside, train, 2, num_classes=9, out=tmp_path / "s")


@pytest.mark.parametrize("stop", [0, 1, 3, 5, "merge"])
def test_a_run_that_was_stopped_resumes(tmp_path, monkeypatch, whole, stop):
    g, labels, train = random_task()
    train = train[train != 5]
    plain, done = label_module.block_aggregate, []

    def counted(g, feat, K, **options):
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(options["out"].name)
        return plain(g, feat, K, **options)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(label_module, "block_aggregate", counted)
    if stop == "merge":
        monkeypatch.setattr(label_module, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        label_features(g, labels, train, 2, out=tmp_path / "s")
    with pytest.raises(DGLError):
        open_store(tmp_path / "s")
    monkeypatch.undo()
    label_features(g, labels, train, 2, out=tmp_path / "s")
    assert not (tmp_path / "s" / PARTS).exists()
    assert folder_content(tmp_path / "s") == folder_content(whole)


def test_parts_of_other_labels_are_not_used(tmp_path, monkeypatch):
    g, labels, train = random_task()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(label_module, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        label_features(g, labels, train, 2, out=tmp_path / "s")
    monkeypatch.undo()
    other = (labels + 1) % 9
    with pytest.raises(DGLError, match="holds something else"):
        label_features(g, other, train, 2, out=tmp_path / "s")
    found = label_features(g, other, train, 2, out=tmp_path / "s", resume=False)
    expected = label_features(g, other, train, 2)
    torch.testing.assert_close(found.stack, expected.stack)


def test_a_store_of_features_is_not_taken_for_one_of_labels(tmp_path):
    g, labels, train = random_task()
    block_aggregate(g, torch.ones(300, 9), 2, hops=[1, 2], out=tmp_path / "s")
    with pytest.raises(DGLError, match="holds something else"):
        label_features(g, labels, train, 2, out=tmp_path / "s")
    assert open_store(tmp_path / "s").label_recipe is None


def test_too_little_memory_says_what_is_enough():
    g, labels, train = random_task()
    with pytest.raises(DGLError, match="too small") as caught:
        label_features(g, labels, train, 2, memory=1_200_000 + (2 << 20))
    enough = str(caught.value).split("memory='")[1].split("'")[0]
    found = label_features(g, labels, train, 2, memory=enough)
    assert torch.equal(found.stack, label_features(g, labels, train, 2).stack)
    with pytest.raises(DGLError, match="too small"):
        label_features(g, labels, train, 2, memory="1kB")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"K": 0}, "K=0 should be at least 1"),
        ({"parts": 1}, "parts=1 should be at least 2"),
        ({"parts": 9}, "parts=9 is more than the 8 nodes of train"),
        ({"parts": 2.0}, "parts should be an integer"),
        ({"seed": -1}, "seed=-1"),
        ({"num_classes": 3}, "num_classes=3"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"train": []}, "train is empty"),
        ({"train": [12]}, "train holds 12"),
        ({"labels": torch.zeros(11, dtype=torch.int64)}, "labels has 11"),
        ({"labels": torch.zeros(12)}, "labels should hold an integer"),
        ({"labels": torch.full((12,), -1)}, "labels holds -1 for node 0"),
        ({"labels": torch.full((12, 2), torch.nan)}, "labels holds a number"),
        ({"labels": torch.zeros(12, 2), "num_classes": 3}, "num_classes=3"),
        ({"labels": torch.arange(12)[:, None]}, r"give labels\[:, 0\]"),
        ({"labels": torch.ones(12, 1, dtype=int), "num_classes": 4},
         r"give labels\[:, 0\]"),
        ({"labels": torch.eye(12).long() * torch.arange(12)[:, None] - 1},
         "labels holds -1 for node 0 of train, and a matrix"),
        ({"nodes": [12]}, "nodes holds 12"),
        ({"dtype": torch.int64}, "dtype"),
        ({"soft": [1]}, "soft should be a pair"),
        ({"soft": (torch.tensor([0]), torch.ones(1, 4))}, "node 0, which"),
        ({"soft": (torch.tensor([9]), torch.ones(1, 3))}, r"soft\[1\] has"),
        ({"soft": (torch.tensor([12]), torch.ones(1, 4))}, "holds 12"),
        ({"soft": (torch.tensor([9, 9]), torch.ones(2, 4))}, "twice"),
        ({"soft": (torch.tensor([9]), torch.full((1, 4), torch.inf))},
         "not finite"),
        ({"colour": "red"}, "no option 'colour'"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(change, named):
    options = {
        "labels": torch.arange(12) % 4, "train": torch.arange(8), "K": 2,
        "parts": 3, **change,
    }  # fmt: skip
    with pytest.raises(DGLError, match=named):
        label_features(cycle(), **options)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_a_promise(tmp_path):
    script = Path(__file__).with_name("label_memory_case.py")
    budgets = [24 << 20, 19 << 20]  # in memory, on disk
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *map(str, budgets)],
        capture_output=True, text=True, env={**os.environ, **LIVE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for peak, budget in zip(done.stdout.split(), budgets, strict=True):
        assert int(peak) <= budget


def test_the_labels_of_papers100m_fit_in_16_gib():
    # As label_features asks for it: 172 classes, hops at all rows, the rows
    # of a part of the labelled nodes, edges in both directions, on disk.
    n, m, labelled = 111_059_956, 2 * 1_615_685_872, 1_546_782
    work = Work(
        num_nodes=n, num_edges=m, num_feats=172, kind="float32",
        hop_rows=(n - 1,) * 3, hop_entries=(m,) * 3, kept_rows=labelled,
        kept_hops=(1, 2, 3), all_rows=False, shares_features=False,
        input_size=4, num_diagonals=2, weighted=False, copies_weight=False,
        copies_nodes=False, owned=False, expands=False, index_size=8,
        threads=8, stored=True, mapped=True, self_loop=True,
        input_rows=n - 1,
    )  # fmt: skip
    beside = 8 * n + 16 * labelled + 16 * 1_207_179 + merge_bytes(labelled)
    found = make_plan(work, (16 << 30) - beside - WRITE_BYTES)
    assert found.peak_bytes <= (16 << 30) - beside - WRITE_BYTES
    assert found.num_column_blocks <= 43
