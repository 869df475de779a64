"""Column shards: one store of many ranks."""

import filecmp

import dgl
import pytest
import torch
from dgl import DGLError
from night import NIGHT

from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.precompute.sharded import shared_store
from dgl_lc.ranks.group import find_ranks
from dgl_lc.storage.write_hops import StoreWriter
from dgl_lc.testing.run_ranks import RankErrors, run_ranks


def make(nodes=60, edges=300, columns=21, seed=0):
    torch.manual_seed(seed)
    ends = torch.randint(nodes, (2, edges))
    g = dgl.graph((ends[0], ends[1]), num_nodes=nodes)
    return g, torch.randn(nodes, columns)


def _store(folder, sizes, options):
    found = []
    for number, size in enumerate(sizes):
        g, x = make(*size)
        hops = block_aggregate(g, x, 2, out=f"{folder}/{number}", **options)
        found.append(torch.stack(list(hops)))
    return found


SIZES = [(60, 300, 21), (1, 0, 1), (7, 5, 2), (40, 900, 33)]


#: Numbers of ranks, and what they share; by day, each of both.
SPLITS = [(3, "columns"), (2, "edges"), (4, (2, 2))]
if NIGHT:
    SPLITS += [(2, "columns"), (4, None), (3, "edges"), (4, "edges")]


def _rows(folder, sizes, options):
    found = []
    for number, size in enumerate(sizes):
        g, x = make(*size)
        out = f"{folder}/{number}" if folder else None
        hops = block_aggregate(g, x, 2, out=out, shared=False, **options)
        if out is not None:
            hops = open_store(out)
        found.append((hops.nodes, torch.stack(list(hops)), hops.shard))
    return found


ROW_SIZES = [(60, 300, 21), (7, 5, 2), (40, 900, 33)]


def _all_ways(folder, options):
    """Compute one store, and row shards in a folder, in memory, and apart."""
    rank = find_ranks().rank
    return {
        "one store": _store(f"{folder}/store", SIZES, options),
        "in a folder": _rows(f"{folder}/shards", ROW_SIZES, options),
        "in memory": _rows(None, ROW_SIZES, options),
        "in folders": _rows(f"{folder}/rank-{rank}", ROW_SIZES, options),
    }


@pytest.fixture(scope="module", params=SPLITS)
def ranks_run(request, tmp_path_factory):
    """What ranks have computed in all ways, started once, and the folder."""
    size, split = request.param
    folder = tmp_path_factory.mktemp("ranks")
    return run_ranks(size, _all_ways, folder, {"split": split}), folder


def test_a_store_of_ranks_has_the_bits_of_one_process(tmp_path, ranks_run):
    many, one = ranks_run[1] / "store", tmp_path / "one"
    expected = _store(one, SIZES, {})
    for found in ranks_run[0]:
        for own, other in zip(found["one store"], expected, strict=True):
            assert torch.equal(own, other)
    for number in range(len(SIZES)):
        for file in ("rows.npy", "checksums.npy"):
            assert filecmp.cmp(
                one / str(number) / file, many / str(number) / file, False
            )
        assert not (many / str(number) / "parts").exists()
        assert open_store(many / str(number)).key == (
            open_store(one / str(number)).key
        )


@pytest.mark.parametrize("where", ["in a folder", "in memory", "in folders"])
def test_row_shards(tmp_path, ranks_run, where):
    expected = _store(tmp_path / "one", ROW_SIZES, {})
    many, size = ranks_run[0], len(ranks_run[0])
    for rank, found in enumerate(many):
        shards = zip(found[where], expected, strict=True)
        for (nodes, own, shard), other in shards:
            assert nodes.tolist() == list(range(rank, other.shape[1], size))
            assert torch.equal(own, other[:, rank::size])
            assert shard == (rank, size)


def _rows_unless_stopped(folder, rank_fails):
    """Compute shards by both ways of sharing; give rows, or errors."""
    if find_ranks().rank == rank_fails:

        def fail(self, counts=None):
            raise KeyboardInterrupt("stopped")

        StoreWriter.finish = fail
    found = {}
    for split in ("columns", "edges"):
        try:
            [(_, rows, _)] = _rows(
                f"{folder}/{split}", ROW_SIZES[:1], {"split": split}
            )
            found[split] = rows
        except (DGLError, KeyboardInterrupt) as error:
            found[split] = str(error)
    return found


def test_row_shards_that_lack_nothing_but_their_end(tmp_path):
    for own in run_ranks(2, _rows_unless_stopped, tmp_path / "many", 1):
        for error in own.values():
            assert "stopped" in error
    expected = _store(tmp_path / "one", ROW_SIZES[:1], {})[0]
    found = run_ranks(2, _rows_unless_stopped, tmp_path / "many", None)
    for rank, own in enumerate(found):
        for rows in own.values():
            assert torch.equal(rows, expected[:, rank::2])


def test_shards_are_opened_by_as_many_ranks(tmp_path):
    run_ranks(2, _rows, tmp_path, ROW_SIZES[:1], {})
    with pytest.raises(DGLError, match="this process is alone"):
        open_store(tmp_path / "0")
    assert open_store(tmp_path / "0" / "shard-1-of-2").shard == (1, 2)
    with pytest.raises(RankErrors) as caught:
        run_ranks(3, _open, tmp_path / "0")
    for error in caught.value.errors.values():
        assert "row shards of 2 ranks, and here are 3" in str(error)


def _open(folder):
    return open_store(folder)


def _bad(case, folder):
    g, x = make()
    rank = find_ranks().rank
    options = {"out": f"{folder}/{case}"}
    if case == "K":
        return block_aggregate(g, x, 2 + rank, **options)
    if case == "features":
        return block_aggregate(g, x + rank, 2, **options)
    if case == "graph":
        return block_aggregate(make(seed=rank)[0], x, 2, **options)
    if case == "not shared":
        shared_store._SEEN_SECONDS = 1.0
        options["out"] = f"{folder}/{rank}"
        return block_aggregate(g, x, 2, **options)
    if case == "split":
        return block_aggregate(g, x, 2, split=(3, 1), **options)
    if case == "one rank fails":
        return block_aggregate(g, x[:10] if rank else x, 2, **options)
    if case == "memory":
        # One rank has less: narrower blocks for all.
        memory = "3MiB" if rank else None
        return list(block_aggregate(g, x, 2, memory=memory, **options))
    if case == "too little memory":
        return block_aggregate(
            g, x, 2, memory=1000 if rank else None, **options
        )
    if case == "rows":
        return block_aggregate(g, x, 2, nodes=[3])
    raise AssertionError(case)


#: Bad calls, and what is said on each rank.
BAD = {
    "K": ["hops is [0, 1, 2] on rank 0 and [0, 1, 2, 3] on rank 1"] * 2,
    "features": ["feat (a digest)"] * 2,
    "graph": ["g (a digest of its edges)"] * 2,
    "not shared": ["does not see what rank 0 wrote there"] * 2,
    "split": ["product of the two should be the number of ranks"] * 2,
    "one rank fails": ["failed on rank 1: feat has 10 rows", "10 rows"],
    "too little memory": ["failed on rank 1: memory", "too small"],
    "rows": ["1 rows can't be shared by 2 ranks"] * 2,
}


def _answers(folder):
    """Make all calls, one after the other; give results and errors."""
    found = {}
    for case in [*BAD, "memory"]:
        try:
            found[case] = _bad(case, folder)
        except DGLError as error:
            found[case] = error
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return run_ranks(2, _answers, tmp_path_factory.mktemp("bad"))


@pytest.mark.parametrize(("case", "texts"), BAD.items())
def test_bad_calls_are_errors_on_all_ranks(answers, case, texts):
    for found, text in zip(answers, texts, strict=True):
        assert isinstance(found[case], DGLError)
        assert text in str(found[case])


def test_ranks_may_have_different_memory(answers):
    # Also after all those errors.
    g, x = make()
    expected = list(block_aggregate(g, x, 2))
    for found in (own["memory"] for own in answers):
        for one, two in zip(expected, found, strict=True):
            torch.testing.assert_close(one, two)
