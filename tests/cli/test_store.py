"""``dgl-lc store``."""

import pytest

from dgl_lc.cli import main
from dgl_lc.data import block_model
from dgl_lc.nn import FSGNN
from dgl_lc.precompute import block_aggregate


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
