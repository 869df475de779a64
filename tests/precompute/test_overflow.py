"""float16 that are too large are refused, on the CPU and on a device."""

import dgl
import pytest
import torch
from dgl import DGLError

from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.device.executor import run_on_device
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sinks import make_sink
from dgl_lc.testing.simulated_device import SimulatedDevice

MESSAGE = "too large for float16.*bfloat16"


def hub(n=100):
    """All other nodes point to node 3."""
    source = torch.cat([torch.arange(3), torch.arange(4, n)])
    return dgl.graph((source, torch.full((n - 1,), 3)), num_nodes=n)


def on_cpu(request_options, tmp_path, stored):
    options = dict(request_options)
    weight = options.pop("weight", None)
    out = tmp_path / "hops" if stored else None
    return block_aggregate(
        options.pop("g"), options.pop("feat"), options.pop("K"),
        edge_weight=weight, out=out, **options,
    )  # fmt: skip


def on_device(fuses):
    def run(options, tmp_path, stored):
        request = Request.of(**options)
        out = tmp_path / "hops" if stored else None
        device = SimulatedDevice(1 << 28, fuses=fuses)
        return run_on_device(
            request, device, sink=make_sink(request, out, True)
        )

    return run


RUNS = {
    "cpu": on_cpu,
    "device": on_device(False),
    "fused device": on_device(True),
}


@pytest.fixture(params=RUNS)
def run(request):
    return RUNS[request.param]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("nodes", [None, [7, 3]])
def test_a_hub_that_overflows(run, stored, nodes, tmp_path):
    options = {
        "g": hub(), "feat": torch.full((100, 5), 1000.0), "K": 2,
        "norm": "none", "nodes": nodes,
    }  # fmt: skip
    with pytest.raises(DGLError, match=f"hop 1 of node 3 is {MESSAGE}"):
        run({**options, "dtype": torch.float16}, tmp_path / "a", stored)
    for dtype in (torch.bfloat16, torch.float32):
        hops = run({**options, "dtype": dtype}, tmp_path / str(dtype), stored)
        assert all(hop.isfinite().all() for hop in hops)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("K", [0, 1])
def test_features_that_overflow(stored, K, tmp_path):
    x = torch.ones(100, 5)
    x[41, 4] = 70_000
    options = {"g": hub(), "feat": x, "K": K, "dtype": torch.float16}
    with pytest.raises(DGLError, match=f"hop 0 of node 41 is {MESSAGE}"):
        on_cpu(options, tmp_path, stored)


@pytest.mark.parametrize("where", ["features", "weights"])
def test_infinity_that_was_given_travels_on(run, where, tmp_path):
    x, weight = torch.ones(100, 5), torch.ones(99)
    (x[8] if where == "features" else weight[7:8]).fill_(float("inf"))
    options = {
        "g": hub(), "feat": x.half(), "K": 1, "weight": weight,
        "self_loop": False,
    }  # fmt: skip
    hops = run(options, tmp_path, False)
    assert not hops[1][3].isfinite().any()


def test_other_columns_are_still_checked(tmp_path):
    """An infinity in one column block says nothing of the next."""
    x = torch.ones(100, 200)
    x[8, 0] = float("inf")
    x[:, 150] = 1000
    with pytest.raises(DGLError, match=MESSAGE):
        block_aggregate(hub(), x.half(), 1, norm="none")
