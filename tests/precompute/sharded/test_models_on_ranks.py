"""Models that precompute on several ranks."""

import dgl
import torch
from dgl.nn import GraphConv
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.nn import FSGNN, LCGCN, LCH2GCN
from dgl_lc.precompute import open_store
from dgl_lc.testing.run_ranks import run_ranks


def make():
    torch.manual_seed(0)
    ends = torch.randint(50, (2, 300))
    return dgl.graph((ends[0], ends[1]), num_nodes=50), torch.randn(50, 12)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(12, 4, allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.conv(g, torch.relu(self.conv(g, x) @ torch.ones(4, 12)))


def _all(folder):
    g, x = make()
    torch.manual_seed(1)
    rows = {
        "fsgnn": FSGNN(12, 8, 3, K=2).precompute(g, x),
        "gcn": LCGCN(12, 8, 3, num_layers=2).precompute(g, x),
    }
    whole = {
        "fsgnn": FSGNN(12, 8, 3, K=2).precompute(g, x, out=f"{folder}/f"),
        "h2gcn": LCH2GCN(12, 8, 3).precompute(g, x, out=f"{folder}/h"),
        "h2gcn in memory": LCH2GCN(12, 8, 3).precompute(g, x),
        "lc": lc_transform(Net(), g, x).precompute(g, x, out=f"{folder}/lc"),
        "lc in memory": lc_transform(Net(), g, x).precompute(g, x),
    }
    # A forward pass on a graph is of one rank alone.
    torch.manual_seed(2)
    model = LCGCN(12, 8, 3, num_layers=2).eval()
    logits = None
    if not torch.distributed.is_initialized() or (
        torch.distributed.get_rank() == 0
    ):
        logits = model(g, x)
    return (
        {n: (r.nodes, list(r), r.shard) for n, r in rows.items()},
        {n: list(r) for n, r in whole.items()},
        logits,
    )


def test_models_on_two_ranks(tmp_path):
    alone, everything, logits = _all(tmp_path / "one")
    found = run_ranks(2, _all, tmp_path / "two")
    for rank, (rows, whole, _) in enumerate(found):
        for name, (nodes, tensors, shard) in rows.items():
            assert nodes.tolist() == list(range(rank, 50, 2))
            assert shard == (rank, 2)
            for one, two in zip(alone[name][1], tensors, strict=True):
                torch.testing.assert_close(two, one[rank::2])
        for name, tensors in whole.items():
            for one, two in zip(everything[name], tensors, strict=True):
                torch.testing.assert_close(two, one)
    torch.testing.assert_close(found[0][2], logits)
    assert open_store(tmp_path / "two" / "f").key == (
        open_store(tmp_path / "one" / "f").key
    )
