"""Which way of shuffling a run takes, and that it resumes the same way."""

import logging

import pytest
import torch
from dgl import DGLError
from ranks_task import HOPS as RANK_HOPS
from ranks_task import Net, assert_equal, together, train_with
from test_checkpoint import assert_same, interrupt_after
from tiny_task import DATA, DEEP, SPLIT, make, run

from dgl_lc.nn import LCGPRGNN
from dgl_lc.training import decide_shuffle as module
from dgl_lc.training import fit, self_train
from dgl_lc.training.checkpoint import Checkpoint
from dgl_lc.training.chunk_order import RowChunks

#: Several buffers in an epoch of the 64 nodes of each batch.
BUFFER = "8KiB"


@pytest.fixture
def store(tmp_path):
    return make(LCGPRGNN, **DEEP).precompute(
        DATA.graph, DATA.feat, out=tmp_path / "hops"
    )


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "run.pt"


@pytest.fixture
def memory(monkeypatch):
    """Set how much memory may be used."""
    return lambda size: monkeypatch.setattr(module, "_available", lambda: size)


def chunked(hops, **options):
    return run(hops, shuffle="chunks", shuffle_buffer=BUFFER, **options)


def test_an_interrupted_run_in_chunks_resumes_exactly(store, file):
    expected = chunked(store)
    assert expected[0].shuffle == "chunks of 2, of which 64 rows mix"
    with pytest.raises(KeyboardInterrupt):
        chunked(store, checkpoint=file, on_epoch=interrupt_after(4))
    assert_same(chunked(store, checkpoint=file), expected)
    # It is another run than one whose rows are all shuffled together.
    full = run(store)[0].history.train_loss.tolist()
    assert expected[0].history.train_loss.tolist() != full


def test_rows_in_memory_and_on_disk_train_alike(store):
    held = make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)
    one, other = (chunked(hops)[0].history for hops in (store, held))
    assert one.train_loss.tolist() == pytest.approx(other.train_loss.tolist())


@pytest.mark.parametrize(
    ("size", "on_disk", "kind", "words"),
    [
        (1 << 40, False, "full", "rows are in memory; all are shuffled"),
        (1, False, "full", "rows are in memory"),
        (1 << 40, True, "full", r"mapped from disk \(.*which fits in half"),
        (1, True, "chunks", r"read from disk \(.*does not fit.*in chunks of"),
    ],
)
def test_the_choice_is_logged(
    store, memory, size, on_disk, kind, words, caplog
):
    memory(size)
    hops = store
    if not on_disk:
        hops = make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)
    with caplog.at_level(logging.INFO, "dgl_lc"):
        found, _ = run(hops, 1)
    assert found.shuffle.startswith(kind)
    assert len(caplog.messages) == 1
    pattern = pytest.raises(AssertionError, match=words)
    with pattern:
        raise AssertionError(caplog.messages[0])


@pytest.mark.parametrize("first", [1, 1 << 40])
def test_a_resumed_run_does_not_look_at_the_memory(
    store, file, memory, first, caplog
):
    memory(first)
    expected = run(store)
    with pytest.raises(KeyboardInterrupt):
        run(store, checkpoint=file, on_epoch=interrupt_after(4))
    memory((1 << 40) + 1 - first)
    with caplog.at_level(logging.INFO, "dgl_lc"):
        found = run(store, checkpoint=file)
    assert_same(found, expected)
    assert found[0].shuffle == expected[0].shuffle
    assert "as the checkpoint says" in caplog.text
    # Started again, it does.
    again = run(store, 1, checkpoint=file, resume=False)
    assert again[0].shuffle != expected[0].shuffle


def test_another_way_than_that_of_the_checkpoint_is_refused(store, file):
    run(store, 2, checkpoint=file)
    with pytest.raises(DGLError, match=r"its shuffle is 'full', that of this"):
        chunked(store, checkpoint=file)
    chunked(store, checkpoint=file, epochs=2, resume=False)
    for options in (
        {"shuffle": "full"}, {"shuffle": "chunks"},
        {"shuffle": "chunks", "shuffle_buffer": "256KiB"},
    ):  # fmt: skip
        with pytest.raises(DGLError, match="its shuffle is 'chunks of 2, of"):
            run(store, checkpoint=file, **options)


def test_a_run_of_an_earlier_version_shuffled_all_rows(
    store, file, memory, monkeypatch
):
    real = Checkpoint.write

    def without(self, state):
        run = {k: v for k, v in self._run.items() if k != "shuffle"}
        real(Checkpoint(self._path, run), state)

    expected = run(store)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", without)
        run(store, 4, checkpoint=file)
    memory(1)
    assert_same(run(store, checkpoint=file), expected)


def test_a_checkpoint_of_anything_else_is_still_refused(store, file, memory):
    file.parent.mkdir()
    file.write_text("not a checkpoint")
    with pytest.raises(DGLError, match=r"can't be read as a checkpoint"):
        run(store, checkpoint=file)


def test_later_stages_do_as_the_first(store, memory, file):
    sizes = iter([1, 1 << 40, 1 << 40])
    memory(1)
    seen = []

    def on_epoch(row):
        seen.append(row["stage"])
        memory(next(sizes, 1 << 40))

    options = {"threshold": 0.11, "epochs": 2, "batch_size": 64}
    expected = self_train(
        make(LCGPRGNN, **DEEP), store, *SPLIT, stages=2, shuffle="chunks",
        **options,
    )  # fmt: skip
    found = self_train(
        make(LCGPRGNN, **DEEP), store, *SPLIT, stages=2, checkpoint=file,
        on_epoch=on_epoch, **options,
    )  # fmt: skip
    assert seen == [1, 1, 2, 2]
    assert (
        found.history.train_loss.tolist()
        == expected.history.train_loss.tolist()
    )


def _train(batch_size):
    return train_with(
        Net(), batch_size=batch_size, shuffle="chunks", shuffle_buffer="8KiB"
    )


def test_ranks_train_as_one_process(tmp_path):
    assert RANK_HOPS.row_bytes * 8 < 8 << 10
    assert_equal(together(2, _train, 4), _train(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle": "none"}, "shuffle='none' should be one of auto, full"),
        ({"shuffle": True}, "shuffle=True should be one of auto, full"),
        ({"shuffle": "full", "shuffle_buffer": "1GiB"}, "shuffle_buffer is"),
        ({"shuffle_buffer": "lots"}, "shuffle_buffer='lots'"),
    ],
)
def test_wrong_options_are_named(store, options, message):
    with pytest.raises(DGLError, match=message):
        fit(make(), store, *SPLIT, **options)


def test_a_whole_graph_is_not_shuffled():
    with pytest.raises(DGLError, match="is for hop features, and inputs"):
        fit(make(), (DATA.graph, DATA.feat), *SPLIT, shuffle="chunks")


def test_chunks_of_a_checkpoint_are_taken_as_they_are(store):
    chunks = RowChunks(3, 128)
    found, _ = run(store, 1, shuffle=chunks)
    assert found.shuffle == str(chunks)
    assert torch.is_tensor(store[1])
