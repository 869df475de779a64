"""Checkpoints: what they resume, and that they are not shared."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest
import torch
from dgl import DGLError
from tiny_task import DATA, DEEP, SPLIT, make, run, stray

from dgl_lc.nn import LCGPRGNN
from dgl_lc.training import epochs as epochs_module
from dgl_lc.training import fit
from dgl_lc.training.epochs import TrainingRun
from dgl_lc.training.history import COLUMNS
from dgl_lc.training.tensor_files import locked


@pytest.fixture(scope="module")
def hops():
    return make().precompute(DATA.graph, DATA.feat)


@pytest.fixture(scope="module")
def deep_hops():
    return make(LCGPRGNN, **DEEP).precompute(DATA.graph, DATA.feat)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "run.pt"


def assert_same(found, expected):
    """The same run: its history, its best epoch and its weights."""
    (fit_a, model_a), (fit_b, model_b) = found, expected
    for column in ("train_loss", "valid_loss", "valid_accuracy"):
        a, b = fit_a.history[column], fit_b.history[column]
        assert a.tolist() == b.tolist()
    assert fit_a.history.index.tolist() == fit_b.history.index.tolist()
    assert fit_a.best_epoch == fit_b.best_epoch
    for key, value in model_b.state_dict().items():
        assert torch.equal(model_a.state_dict()[key], value), key


def interrupt_after(epoch):
    def stop(row):
        if row["epoch"] == epoch:
            raise KeyboardInterrupt

    return stop


def interrupt_in_call(model, number, training):
    """Interrupt in a call of the model, counted from 1."""
    seen = []

    def stop(*_):
        seen.extend([1] * (model.training == training))
        if len(seen) == number:
            raise KeyboardInterrupt

    model.register_forward_pre_hook(stop)


# Resuming


def test_an_interrupted_run_resumes_where_it_was(deep_hops, file):
    expected = run(deep_hops)
    with pytest.raises(KeyboardInterrupt):
        run(deep_hops, checkpoint=file, on_epoch=interrupt_after(4))
    rows = []
    found = run(deep_hops, checkpoint=file, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [5, 6, 7, 8]
    assert_same(found, expected)
    # Finished: called again, there is nothing left to do.
    rows.clear()
    found = run(deep_hops, checkpoint=file, on_epoch=rows.append)
    assert_same(found, expected)
    assert rows == []
    assert stray(file) == []


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("periodic", [True, False])
def test_an_interruption_within_an_epoch_keeps_the_last_whole_one(
    deep_hops, file, training, periodic, monkeypatch
):
    if periodic:
        monkeypatch.setattr(epochs_module, "_CHECKPOINT_SECONDS", 0.0)
    expected = run(deep_hops)
    steps = -(-len(DATA.train) // 64) if training else 1
    assert steps > 2 or not training
    model = make(LCGPRGNN, **DEEP)
    # In epoch 4; in training, after two of its steps changed the weights.
    interrupt_in_call(model, 3 * steps + (3 if training else 1), training)
    with pytest.raises(KeyboardInterrupt):
        run(deep_hops, model=model, checkpoint=file)
    rows = []
    found = run(deep_hops, checkpoint=file, on_epoch=rows.append)
    assert [row["epoch"] for row in rows] == [4, 5, 6, 7, 8]
    assert_same(found, expected)


def test_an_interruption_in_the_first_epoch_writes_nothing(deep_hops, file):
    model = make(LCGPRGNN, **DEEP)
    interrupt_in_call(model, 2, True)
    with pytest.raises(KeyboardInterrupt):
        run(deep_hops, model=model, checkpoint=file)
    assert os.listdir(file.parent) == []


def test_a_resumed_run_that_is_interrupted_at_once_keeps_its_file(
    deep_hops, file
):
    run(deep_hops, 3, checkpoint=file)
    before = file.read_bytes()
    model = make(LCGPRGNN, **DEEP)
    interrupt_in_call(model, 2, True)
    with pytest.raises(KeyboardInterrupt):
        run(deep_hops, model=model, checkpoint=file)
    assert file.read_bytes() == before
    assert_same(run(deep_hops, checkpoint=file), run(deep_hops))


def test_a_finished_run_continues_with_more_epochs(deep_hops, file):
    # The best epoch is an early one: what continues is the last epoch.
    options = {"lr": 0.3, "monitor": "accuracy"}
    expected = run(deep_hops, 12, **options)
    first, _ = run(deep_hops, 8, checkpoint=file, **options)
    assert first.best_epoch < 8
    assert_same(run(deep_hops, 12, checkpoint=file, **options), expected)


def test_an_exhausted_run_continues_with_more_patience(deep_hops, file):
    options = {"lr": 0.3, "monitor": "accuracy"}
    expected = run(deep_hops, 12, **options)
    first, _ = run(deep_hops, 12, checkpoint=file, **options, patience=1)
    assert len(first.history) < 12
    assert_same(run(deep_hops, 12, checkpoint=file, **options), expected)


def test_what_is_written_each_epoch_is_a_copy(deep_hops, file, monkeypatch):
    """No tensor of a state shares memory with what training changes."""
    states = []
    real = TrainingRun.state

    def spy(self):
        found = real(self)
        live = {p.data_ptr() for p in self.model.state_dict().values()}
        for parts in self.optimizer.state_dict()["state"].values():
            live |= {v.data_ptr() for v in parts.values()}
        kept = list(found["model"].values()) + list(found["best"].values())
        for parts in found["optimizer"]["state"].values():
            kept += parts.values()
        assert live.isdisjoint(v.data_ptr() for v in kept)
        states.append((found, [v.clone() for v in kept], kept))
        return found

    monkeypatch.setattr(TrainingRun, "state", spy)
    run(deep_hops, 3, checkpoint=file)
    assert len(states) == 4
    for found, before, kept in states:
        assert all(torch.equal(a, b) for a, b in zip(before, kept, strict=True))
        assert len(found["rows"]) == found["epoch"]


def test_what_a_callback_changes_is_resumed(deep_hops, file):
    def go(interrupt=None, **options):
        model = make(LCGPRGNN, **DEEP)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        if interrupt is not None:
            interrupt_in_call(model, interrupt, True)

        def on_epoch(row):
            # A schedule, and draws from the generator of dropout.
            optimizer.param_groups[0]["lr"] *= 0.5
            torch.rand(3)

        return run(deep_hops, 6, model, optimizer=optimizer,
                   on_epoch=on_epoch, **options)  # fmt: skip

    expected = go()
    steps = -(-len(DATA.train) // 64)
    with pytest.raises(KeyboardInterrupt):
        go(interrupt=3 * steps + 2, checkpoint=file)
    assert_same(go(checkpoint=file), expected)


def test_the_generator_of_a_gpu_is_kept(monkeypatch):
    monkeypatch.setattr(
        epochs_module, "model_device", lambda model: torch.device("cuda", 0)
    )
    states = {"now": torch.tensor([1, 2], dtype=torch.uint8)}
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device: states["now"]
    )
    monkeypatch.setattr(
        torch.cuda, "set_rng_state",
        lambda state, device: states.update(now=state),
    )  # fmt: skip
    model = make()
    training = TrainingRun(
        model, torch.optim.Adam(model.parameters()), "loss", 3
    )
    row = dict.fromkeys(COLUMNS, 0.0)
    training.epoch = training.best_epoch = 1
    training.rows, training.best_score = [row], 0.5
    state = training.state()
    states["now"] = torch.tensor([3, 4], dtype=torch.uint8)
    training.load(state)
    assert states["now"].tolist() == [1, 2]
    # A run that began on the CPU resumes on a GPU, too.
    del state["cuda_generator"]
    training.load(state)


# Starting again


def test_resume_false_starts_again(hops, file):
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)
    rows = []
    fit(make(), hops, *SPLIT, epochs=3, checkpoint=file, lr=0.5, resume=False,
        on_epoch=rows.append)  # fmt: skip
    assert len(rows) == 3
    fit(make(), hops, *SPLIT, epochs=4, checkpoint=file, lr=0.5)


def test_what_a_file_can_not_hold_is_refused_at_once(hops, file):
    model = make()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.param_groups[0]["odd"] = object()
    rows = []
    with pytest.raises(DGLError, match=r"optimizer.*'odd'.* is a object"):
        fit(model, hops, *SPLIT, epochs=2, checkpoint=file,
            optimizer=optimizer, on_epoch=rows.append)  # fmt: skip
    assert rows == []


def test_a_checkpoint_of_format_1_is_refused(hops, file):
    file.parent.mkdir()
    old = {"kind": "checkpoint", "format": 1, "name": "SGC", "shapes": {},
           "settings": {}, "state": {}}  # fmt: skip
    torch.save(old, file)
    with pytest.raises(DGLError, match=r"earlier version.*resume=False"):
        fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
    fit(make(), hops, *SPLIT, epochs=1, checkpoint=file, resume=False)
    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file)


# Locks


def test_two_runs_do_not_share_a_checkpoint(hops, file):
    def second(row):
        with pytest.raises(DGLError, match="used by another run"):
            fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
        # Another file in the same folder is another run's.
        fit(make(), hops, *SPLIT, epochs=1, checkpoint=file.parent / "b.pt")

    fit(make(), hops, *SPLIT, epochs=2, checkpoint=file, on_epoch=second)
    assert stray(file) == ["b.pt"]


HOLD = """
import sys, time
from pathlib import Path
from dgl_lc.training.tensor_files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(100)
"""


def test_a_killed_run_leaves_no_lock(hops, file):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"locked\n"
        try:
            with pytest.raises(DGLError, match="used by another run"):
                fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
        finally:
            process.send_signal(signal.SIGKILL)
    fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
    assert stray(file) == []


def test_a_lock_is_never_taken_through_a_link(hops, file, tmp_path):
    file.parent.mkdir()
    (file.parent / ".run.pt.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DGLError, match="can't be written"):
        fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_in_place_of_the_lock_is_refused_and_kept(file):
    pipe = file.parent / ".run.pt.lock"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with (
        pytest.raises(DGLError, match="not a regular file: remove it"),
        locked(file),
    ):
        pass
    assert pipe.is_fifo()


def test_a_lock_that_was_removed_meanwhile_is_taken_again(file, monkeypatch):
    real, taken = fcntl.flock, []

    def late(number, how):
        # Between opening and locking, whoever had the lock removes its file.
        if not taken:
            os.unlink(file.parent / ".run.pt.lock")
        taken.append(number)
        real(number, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(file):
        assert len(taken) == 2
        with pytest.raises(DGLError, match="used by another run"), locked(file):
            pass


def test_a_file_that_only_has_the_name_of_a_lock_is_kept(file):
    file.parent.mkdir()
    other = file.parent / ".run.pt.lock"
    other.write_text("precious")
    with locked(file):
        pass
    assert other.read_text() == "precious"


def test_a_forked_process_does_not_keep_the_lock(file):
    file.parent.mkdir()
    (file.parent / ".run.pt.lock").write_text("not removed")
    ready, wait = os.pipe(), os.pipe()
    with locked(file):
        child = os.fork()
        if child == 0:
            os.write(ready[1], b"x")
            os.read(wait[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
    try:
        with locked(file):
            pass
    finally:
        os.write(wait[1], b"x")
        os.waitpid(child, 0)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_a_warning(
    hops, file, number, monkeypatch
):
    def refuse(*_):
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="can't be locked.*no locks here"):
        fit(make(), hops, *SPLIT, epochs=1, checkpoint=file)
    assert file.exists()


def test_a_folder_that_can_not_be_made_is_named_before_training(tmp_path, hops):
    (tmp_path / "file").write_text("")
    rows = []
    with pytest.raises(DGLError, match=r"run.pt can't be written"):
        fit(make(), hops, *SPLIT, epochs=1, on_epoch=rows.append,
            checkpoint=tmp_path / "file" / "run.pt")  # fmt: skip
    assert rows == []
