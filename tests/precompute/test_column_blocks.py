"""The progress bar of a precomputation."""

import dgl
import pytest
import torch

from dgl_lc.precompute import api, block_aggregate
from dgl_lc.precompute.device.executor import DeviceExecutor
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sinks import MemorySink
from dgl_lc.testing.cpu_device import CpuDevice


def graph_with_a_hub():
    """A graph with a row of several chunks, loops, and double edges."""
    hub = torch.arange(40_000) % 199 + 1
    source = torch.cat([torch.arange(200), torch.tensor([3, 3, 5]), hub])
    target = torch.cat(
        [torch.arange(200).roll(1), torch.tensor([3, 3, 5]), hub * 0]
    )
    return dgl.graph((source, target), num_nodes=200)


class Bar:
    """Takes the place of the progress bar."""

    def __init__(self, total, progress):
        self.total, self.done = total, 0
        Bar.last = self

    def update(self, count):
        self.done += count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("nodes", [None, [0, 3, 7]], ids=["all", "some"])
@pytest.mark.parametrize("self_loop", [True, False])
def test_the_bar_ends_at_its_total(self_loop, nodes, monkeypatch):
    monkeypatch.setattr(api, "progress_bar", Bar)
    block_aggregate(
        graph_with_a_hub(), torch.ones(200, 40), K=2, self_loop=self_loop,
        nodes=nodes,
    )  # fmt: skip
    assert Bar.last.total == Bar.last.done > 0


@pytest.mark.parametrize("self_loop", [True, False])
def test_the_bar_of_a_device_ends_at_its_total(self_loop):
    request = Request.of(
        graph_with_a_hub(), torch.ones(200, 40), 2, self_loop=self_loop
    )
    executor = DeviceExecutor(request, CpuDevice())
    bar = Bar(executor.total, None)
    with MemorySink(request) as sink:
        executor.run(sink, bar.update)
    assert bar.done == bar.total
