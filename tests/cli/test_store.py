"""``dgl-lc store``."""

import numpy as np
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import block_model
from dgl_lc.nn import FSGNN
from dgl_lc.precompute import block_aggregate, open_store


@pytest.fixture
def store(tmp_path):
    """The folder of a hop store with 300 rows."""
    data = block_model(400, 3, 8)
    nodes = data.train[:300].sort().values
    path = tmp_path / "hops"
    block_aggregate(data.graph, data.feat, 2, nodes=nodes, out=path)
    assert len(nodes) < 400
    return path, len(nodes)


def test_info_shows_what_the_store_holds(store, capsys):
    path, rows = store
    assert main(["store", "info", str(path)]) == 0
    text = capsys.readouterr().out
    assert f"rows     {rows} of some nodes" in text
    assert "hops     0, 1, 2" in text
    assert "norm=both, self_loop=True" in text


def test_verify_finds_a_changed_byte(store, refused, capsys):
    path, rows = store
    assert main(["store", "verify", str(path)]) == 0
    assert f"all {rows} rows match" in capsys.readouterr().out
    with open(path / "rows.npy", "r+b") as file:
        file.seek(200)
        byte = file.read(1)[0]
        file.seek(200)
        file.write(bytes([byte ^ 1]))
    assert "differ" in refused("store", "verify", str(path))


@pytest.mark.parametrize("command", ["info", "verify"])
@pytest.mark.parametrize("name", ["rows.npy", "checksums.npy", "nodes.npy"])
def test_a_truncated_or_missing_file_is_named(store, refused, command, name):
    path, _ = store
    kept = (path / name).read_bytes()
    for length in (0, 128, len(kept) - 1):
        (path / name).write_bytes(kept[:length])
        message = refused("store", command, str(path))
        assert f"{name} has {length} bytes" in message
    (path / name).unlink()
    assert f"{name} cannot be opened" in refused("store", command, str(path))


def test_all_parts_of_a_store_of_inputs_are_shown(tmp_path, refused, capsys):
    data = block_model(400, 3, 8)
    path = tmp_path / "inputs"
    FSGNN(8, 4, 3, K=1).precompute(data.graph, data.feat, out=path)
    assert main(["store", "info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "inputs   3, in 2 hop stores" in text
    assert "2        hop 1 (norm='both', self_loop=False)" in text
    assert "with-loops\nrows     400\nhops     0, 1\n" in text
    assert "without-loops\nrows     400\nhops     1\n" in text
    assert main(["store", "verify", str(path)]) == 0
    assert "all 400 rows of all 2 parts match" in capsys.readouterr().out
    with open(path / "without-loops/rows.npy", "r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 9)
    assert "differ" in refused("store", "verify", str(path))
    (path / "without-loops/rows.npy").write_bytes(b"")
    assert "rows.npy has 0 bytes" in refused("store", "info", str(path))


def test_a_folder_without_a_store_is_named(tmp_path, refused):
    message = refused("store", "info", str(tmp_path))
    assert str(tmp_path) in message
    assert "is not the folder of a hop store" in message


def save_task(path, data, graph=None, feat=None):
    graph = data.graph if graph is None else graph
    feat = data.feat if feat is None else feat
    n = graph.num_nodes()
    labels = torch.zeros(n, dtype=torch.int64)
    labels[: len(data.labels)] = data.labels
    np.savez(
        path, edges=torch.stack(graph.edges()).numpy(), feat=feat.numpy(),
        labels=labels.numpy(), train=data.train.numpy(),
        valid=data.valid.numpy(), test=data.test.numpy(),
    )  # fmt: skip
    return str(path)


@pytest.fixture
def task(tmp_path):
    """A task in an npz file, its graph and features, and a store of these."""
    data = block_model(400, 3, 8)
    path = tmp_path / "hops"
    block_aggregate(data.graph, data.feat, 1, nodes=[5, 7], out=path)
    return save_task(tmp_path / "task.npz", data), data, path


@pytest.mark.filterwarnings("default")
def test_extend_adds_nodes_and_hops(task, tmp_path, capsys):
    source, data, path = task
    np.save(tmp_path / "ids.npy", np.array([9, 7]))
    command = ["store", "extend", str(path), "--data", source]
    ids = ["--nodes", str(tmp_path / "ids.npy"), "--out", str(tmp_path / "t")]
    assert main([*command, *ids]) == 0
    assert open_store(tmp_path / "t").nodes.tolist() == [5, 7, 9]
    assert main([*command, "--hops", "2"]) == 0
    assert "all hops are computed again" in capsys.readouterr().out
    assert main([*command, "--all", "--memory", "64MiB"]) == 0
    found = open_store(path)
    assert (found.hops, found.nodes) == ([0, 1, 2], None)
    expected = block_aggregate(data.graph, data.feat, 2)
    torch.testing.assert_close(found.stack, expected.stack)


def test_extend_refuses_what_does_not_fit(task, tmp_path, refused):
    source, data, path = task
    command = ["store", "extend", str(path), "--data"]
    assert "give --hops, --nodes or --all" in refused(*command, source)
    other = save_task(tmp_path / "other.npz", data, feat=data.feat + 1)
    assert "feat is not what" in refused(*command, other, "--hops", "2")
    np.save(tmp_path / "ids.npy", np.array([1.5]))
    nodes = ["--nodes", str(tmp_path / "ids.npy")]
    assert "should hold integers" in refused(*command, source, *nodes)
    FSGNN(8, 4, 3, K=1).precompute(
        data.graph, data.feat, out=tmp_path / "inputs"
    )
    message = refused(
        "store", "extend", str(tmp_path / "inputs"), "--data", "no", "--all"
    )
    assert "store of several filters, which can't be" in message
