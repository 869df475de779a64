"""``dgl-lc update``."""

import dgl
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import block_model, save_npz
from dgl_lc.precompute import block_aggregate, open_store

from .test_store import save_task


@pytest.fixture
def tasks(tmp_path):
    """Files of two tasks, the new graph and features, and a store."""
    data = block_model(400, 3, 8)
    path = tmp_path / "hops"
    block_aggregate(data.graph, data.feat, 1, norm="right", out=path)
    graph = dgl.add_edges(dgl.add_nodes(data.graph, 2), [3, 400], [400, 9])
    feat = torch.cat([data.feat, torch.ones(2, 8)])
    old = save_task(tmp_path / "old.npz", data)
    new = save_task(tmp_path / "new.npz", data, graph, feat)
    return path, old, new, graph, feat


def test_the_reach_is_shown_and_the_store_replaced(tasks, capsys):
    path, old, new, graph, feat = tasks
    assert main(["update", str(path), "--old-data", old, "--data", new]) == 0
    text = capsys.readouterr().out
    assert "2 new nodes, 2 rows of features and 3 rows of the filter" in text
    assert "0.75% of hop 1" in text
    expected = block_aggregate(graph, feat, 1, norm="right")
    torch.testing.assert_close(open_store(path).stack, expected.stack)


@pytest.mark.filterwarnings("default")
def test_a_full_run_is_said(tasks, tmp_path, capsys):
    path, old, _, graph, feat = tasks
    other = save_task(
        tmp_path / "other.npz", block_model(400, 3, 8), graph, feat + 1
    )
    call = ["update", str(path), "--old-data", old, "--data", other]
    assert main([*call, "--out", str(tmp_path / "out")]) == 0
    assert "note: 100% of the rows change" in capsys.readouterr().out
    expected = block_aggregate(graph, feat + 1, 1, norm="right")
    found = open_store(tmp_path / "out").stack
    torch.testing.assert_close(found, expected.stack)


def test_data_that_the_store_is_not_made_of_is_refused(tasks, refused):
    path, old, new, _, _ = tasks
    call = ["update", str(path), "--old-data", new, "--data", new]
    assert "old_graph is not what" in refused(*call)
    call = ["update", str(path), "--old-data", old, "--data", "synthetic:9"]
    message = refused(*call)
    assert "fewer than the old one" in message
    assert "nodes can be added, not removed" in message


def test_weights_of_a_task_in_memory_are_used(tmp_path):
    """A store made by the shell is extended and updated by the shell."""
    data = block_model(400, 3, 8)
    graph, weight = data.graph, torch.rand(data.graph.num_edges())
    graph.edata["weight"] = weight
    save_npz(data, tmp_path / "old.npz")
    weight = weight.clone()
    weight[7] += 1
    graph.edata["weight"] = weight
    save_npz(data, tmp_path / "new.npz")
    path, old, new = (str(tmp_path / n) for n in ("s", "old.npz", "new.npz"))
    call = ["--data", old, "--hops", "1"]
    assert main(["precompute", *call, "--out", path]) == 0
    assert main(["store", "extend", path, "--data", old, "--hops", "2"]) == 0
    assert main(["update", path, "--old-data", old, "--data", new]) == 0
    expected = block_aggregate(graph, data.feat, 2, edge_weight=weight)
    torch.testing.assert_close(open_store(path).stack, expected.stack)
