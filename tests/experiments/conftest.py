"""A small task and short training runs."""

import pytest

from dgl_lc.data import block_model, save_npz


@pytest.fixture(scope="session")
def small_task(tmp_path_factory):
    """The path of a file with a task of 200 nodes."""
    path = tmp_path_factory.mktemp("data") / "small.npz"
    save_npz(block_model(200, seed=1, num_classes=3, num_feats=6), path)
    return str(path)


@pytest.fixture(scope="session")
def other_task(tmp_path_factory):
    """The path of a file with the same name, and with another task."""
    path = tmp_path_factory.mktemp("other") / "small.npz"
    save_npz(block_model(150, seed=2, num_classes=3, num_feats=6), path)
    return str(path)


@pytest.fixture
def short():
    """Options of a training run that takes little time."""
    return {"epochs": 4, "patience": 4, "batch_size": 64, "hid_feats": 8}
