"""Categories that stay a lookup are stored as integers."""

import dgl
import pytest
import torch
from dgl import nn as dglnn
from torch import nn
from transform.on_disk.disk_cases import HID, IN, NUM_NODES, OUT, OnDisk

from dgl_lc import lc_transform
from dgl_lc.precompute import open_store
from dgl_lc.training import fit, predict

NODES = [4, 1, 90, 4]


class Beside(nn.Module):
    """A convolution of features, beside an embedding of categories."""

    def __init__(self):
        super().__init__()
        self.conv = dglnn.GraphConv(IN, HID, allow_zero_in_degree=True)
        self.table = nn.Embedding(20, HID)
        self.out = nn.Linear(HID, OUT)

    def forward(self, g, x, kind):
        return self.out(self.conv(g, x).relu() + self.table(kind))


@pytest.fixture
def task(tmp_path):
    return OnDisk(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_integers_are_stored_as_they_are(task, tmp_path, dtype):
    kind = (torch.arange(NUM_NODES) * 7 % 20).to(dtype)
    model = Beside().eval()
    lc = lc_transform(model, task.g, task.x, kind)
    assert [*map(str, lc.inputs)] == ["S x", "kind"]
    for options in ({}, {"nodes": NODES, "dtype": torch.float16}):
        out = tmp_path / f"out-{len(options)}"
        found = lc.precompute(task.g, task.x, kind, out=out, **options)
        chosen = torch.tensor(options.get("nodes", range(NUM_NODES)))
        assert torch.equal(found[1], kind[chosen])
        assert found[1].dtype == dtype
        assert found[0].dtype == options.get("dtype", torch.float32)
        again = open_store(out)
        again.verify()
        batch = again.rows(torch.tensor([90, 4]))
        assert torch.equal(batch[1], kind[[90, 4]])


def test_categories_beside_a_graph_on_disk(task, tmp_path):
    kind = torch.arange(NUM_NODES) % 20
    model = Beside().eval()
    lc = lc_transform(model, task.sample, task.sample_x, kind[:50])
    found = lc.precompute(task.graph, task.features, kind, out=tmp_path / "out")
    torch.testing.assert_close(
        lc.module(*found), model(task.g, task.x, kind), rtol=1e-4, atol=1e-4
    )
    labels, nodes = kind % OUT, torch.arange(NUM_NODES)
    fit(lc.module, found, labels, nodes[:60], nodes[60:], epochs=1)
    assert predict(lc.module, found, nodes[:9]).shape == (9, OUT)


def test_a_damaged_integer_is_noticed(task, tmp_path):
    kind = torch.arange(NUM_NODES) % 20
    lc = lc_transform(Beside(), task.g, task.x, kind)
    lc.precompute(task.g, task.x, kind, out=tmp_path / "out")
    path = tmp_path / "out" / "input-1" / "rows.npy"
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    with pytest.raises(dgl.DGLError, match="checksum"):
        open_store(tmp_path / "out").rows(torch.tensor([NUM_NODES - 1]))
