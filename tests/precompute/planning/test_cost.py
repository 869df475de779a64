"""Every item of a plan against the arrays that are really allocated.

Each is pinned from below: an item that is forgotten, or too small, fails. That
nothing else is allocated is measured in ``test_memory.py``.
"""

import dgl
import pytest
import torch

from dgl_lc.data import power_law_graph
from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.cpu.engine import Engine
from dgl_lc.precompute.planning.cost import FIXED, FIXED_THREAD
from dgl_lc.precompute.planning.cpu import plan_for
from dgl_lc.precompute.planning.plans import Item
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.survey import survey
from dgl_lc.testing.random_graphs import make_features

N, M, COLUMNS = 3_000, 90_000, 24


def graph(formats="coo"):
    g = power_law_graph(N, M)
    u, v = g.edges(order="eid")
    # One hub, so that rows are split.
    v = torch.cat([v[: M // 2], torch.zeros(M - M // 2, dtype=v.dtype)])
    return dgl.graph((u, v), num_nodes=N).formats(formats)


def planned(blocks=1, formats="coo", stored=False, K=2, **options):
    """An engine that has run a column block, and the items of its plan."""
    x = options.pop("x", make_features(N, COLUMNS))
    request = Request.of(graph(formats), x, K, **options)
    found = survey(request, None, stored)
    plan = plan_for(found.work, blocks, COLUMNS, 2**40)
    engine = Engine(request, found, plan)
    return request, found, engine, plan.items


def nbytes(*arrays):
    """Bytes of arrays, each counted once."""
    return sum({id(a): a.nbytes for a in arrays if a is not None}.values())


def test_the_result():
    x = make_features(N, COLUMNS)
    for options in ({}, {"nodes": [1, 5]}, {"dtype": torch.float16}):
        _, _, _, items = planned(x=x, **options)
        hops = block_aggregate(graph(), x, 2, **options)
        made = [hop for hop in hops if hop.data_ptr() != x.data_ptr()]
        assert items[Item.RESULT] == sum(hop.nbytes for hop in made)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hops", [None, [2]])
def test_column_buffers(dtype, hops):
    _, _, engine, items = planned(dtype=dtype, hops=hops, stored=True)
    buffers = [engine.buffers.rows(hop, N, COLUMNS) for hop in (0, 1)]
    if dtype == torch.float64:  # The features have to be copied as well.
        assert all(len(rows) == N for rows in buffers)
    held = sum(rows.untyped_storage().nbytes() for rows in buffers)
    assert held <= items[Item.COLUMN_BUFFERS] <= held + 2 * 64


@pytest.mark.parametrize("stored", [False, True])
def test_hop_0_alone_is_collected_for_a_store_only(stored):
    nodes = torch.zeros(2 * N, dtype=torch.long)
    request = Request.of(
        graph(), make_features(N, COLUMNS), 0, nodes=nodes, dtype=torch.float16
    )
    work = survey(request, None, stored).work
    items = plan_for(work, 1, COLUMNS, 2**40).items
    collected = 2 * N * 32 * 2 if stored else 0
    assert items[Item.COLUMN_BUFFERS] == collected + 2 * 64


@pytest.mark.parametrize("weight", [None, torch.float32, torch.float64])
@pytest.mark.parametrize("formats", ["coo", "csr", "csc"])
def test_edges_by_destination(formats, weight):
    given = None if weight is None else torch.rand(M, dtype=weight)
    _, _, engine, items = planned(formats=formats, weight=given)
    block = engine.filter.whole
    made = 0 if formats == "csc" else block.indices.nbytes
    if weight is not None and formats != "csc":
        made += block.weight.nbytes
    if weight == torch.float64:
        made += 4 * M  # converted
    assert items[Item.EDGES] == made


@pytest.mark.parametrize("formats", ["coo", "csc"])
@pytest.mark.parametrize("norm", ["both", "right", "none", "in"])
def test_degrees_and_diagonals(formats, norm):
    _, found, engine, items = planned(formats=formats, norm=norm)
    edges, f = found.edges, engine.filter
    made = nbytes(edges.out_edges, edges.loops, f.left, f.right)
    if formats == "coo":
        made += edges.indptr.nbytes
    assert items[Item.DEGREES] == made


@pytest.mark.parametrize("formats", ["coo", "csr"])
def test_sorting(formats):
    _, _, engine, items = planned(blocks=2, formats=formats)
    next(engine.filter.blocks())
    space = engine.filter.space
    made = nbytes(space.cursor, *space.places)
    if formats == "csr":
        made += 8 * M  # one end of the edges, of a slice
    assert items[Item.SORTING] == made
    # In one block they are sorted before the buffers are made.
    _, _, _, items = planned(formats=formats)
    later = items[Item.RESULT] + items[Item.COLUMN_BUFFERS]
    assert items[Item.SORTING] == max(0, made - later)


def test_the_frontier():
    nodes = torch.arange(0, N, 3)
    _, found, engine, items = planned(nodes=nodes, self_loop=False)
    lists = [rows for rows in found.rows if rows is not None]
    assert lists
    engine.places.of_nodes(2)
    made = nbytes(*lists) + 4 * N + 4 * len(nodes)
    assert items[Item.FRONTIER] == made


def test_finding_the_frontier():
    # One row of one column: marks for all nodes are more than the rest.
    x = make_features(N, 1)
    request = Request.of(graph("csc"), x, 1, nodes=[5], self_loop=False)
    items = plan_for(survey(request).work, 1, 1, 2**40).items
    later = items[Item.RESULT] + items[Item.COLUMN_BUFFERS]
    assert items[Item.FINDING] == 2 * N - later > 0


def test_nodes_that_are_converted():
    nodes = torch.arange(0, N, 3)
    _, _, _, items = planned(nodes=nodes)
    assert Item.NODES not in items
    request, _, _, items = planned(nodes=nodes.int())
    assert items[Item.NODES] == request.nodes.nbytes


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_chunks_of_work(blocks, dtype):
    _, _, engine, items = planned(blocks=blocks, dtype=dtype)
    chunks = [engine.product.chunks(hop) for hop in (1, 2)]
    assert chunks[0].num_slots > 0
    made = nbytes(*(c.table for c in chunks), *(c.starts for c in chunks))
    made += sum(nbytes(*scratch) for scratch in engine.product.scratch)
    slots = (
        chunks[0].num_slots * COLUMNS * engine.product.scratch[0].coefs.itemsize
    )
    scaling = len(engine.product.scratch) * (1 << 14) * dtype.itemsize
    assert items[Item.CHUNKS] >= made + slots + scaling


def test_copying_and_the_store():
    x = make_features(N, COLUMNS, dtype=torch.float64)
    _, _, _, items = planned(x=x, dtype=torch.float32, stored=True)
    # Rows that are gathered at a time, and checksums before and after.
    assert items[Item.COPYING] >= min(N, 4096) * COLUMNS * 8
    assert items[Item.STORE] >= 2 * 8 * N
    assert Item.STORE not in planned(x=x, dtype=torch.float32)[-1]


def test_a_fixed_part_for_python_and_its_threads():
    _, found, _, items = planned()
    assert items[Item.FIXED] == FIXED + found.work.threads * FIXED_THREAD
    assert FIXED >= 2**20
