"""Runs on simulated devices, with sizes small enough to cut everything."""

import dgl
import numpy as np
import torch

from dgl_lc.precompute.device.executor import run_on_device
from dgl_lc.precompute.planning.device import DeviceSizes
from dgl_lc.precompute.request import Request
from dgl_lc.testing.reference import dense_filter

TOLERANCE = {
    torch.float64: 1e-11,
    torch.float32: 2e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


def small_sizes(piece=256, workspace=512):
    """Pieces, hubs and workspace as small as the graphs of the tests."""
    return DeviceSizes(piece, 512, 8, lambda entries, rows: workspace)


def random_graph(nodes=60, edges=400):
    """The same one for the same seed, which DGL's own is not."""
    ends = torch.randint(0, nodes, (2, edges))
    return dgl.graph((ends[0], ends[1]), num_nodes=nodes)


def compute(
    g,
    x,
    K,
    device,
    memory=None,
    most_entries=None,
    host_memory=None,
    sizes=None,
    **options,
):
    """Hop features on a device, by default with its own sizes."""
    request = Request.of(g, x, K, **options)
    return run_on_device(
        request, device, memory, host_memory, most_entries=most_entries,
        sizes=sizes or getattr(device, "sizes", None),
    )  # fmt: skip


def expected(g, x, K, norm="both", self_loop=True, weight=None, **_):
    """All hops in float64, from the dense filter."""
    s = dense_filter(g, norm=norm, self_loop=self_loop, edge_weight=weight)
    found = [x.double().numpy()]
    for _ in range(K):
        found.append(s @ found[-1])
    return found


def is_close(hops, wanted, nodes=None):
    for hop in hops.hops:
        found = hops[hop].double().numpy()
        right = wanted[hop] if nodes is None else wanted[hop][nodes]
        scale = max(1.0, np.abs(right).max(initial=0))
        if not np.abs(found - right).max(initial=0) <= (
            TOLERANCE[hops[hop].dtype] * scale
        ):
            return False
    return True
