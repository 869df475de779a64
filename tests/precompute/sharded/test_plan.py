"""The plan for many ranks, against what ranks really do."""

import itertools

import dgl
import pytest
import torch
import torch.distributed as dist
from night import NIGHT

from dgl_lc._common.threads import num_threads
from dgl_lc.precompute import block_aggregate, open_store, plan
from dgl_lc.precompute.planning.cpu import MemoryTooSmall
from dgl_lc.precompute.planning.rank_traffic import RankResult
from dgl_lc.precompute.request import Request
from dgl_lc.precompute.sharded import plan as planning
from dgl_lc.precompute.sharded import rank_work, run
from dgl_lc.ranks.call import RankCall
from dgl_lc.ranks.group import find_ranks
from dgl_lc.testing.run_ranks import run_ranks

from .edge_cases import draw, make_graph

#: Graphs, hops, rows and columns.
CASES = [
    {"shape": "random", "n": 60, "m": 300, "K": 3, "nodes": None},
    {"shape": "hub", "n": 60, "m": 200, "K": 2, "nodes": 9},
    {"shape": "dense", "n": 30, "m": 0, "K": 3, "nodes": None},
    {"shape": "late", "n": 30, "m": 90, "K": 4, "nodes": 25},
    {"shape": "random", "n": 9, "m": 20, "K": 1, "nodes": None},
]


def _arguments(case):
    case = draw(5) | case | {"format": "coo", "weighted": False}
    g, _ = make_graph(case)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(case["n"], 21, generator=generator)
    nodes = case["nodes"]
    if nodes is not None:
        nodes = torch.randint(case["n"], (nodes,), generator=generator)
    return (g, x, case["K"]), {"nodes": nodes}


def _sent(ways, folder):
    """Compute the cases in each way; give bytes that were sent, and peaks."""
    counted, peaks = [], []
    close, sink = rank_work.EdgeWork.close, run.RowShardSink
    cut = rank_work.EdgeWork.cut

    def counting_close(work):
        counted[-1] += work.payload_bytes
        close(work)

    def measured_cut(work, *args):
        units = cut(work, *args)
        peaks[-1] = work._bytes(units[0][1] - units[0][0])
        return units

    class CountingSink(sink):
        def begin(self, units):
            self.before = self.payload_bytes if self._units else 0
            super().begin(units)

        def end(self):
            super().end()
            counted[-1] += self.payload_bytes - self.before

    rank_work.EdgeWork.close = counting_close
    rank_work.EdgeWork.cut = measured_cut
    run.RowShardSink = CountingSink
    for number, (case, (split, stored)) in enumerate(_calls(ways)):
        counted.append(0)
        peaks.append(0)
        args, options = _arguments(case)
        out = f"{folder}/{number}" if stored else None
        block_aggregate(*args, **options, split=split, out=out, memory="100MiB")
    return counted, peaks


def _calls(ways):
    return itertools.product(CASES, ways)


#: Numbers of ranks, what they share, and whether the result is stored.
WAYS = {4: [("edges", True), ("columns", False), ((2, 2), False)]}
if NIGHT:
    WAYS |= {2: [("edges", True)], 3: [("edges", False), ("columns", False)]}


@pytest.mark.parametrize(("size", "ways"), WAYS.items())
def test_ranks_send_the_bytes_of_the_plan(size, ways, tmp_path):
    found = run_ranks(size, _sent, ways, tmp_path, threads=num_threads())
    for number, (case, (split, stored)) in enumerate(_calls(ways)):
        args, options = _arguments(case)
        planned = plan(
            *args, **options, ranks=size, split=split, stored=stored,
            memory="100MiB",
        )  # fmt: skip
        assert planned.exact
        sent = tuple(counted[number] for counted, _ in found)
        assert planned.sent_bytes == sent
        if split != "columns":
            peak = max(peaks[number] for _, peaks in found)
            assert planned.peak_bytes == peak


def _path():
    """Make a path: nearly all rows that a rank reads are its own."""
    n = 300_000
    ends = torch.arange(n - 1)
    g = dgl.graph((ends, ends + 1), num_nodes=n)
    x = torch.arange(n * 16.0, dtype=torch.float64).reshape(n, 16)
    return (g, x, 2), {"hops": [2], "dtype": torch.float32}


def _compute_path(memory, folder):
    args, options = _path()
    block_aggregate(*args, **options, memory=memory, out=folder)
    return torch.distributed.get_rank()


def test_edges_are_shared_where_columns_do_not_fit(tmp_path):
    args, options = _path()
    options |= {"ranks": 4, "stored": True}
    with pytest.raises(MemoryTooSmall, match="'columns'") as error:
        plan(*args, **options, split="columns", memory="1MiB")
    memory = error.value.enough - 2 * 2**20
    assert plan(*args, **options, memory=memory).split != "columns"
    run_ranks(
        4, _compute_path, memory, tmp_path / "hops", threads=num_threads()
    )
    one = block_aggregate(*_path()[0], **_path()[1])
    torch.testing.assert_close(open_store(tmp_path / "hops")[2], one[2])


def _choices(budgets):
    """Give what is chosen for each budget, which ranks need not share."""
    args, _ = _arguments(CASES[0])
    request = Request.of(*args, "both", True, None, None, None, None)
    found = []
    for own, device in budgets:
        with RankCall(find_ranks(), "test") as call:
            rank = dist.get_rank()
            layout = planning.choose_layout(
                call, request, device == rank, RankResult(True, True), own[rank]
            )
            found.append((layout.columns, layout.edges))
    return found


def test_all_ranks_choose_the_same_split():
    budgets = [((None, None), None), ((2**26, 2**27), None), ((1, None), None),
               ((2**26, 2**26), 1)]  # fmt: skip
    for found in run_ranks(2, _choices, budgets):
        assert found == [(2, 1)] * 4
