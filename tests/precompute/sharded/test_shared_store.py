"""One store of many ranks: what a run that failed leaves, and the disk."""

import filecmp
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from dgl import DGLError

from dgl_lc.precompute import block_aggregate
from dgl_lc.precompute.sharded import rank_work
from dgl_lc.precompute.sharded.shared_store import SharedStore
from dgl_lc.ranks import call as calls
from dgl_lc.storage import write_hops
from dgl_lc.storage.free_disk import disk_of
from dgl_lc.storage.write_hops import StoreWriter
from dgl_lc.testing.run_ranks import RankErrors, run_ranks

from .test_ranks import make

#: Large enough that files take most of the disk.
SIZE = (3000, 9000, 64)


def _used(folder):
    return sum(map(disk_of, [folder, *folder.rglob("*")]))


def _compute(folder, ranks_fail, disk=None):
    """Write a store; some ranks fail where they compute their columns.

    They wait until another rank has finished a part, or, if all ranks fail,
    until each of them is about to.
    """
    folder = Path(folder)
    if disk is not None:
        write_hops._SPARE = 0
        shutil.disk_usage = lambda _: type(
            "Usage", (), {"free": disk - _used(folder)}
        )
    if dist.get_rank() in ranks_fail:

        def fail(self, sink, done):
            if len(ranks_fail) == dist.get_world_size():
                dist.barrier()
            else:
                while not _mark_parts(folder):
                    time.sleep(0.01)
            raise KeyboardInterrupt("stopped")

        rank_work.CpuWork.run = fail
    return block_aggregate(*make(*SIZE), 2, out=folder).key


@pytest.fixture
def one(tmp_path):
    folder = tmp_path / "one"
    block_aggregate(*make(*SIZE), 2, out=folder)
    return folder


def same(one, other):
    names = sorted(path.name for path in one.iterdir())
    assert sorted(path.name for path in other.iterdir()) == names
    return filecmp.cmp(one / "rows.npy", other / "rows.npy", False)


def test_one_process_completes_what_ranks_have_begun(one, tmp_path):
    many = tmp_path / "many"
    with pytest.raises(RankErrors, match="stopped"):
        run_ranks(2, _compute, many, [1])
    parts = {path.name for path in (many / "parts").iterdir()}
    assert "columns-32-64" in parts
    block_aggregate(*make(*SIZE), 2, out=many)
    # Nothing is left of the parts, which take as much disk as the store.
    assert same(one, many)


def _mark_parts(folder):
    return {
        path: path.stat().st_ino
        for path in Path(folder).glob("parts/*/manifest.json")
    }


def _resume(folder):
    """Resume a store, and give the parts that were there at the end."""
    seen = {}
    finish = SharedStore.finish

    def watched(self, *rest):
        seen.update(_mark_parts(folder))
        finish(self, *rest)

    SharedStore.finish = watched
    block_aggregate(*make(*SIZE), 2, out=folder)
    return seen


def _compute_until_killed(folder):
    """Write a store; rank 1 is killed when the other has written columns."""
    # The others find out at once.
    calls.BEAT_SECONDS, calls.SILENT_SECONDS = 0.1, 2.0
    calls._FAREWELL_SECONDS = 1.0
    if dist.get_rank() == 1:

        def die(self, sink, done):
            while not _mark_parts(folder):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)

        rank_work.CpuWork.run = die
    block_aggregate(*make(*SIZE), 2, out=folder)


@pytest.mark.parametrize(
    ("run", "args", "text"),
    [(_compute, [[1]], "stopped"), (_compute_until_killed, [], "died")],
)
def test_ranks_keep_the_parts_that_a_run_has_finished(
    one, tmp_path, run, args, text
):
    many = tmp_path / "many"
    with pytest.raises(RankErrors, match=text):
        run_ranks(2, run, many, *args)
    before = _mark_parts(many)
    assert before
    for after in run_ranks(2, _resume, many):
        assert before.items() <= after.items()
    assert same(one, many)


def _compute_edges(folder):
    """Share the edges, twice."""
    for rank in (0, 1):
        options = {"split": "edges", "out": f"{folder}/{rank}"}
        block_aggregate(*make(*SIZE), 2, **options).verify()


def _stop_edges(folder):
    """Share the edges; a rank fails where it finishes its first part."""

    def fail(self, counts=None):
        raise KeyboardInterrupt("stopped")

    for rank in (0, 1):
        options = {"split": "edges", "out": f"{folder}/{rank}"}
        with pytest.MonkeyPatch.context() as patch:
            if dist.get_rank() == rank:
                patch.setattr(StoreWriter, "finish", fail)
            with pytest.raises((DGLError, KeyboardInterrupt), match="stopped"):
                block_aggregate(*make(*SIZE), 2, **options)


def test_a_part_whose_columns_are_all_written_is_not_added_to(one, tmp_path):
    run_ranks(2, _stop_edges, tmp_path)
    run_ranks(2, _compute_edges, tmp_path)
    for rank in (0, 1):
        assert same(one, tmp_path / str(rank))


def _compute_another(folder):
    return block_aggregate(*make(*SIZE), 2, norm="right", out=folder)


def test_parts_of_another_call_are_never_taken(tmp_path):
    many = tmp_path / "many"
    with pytest.raises(RankErrors, match="stopped"):
        run_ranks(2, _compute, many, [1])
    with pytest.raises(RankErrors, match="norm"):
        run_ranks(2, _compute_another, many)
    with pytest.raises(DGLError, match="norm"):
        _compute_another(many)


def test_ranks_resume_on_a_disk_with_room_for_one_run(one, tmp_path):
    many = tmp_path / "many"
    disk = 2 * disk_of(one) + (1 << 18)
    with pytest.raises(RankErrors, match="stopped"):
        run_ranks(2, _compute, many, [0, 1], disk)
    assert 2 * (disk - _used(many)) < disk_of(one)
    run_ranks(2, _compute, many, [], disk)
    assert same(one, many)
    with pytest.raises(RankErrors, match="beside the store needs"):
        run_ranks(2, _compute, tmp_path / "other", [], disk_of(one) + 300_000)


def test_one_process_begins_again_on_a_disk_with_room_for_one(
    one, tmp_path, monkeypatch
):
    # A run of ranks left a file of all rows, which is written again.
    many = tmp_path / "many"
    with pytest.raises(RankErrors, match="stopped"):
        run_ranks(2, _compute, many, [0, 1])
    disk = disk_of(one) + (1 << 18)
    monkeypatch.setattr(write_hops, "_SPARE", 0)
    monkeypatch.setattr(
        shutil, "disk_usage",
        lambda _: type("Usage", (), {"free": max(0, disk - _used(many))}),
    )  # fmt: skip
    block_aggregate(*make(*SIZE), 2, out=many)
    assert same(one, many)


def _count_units(folder):
    """Compute four units of columns; rank 1 takes long for each."""
    count, run = 0, rank_work.CpuWork.run

    def counted(self, sink, done):
        nonlocal count
        count += 1
        time.sleep(1.0 if dist.get_rank() else 0.01)
        run(self, sink, done)

    rank_work.CpuWork.run = counted
    block_aggregate(*make(60, 300, 128), 2, out=folder, split="columns")
    return count


def test_a_fast_rank_takes_more_of_the_columns(tmp_path):
    assert run_ranks(2, _count_units, tmp_path / "many") == [3, 1]


def test_a_finished_store_is_only_read(one, tmp_path):
    times = {path: path.stat().st_mtime_ns for path in (one, *one.iterdir())}
    first, second = run_ranks(2, _compute, one, [])
    assert first == second
    assert times == {
        path: path.stat().st_mtime_ns for path in (one, *one.iterdir())
    }


def test_parts_that_a_kill_left_beside_a_whole_store_are_deleted(one):
    part = one / "parts" / "columns-0-8"
    block_aggregate(*make(), 1, out=part)
    run_ranks(2, _compute, one, [])
    assert not (one / "parts").exists()
    assert torch.equal(
        block_aggregate(*make(*SIZE), 2, out=one)[2],
        block_aggregate(*make(*SIZE), 2, out=one.with_name("again"))[2],
    )
