"""Out of memory at any moment, and devices that lie about it."""

import gc
import weakref

import pytest
import torch
from dgl import DGLError

from device.common import (
    compute,
    expected,
    is_close,
    random_graph,
    small_sizes,
)
from dgl_lc.precompute import open_store
from dgl_lc.precompute.device import executor as on_device
from dgl_lc.precompute.device.executor import run_on_device
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sinks import make_sink
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.simulated_device import SimulatedDevice

TOTAL = 60_000


def small_device(*args, **options):
    return SimulatedDevice(*args, sizes=small_sizes(), **options)


def problem():
    torch.manual_seed(0)
    return random_graph(), make_features(60, 40)


def test_at_every_allocation():
    g, x = problem()
    wanted = expected(g, x, 3)
    calm = small_device(TOTAL)
    compute(g, x, 3, calm, most_entries=50)
    assert calm.allocations > 20
    for number in range(1, calm.allocations + 1):
        device = small_device(TOTAL, seed=number, fail_at=number)
        hops = compute(g, x, 3, device, most_entries=50)
        assert is_close(hops, wanted)
        assert device.allocations > number
        assert device.used == 0
        assert device.peak <= TOTAL


def test_columns_that_are_done_are_not_computed_again():
    g, x = problem()
    calm = small_device(TOTAL)
    compute(g, x, 3, calm, 25_000, most_entries=50)
    late = small_device(TOTAL, fail_at=calm.allocations)
    compute(g, x, 3, late, 25_000, most_entries=50)
    assert late.bytes_out < 2 * calm.bytes_out


def test_a_device_that_lies_about_its_memory():
    g, x = problem()
    device = small_device(15_000, claimed=100_000)
    hops = compute(g, x, 3, device, most_entries=50)
    assert is_close(hops, expected(g, x, 3))
    assert device.peak <= 15_000


def test_a_device_with_next_to_nothing():
    g, x = problem()
    device = small_device(500, claimed=100_000)
    with pytest.raises(DGLError, match="ran out of memory"):
        compute(g, x, 3, device, most_entries=50)
    with pytest.raises(DGLError, match="would be enough"):
        compute(g, x, 3, small_device(500), most_entries=50)


def test_nothing_is_kept_alive_when_it_plans_anew(monkeypatch):
    """The memory of the failed try is free before the next one begins."""
    g, x = problem()
    made, alive = [], []
    real = on_device.Pipeline

    def pipeline(*args):
        alive.append(sum(ref() is not None for ref in made))
        found = real(*args)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(on_device, "Pipeline", pipeline)
    gc.disable()
    try:
        device = small_device(TOTAL, fail_at=9)
        compute(g, x, 3, device, most_entries=50)
    finally:
        gc.enable()
    assert len(made) == 2
    assert alive == [0, 0]


def test_an_error_that_is_kept_keeps_no_memory():
    """As in a notebook, which holds the last traceback."""
    g, x = problem()

    class Broken(SimulatedDevice):
        def copy_out(self, stream, target, source):
            raise KeyboardInterrupt

    device = Broken(TOTAL, sizes=small_sizes())
    with pytest.raises(KeyboardInterrupt) as error:
        compute(g, x, 3, device, most_entries=50)
    frames = []
    trace = error.value.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    pipelines = [
        frame.f_locals["self"]
        for frame in frames
        if isinstance(frame.f_locals.get("self"), on_device.Pipeline)
    ]
    assert pipelines
    for pipeline in pipelines:
        assert pipeline._arena._raw.untyped_storage().nbytes() == 0
    assert device.used == 0


def test_a_store_goes_on_where_it_was(tmp_path):
    g, x = problem()
    request = Request.of(g, x, 3)
    calm = small_device(TOTAL)

    def run(name, device):
        sink = make_sink(request, tmp_path / name, True)
        run_on_device(
            request, device, 25_000, sink=sink, most_entries=50,
            sizes=small_sizes(),
        )  # fmt: skip

    run("a", calm)
    run("b", small_device(TOTAL, fail_at=calm.allocations - 3))
    stored = open_store(tmp_path / "b")
    stored.verify()
    assert is_close(stored, expected(g, x, 3))


def test_too_little_memory_on_the_host():
    g, x = problem()
    with pytest.raises(DGLError, match="host_memory=10 KiB is too small"):
        compute(g, x, 3, SimulatedDevice(1 << 30), host_memory=10 * 1024)
    compute(g, x, 3, SimulatedDevice(1 << 30), host_memory=1 << 30)
