"""The plan that moves the fewest bytes, against brute force."""

import dataclasses
import random

import dgl
import pytest
import torch
from dgl import DGLError
from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.precompute import block_aggregate, plan
from dgl_lc.precompute.planning.cpu import least_bytes, make_plan, plan_for
from dgl_lc.precompute.planning.device import make_device_plan
from dgl_lc.precompute.planning.plans import Item, beside_published
from dgl_lc.precompute.planning.work import Work

PAPERS = Work(
    num_nodes=111_059_956,
    num_edges=1_615_685_872,
    num_feats=128,
    kind="float32",
    hop_rows=(111_059_956,) * 3,
    hop_entries=(1_615_685_872,) * 3,
    kept_rows=1_500_000,
    kept_hops=(0, 1, 2, 3),
    all_rows=False,
)


@st.composite
def works(draw):
    n = draw(st.integers(1, 10**6))
    m = draw(st.integers(0, 10**7))
    K = draw(st.integers(1, 4))
    all_rows = draw(st.booleans())
    hops = (*sorted(draw(st.sets(st.integers(0, K - 1)))), K)
    rows = tuple(n if all_rows else draw(st.integers(1, n)) for _ in range(K))
    return Work(
        num_nodes=n,
        num_edges=m,
        num_feats=draw(st.integers(1, 300)),
        kind=draw(st.sampled_from(["float32", "float64", "float16"])),
        hop_rows=rows,
        hop_entries=(m,) * K,
        kept_rows=n if all_rows else draw(st.integers(1, n)),
        kept_hops=hops,
        all_rows=all_rows,
        shares_features=draw(st.booleans()),
        input_rows=n,
        weighted=draw(st.booleans()),
        owned=draw(st.booleans()),
        threads=draw(st.integers(1, 4)),
    )


@given(works(), st.floats(0.1, 2))
def test_no_other_cut_that_fits_moves_fewer_bytes(work, share):
    roomy = make_plan(work, 2**60)
    budget = int(share * roomy.peak_bytes) + 1
    most = max(1, work.num_edges // 2**16)
    others = [
        plan_for(work, blocks, width, budget)
        for width in work.widths()
        for blocks in range(1, most + 1)
    ]
    fitting = [p for p in others if p.peak_bytes <= budget]
    if not fitting:
        with pytest.raises(DGLError, match="is too small"):
            make_plan(work, budget)
        return
    found = make_plan(work, budget)
    assert found.peak_bytes <= budget
    assert found.bytes_moved == min(p.bytes_moved for p in fitting)
    assert found == make_plan(work, budget)


@given(works())
def test_what_is_said_to_be_enough_is_enough(work):
    with pytest.raises(DGLError, match="would be enough") as error:
        make_plan(work, 1)
    enough = int(str(error.value).split("memory='")[1].split("MiB")[0])
    assert make_plan(work, enough * 2**20).peak_bytes <= enough * 2**20


@given(works())
def test_column_blocks_cover_every_column_once(work):
    found = make_plan(work, 2**60)
    columns = [c for a, b in found.column_blocks() for c in range(a, b)]
    assert columns == list(range(work.num_feats))
    assert len(found.column_blocks()) == found.num_column_blocks


def test_without_a_budget_a_block_has_all_columns_if_they_fit():
    n = 10**7
    work = dataclasses.replace(
        PAPERS, num_nodes=n, num_edges=16 * n, hop_rows=(n,) * 3
    )
    found = make_plan(work)
    assert found.column_width == 128
    assert found.items[Item.COLUMN_BUFFERS] <= 2 * n * 128 * 4 + 128
    assert make_plan(work, available=found.peak_bytes).column_width == 128
    assert make_plan(work, available=found.peak_bytes // 2).column_width < 128
    with pytest.raises(DGLError, match="is too small"):
        make_plan(work, available=found.peak_bytes // 4)


def test_a_plan_prints_both_objectives():
    text = str(beside_published(make_device_plan(PAPERS, 32 * 2**30)))
    words = [
        "fewest bytes", "fewest blocks", "edge blocks b", "column blocks c",
        "stays resident", "peak", "bytes moved",
    ]  # fmt: skip
    for word in words:
        assert word in text
    assert max(map(len, text.splitlines()[1:])) <= 80


def test_resident_edges_are_moved_once():
    roomy = make_device_plan(PAPERS, 80 * 10**9)
    assert roomy.resident == ("edges", "column block")
    tight = make_device_plan(PAPERS, 8 * 10**9)
    assert "of the edges" in tight.resident[0]
    assert tight.bytes_moved > roomy.bytes_moved


def test_more_edge_blocks_are_not_always_less_memory():
    """A graph so large that a block's own bytes outweigh its edges'."""
    work = dataclasses.replace(PAPERS, num_nodes=10**6, hop_rows=(10**6,) * 3)
    with pytest.raises(DGLError, match="would be enough") as error:
        make_plan(work, 1)
    enough = int(str(error.value).split("memory='")[1].split("MiB")[0])
    found = make_plan(work, enough * 2**20)
    most = work.num_edges // 2**16
    assert 1 < found.num_edge_blocks < most
    largest = plan_for(work, most, found.column_width, found.budget)
    assert largest.peak_bytes > found.peak_bytes


@given(works(), st.integers(0, 2**32))
def test_fewer_rows_never_need_more_memory(work, seed):
    rng, listed = random.Random(seed), work.num_nodes - 1
    more = dataclasses.replace(
        work,
        all_rows=False,
        hop_rows=tuple(min(rows, listed) for rows in work.hop_rows),
        input_rows=listed,
    )
    less = dataclasses.replace(
        more,
        hop_rows=tuple(rng.randint(0, rows) for rows in more.hop_rows),
        input_rows=rng.randint(0, listed),
    )
    assert least_bytes(less) <= least_bytes(more)


def test_what_is_given_back_early_is_counted_once():
    """Marks of the frontier and cursors of sorting are never there at once."""
    n = 10**6
    found = []
    for rows in (0, 10**5, 3 * 10**5, n - 1):
        work = Work(
            num_nodes=n,
            num_edges=n,
            num_feats=1,
            kind="float32",
            hop_rows=(rows, rows),
            hop_entries=(rows, rows),
            kept_rows=10,
            kept_hops=(2,),
            all_rows=False,
        )
        peak = plan_for(work, 1, 1, 2**40).peak_bytes
        found.append(peak - 8 * rows)  # without the lists
    assert found == sorted(found)


def test_a_plan_that_needs_more_than_is_available_is_refused(monkeypatch):
    g, x = dgl.rand_graph(100, 400), torch.ones(100, 8)
    need = plan(g, x, 2, memory="64MiB").peak_bytes

    class Few:
        available = need - 1

    monkeypatch.setattr("psutil.virtual_memory", lambda: Few)
    with pytest.raises(DGLError, match="precomputation needs at least"):
        block_aggregate(g, x, 2, memory="64MiB")
    Few.available = need
    block_aggregate(g, x, 2, memory="64MiB")
