"""Peak bytes on tensors without data: papers100M without its memory."""

from dataclasses import replace

import pytest
import torch
from dgl import DGLError
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from night import cases, each

from dgl_lc.precompute.planning.device import (
    MOST_ENTRIES,
    Cut,
    DeviceTask,
    make_device_plan,
    plan_cut,
)
from dgl_lc.precompute.planning.plans import Item
from dgl_lc.precompute.planning.work import Work
from dgl_lc.testing.no_data_device import NoDataDevice, count_bytes

#: In both directions; how far the frontier of the labelled nodes reaches is
#: what the generated graph of that shape had.
NODES, EDGES, LABELLED = 111_059_956, 3_231_371_744, 1_546_782
PAPERS = Work(
    num_nodes=NODES,
    num_edges=EDGES,
    num_feats=128,
    kind="float32",
    hop_rows=(NODES, int(0.32 * NODES), LABELLED),
    hop_entries=(EDGES, int(0.42 * EDGES), int(0.014 * EDGES)),
    kept_rows=LABELLED,
    kept_hops=(0, 1, 2, 3),
    all_rows=False,
    input_rows=NODES,
    num_diagonals=1,
)


@pytest.mark.parametrize(
    ("size", "frontier"), each([8, 16, 24, 32, 80], [True, False])
)
def test_papers100m(size, frontier):
    budget = size * 10**9 * 9 // 10
    work = PAPERS
    if not frontier:
        work = replace(work, hop_rows=(NODES,) * 3, hop_entries=(EDGES,) * 3)
    plan = make_device_plan(work, budget)
    blocks = plan.num_column_blocks if size == 32 else 2
    peak, moved = count_bytes(plan, blocks)
    assert peak <= plan.peak_bytes <= budget
    assert peak >= 0.9 * plan.peak_bytes
    if size == 32:
        # All column blocks were run: every byte is counted, and planned.
        assert 0.97 * plan.bytes_moved <= moved <= plan.bytes_moved


@st.composite
def works(draw):
    n = draw(st.integers(1, 10 ** draw(st.integers(1, 8))))
    m = draw(st.integers(0, 10 ** draw(st.integers(1, 9))))
    K = draw(st.integers(1, 4))
    all_rows = draw(st.booleans())
    rows, entries = [n] * K, [m] * K
    if not all_rows:
        for hop in range(draw(st.integers(0, K - 1)), K):
            rows[hop] = draw(st.integers(1, rows[hop - 1] if hop else n))
            entries[hop] = draw(st.integers(0, entries[hop - 1] if hop else m))
    kept = sorted(draw(st.sets(st.integers(0, K - 1))) | {K})
    return Work(
        num_nodes=n,
        num_edges=m,
        num_feats=draw(st.integers(1, 300)),
        kind=draw(
            st.sampled_from(["float32", "float64", "float16", "bfloat16"])
        ),
        hop_rows=tuple(rows),
        hop_entries=tuple(entries),
        kept_rows=n if all_rows else draw(st.integers(1, n)),
        kept_hops=tuple(kept),
        all_rows=all_rows,
        input_rows=n,
        num_diagonals=draw(st.integers(0, 2)),
        weighted=draw(st.booleans()),
        self_loop=draw(st.booleans()),
    )


def enough(work, fuses=False):
    """What the error says would be enough."""
    with pytest.raises(DGLError, match="would be enough") as error:
        make_device_plan(work, 1, fuses)
    return int(str(error.value).split("memory='")[1].split("MiB")[0]) << 20


@settings(max_examples=cases(40, 1000))
@given(works(), st.floats(0, 1), st.booleans())
def test_the_peak_is_within_the_budget(work, share, fuses):
    least = enough(work, fuses)
    roomy = make_device_plan(work, 2**60, fuses).peak_bytes
    budget = least + int(share * max(0, roomy - least))
    plan = make_device_plan(work, budget, fuses)
    # Before they are made: a tight budget can ask for millions.
    assume(plan.num_edge_blocks < 4000)
    peak, _ = count_bytes(plan, 2)
    assert peak <= plan.peak_bytes <= budget


def test_a_hub_that_reads_more_rows_than_are_computed():
    work = replace(
        PAPERS, num_nodes=513, num_edges=244_234, num_feats=2, hop_rows=(4,),
        hop_entries=(244_225,), kept_rows=129, kept_hops=(1,), input_rows=513,
        self_loop=False,
    )  # fmt: skip
    plan = make_device_plan(work, enough(work))
    peak, _ = count_bytes(plan, 2)
    assert peak <= plan.peak_bytes <= enough(work)


@given(works())
def test_what_is_said_to_be_enough_is_enough(work):
    assert make_device_plan(work, enough(work)).peak_bytes <= enough(work)


def test_a_leak_is_caught():
    class Leaking(NoDataDevice):
        def __init__(self):
            super().__init__()
            self.lost = []

        def spmm_add(self, stream, out, indptr, indices, values, x):
            super().spmm_add(stream, out, indptr, indices, values, x)
            self.lost.append(torch.empty_like(out))

    plan = make_device_plan(PAPERS, 22 * 10**9)
    peak, _ = count_bytes(plan, 2)
    assert peak <= plan.budget
    peak, _ = count_bytes(plan, 2, Leaking())
    assert peak > plan.budget


def test_the_workspace_is_said_to_be_a_model():
    plan = make_device_plan(PAPERS, 22 * 10**9)
    assert plan.items[Item.WORKSPACE] > 0
    assert "workspace (a model)" in str(plan)


def test_fewest_bytes_of_all_cuts():
    """No other width, block size or use of the frontier sends fewer."""
    budget = 14 * 10**9
    best = make_device_plan(PAPERS, budget)
    others = [
        plan_cut(DeviceTask(PAPERS, budget), Cut(width, entries, frontier))
        for width in (128, 64, 32, 24, 16, 8)
        for entries in MOST_ENTRIES
        for frontier in (True, False)
    ]
    found = [plan.bytes_moved for plan in others if plan is not None]
    assert best.bytes_moved == min(found)
