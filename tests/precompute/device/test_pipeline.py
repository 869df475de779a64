"""The pipeline's numbers: any cut, any order of events, any budget."""

import ast
import inspect
import sys

import dgl
import pytest
import torch
from dgl import DGLError
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from night import cases

from device.common import (
    compute,
    expected,
    is_close,
    random_graph,
    small_sizes,
)
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.device import pipeline
from dgl_lc.precompute.device.edge_slots import EdgeSlots
from dgl_lc.precompute.device.executor import survey_for_device
from dgl_lc.precompute.device.pipeline import Pipeline
from dgl_lc.precompute.device.transfers import Receiver, Sender
from dgl_lc.precompute.graph.count_graph import count_with_torch
from dgl_lc.precompute.planning.device import make_device_plan
from dgl_lc.precompute.request import Request
from dgl_lc.testing.cpu_device import CpuDevice
from dgl_lc.testing.random_graphs import graphs, make_features
from dgl_lc.testing.simulated_device import SimulatedDevice


@settings(max_examples=cases(80, 3000))
@given(
    g=graphs(),
    d=st.integers(1, 40),
    K=st.integers(1, 4),
    norm=st.sampled_from(["both", "right", "left", "none", "in"]),
    self_loop=st.booleans(),
    weighted=st.booleans(),
    some=st.booleans(),
    dtype=st.sampled_from(
        [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    ),
    kind=st.sampled_from(["cpu", "simulated", "fused"]),
    most_entries=st.sampled_from([None, 1, 7, 40]),
    piece=st.sampled_from([64, 1000, 1 << 25]),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_any_cut_equals_dense_products(
    g, d, K, norm, self_loop, weighted, some, dtype, kind, most_entries,
    piece, share, seed,
):  # fmt: skip
    n = g.num_nodes()
    x = make_features(n, d, seed).clamp(-2, 2).to(dtype)
    options = {"norm": norm, "self_loop": self_loop}
    if norm in ("none", "left") and x.element_size() < 4:
        # Sums of hubs would be too large for the tolerance.
        options["norm"] = "both"
    if most_entries and x.element_size() < 4:
        # A sum is rounded to a half once for every block that its row is in;
        # with an edge a block, the sum of a hub would differ by more than
        # the tolerance.
        most_entries = 40
    if weighted:
        options["weight"] = torch.rand(g.num_edges())
    if some:
        options["nodes"] = torch.randint(0, n, (3,))
    total = int(share * 60_000) + 1
    sizes = small_sizes(piece)
    device = SimulatedDevice(total, seed, fuses=kind == "fused", sizes=sizes)
    if kind == "cpu":
        device = CpuDevice()
    try:
        hops = compute(
            g, x, K, device, total, most_entries, dtype=dtype, sizes=sizes,
            **options,
        )  # fmt: skip
    except DGLError as error:
        if "is too small" not in str(error):
            raise
        assume(False)
    assert is_close(hops, expected(g, x, K, **options), options.get("nodes"))
    assert hops.filter.graph == count_with_torch(g)
    if kind != "cpu":
        assert device.peak <= total
        assert device.used == 0


#: Bytes in which neither all edges nor all columns fit.
TIGHT = 11_000


def waits():
    """Files and lines of the pipeline at which something waits."""
    found = []
    for part in (Pipeline, Sender, Receiver, EdgeSlots):
        source, first = inspect.getsourcelines(part)
        for node in ast.walk(ast.parse("".join(source))):
            name = getattr(getattr(node, "func", None), "attr", None)
            if name in ("wait", "sync"):
                line = first + node.lineno - 1
                found.append((inspect.getsourcefile(part), line))
    return found


class Forgetful(SimulatedDevice):
    """Omits the waits of one line of the pipeline."""

    def __init__(self, *args, line=None, **options):
        super().__init__(*args, **options)
        self._line = line

    def _is_left_out(self):
        caller = sys._getframe(2)
        return (caller.f_code.co_filename, caller.f_lineno) == self._line

    def wait(self, stream, event):
        if not self._is_left_out():
            super().wait(stream, event)

    def sync(self, event=None):
        if not self._is_left_out():
            super().sync(event)


def schedule(seed, line=None, stays=False):
    """One run in one order; whether the numbers are right."""
    torch.manual_seed(1)
    g = random_graph()
    x = make_features(60, 21)
    nodes = torch.randperm(60)[:25] if seed % 2 else None
    device = Forgetful(1 << 20, seed, line=line, sizes=small_sizes(400))
    memory = None if stays else TIGHT
    try:
        hops = compute(g, x, 3, device, memory, most_entries=50, nodes=nodes)
    except RuntimeError:
        return False
    return is_close(hops, expected(g, x, 3), nodes)


@pytest.mark.parametrize("stays", [False, True])
def test_many_schedules(stays):
    assert all(schedule(seed, stays=stays) for seed in range(cases(50, 150)))


def test_the_schedules_have_edges_that_stay_and_that_do_not():
    request = Request.of(random_graph(), make_features(60, 21), 3)
    work = survey_for_device(request).work
    plan = make_device_plan(
        work, TIGHT, most_entries=50, sizes=small_sizes(400)
    )
    assert plan.resident_bytes > 0
    assert not plan.all_edges_stay
    assert plan.num_column_blocks > 1


@pytest.mark.parametrize("line", waits())
def test_a_wait_that_is_left_out_is_caught(line):
    caught = any(
        not schedule(seed, line, stays)
        for seed in range(60)
        for stays in (False, True)
    )
    assert caught


def test_there_are_as_many_waits_as_the_documentation_has():
    assert len(waits()) == 7


def test_halves_are_sent_wide_where_sums_would_be_rounded():
    """1e5 neighbours of one: their sum is no float16."""
    n = 100_001
    g = dgl.graph((torch.arange(1, n), torch.zeros(n - 1, dtype=torch.long)))
    x = torch.ones(n, 1, dtype=torch.float16)
    found = compute(
        g, x, 1, SimulatedDevice(1 << 28), norm="right", self_loop=False
    )
    assert found[1].dtype == torch.float16
    assert found[1][0] == 1


@pytest.mark.parametrize("stays", [False, True])
def test_the_triton_kernel_in_the_pipeline(stays):
    from dgl_lc.precompute.device import triton_spmm as kernels

    triton = kernels.triton
    if triton is None:
        pytest.skip("Triton 3 is not there")
    if isinstance(kernels._add_rows, triton.runtime.JITFunction):
        pytest.skip("Triton's interpreter is not there")

    class Interpreted(CpuDevice):
        fuses = True

        def spmm_add(self, stream, out, indptr, indices, values, x, **fused):
            values = values if len(values) else None
            kernels.spmm_add(
                out, indptr, indices, values, x, longest=8, **fused
            )

    torch.manual_seed(2)
    g, x = random_graph(30, 200), make_features(30, 9)
    nodes = torch.tensor([3, 17, 3])
    for dtype in (torch.float32, torch.float16):
        hops = compute(
            g, x.to(dtype), 2, Interpreted(), None if stays else 9_000,
            most_entries=70, nodes=nodes, dtype=dtype, sizes=small_sizes(),
        )  # fmt: skip
        assert is_close(hops, expected(g, x.to(dtype), 2), nodes)


def test_the_type_of_sums_is_found_out():
    device = SimulatedDevice(1 << 26)
    assert pipeline.sums_in_float32(device, torch.bfloat16)

    class Narrow(SimulatedDevice):
        def spmm_add(self, stream, out, indptr, indices, values, x, **_):
            def work():
                for source in indices.tolist():
                    out[0] += x[source]

            self.launch(stream, work)

    assert not pipeline.sums_in_float32(Narrow(1 << 26), torch.bfloat16)

    class Old(SimulatedDevice):
        def spmm_add(self, *args, **fused):
            raise RuntimeError("not supported on this GPU")

    assert not pipeline.sums_in_float32(Old(1 << 26), torch.bfloat16)


def test_equals_the_engine_on_a_large_graph(large_graph):
    x = make_features(large_graph.num_nodes(), 24)
    nodes = torch.arange(0, large_graph.num_nodes(), 50)
    wanted = block_aggregate(large_graph, x, 3, nodes=nodes)
    found = compute(
        large_graph, x, 3, SimulatedDevice(100 << 20), 60 << 20, nodes=nodes
    )
    for hop in range(4):
        assert torch.allclose(found[hop], wanted[hop], rtol=1e-4, atol=1e-5)
