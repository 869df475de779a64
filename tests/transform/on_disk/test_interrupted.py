"""Runs that are killed at any moment resume; nothing stale is used."""

import errno
import os
import signal
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from night import NIGHT
from torch.nn import functional as F
from transform.on_disk.disk_cases import Model, OnDisk, gcn

from dgl_lc import lc_transform
from dgl_lc.precompute import open_store
from dgl_lc.storage import manifest, npy_file
from dgl_lc.transform.on_disk import run_steps


@pytest.fixture(autouse=True)
def one_thread():
    """Processes are forked, which threads do not survive."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def several_steps(self, g, x):
    """Scaling by hand, a reverse, computed weights and loops: all steps."""
    looped = dgl.add_self_loop(g)
    scale = (1.0 + g.in_degrees()).pow(-0.3).unsqueeze(1)
    g.ndata["d"] = g.out_degrees().float().clamp(min=1).pow(-0.5)
    g.apply_edges(dgl.function.u_mul_v("d", "d", "w"))
    h = F.relu(self.fc(F.normalize(x, dim=1)))
    h = dgl.ops.copy_u_sum(g, h * scale) * scale
    h = h + dgl.ops.copy_u_mean(dgl.reverse(g), F.relu(self.fc(x)))
    h = dgl.ops.u_mul_e_sum(g, h.relu(), g.edata["w"])
    return dgl.ops.copy_u_sum(looped, h)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    found = OnDisk(tmp_path_factory.mktemp("task"))
    found.lc = lc_transform(Model(several_steps), found.sample, found.sample_x)
    return found


def files(folder):
    """The numbers of a store, without files that hold times."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(Path(folder).rglob("*.npy"))
    }


def run_and_kill(call, event):
    """Kill a process at its n-th event; return whether it came to its end.

    An event is a file that is replaced, deleted or appended to.
    """
    child = os.fork()
    if child == 0:
        count = 0

        def counted(function):
            def wrapper(*args, **options):
                nonlocal count
                count += 1
                if count == event:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **options)

            return wrapper

        os.replace = counted(os.replace)
        os.unlink = counted(os.unlink)
        Path.unlink = counted(Path.unlink)
        npy_file.GrowingArray.append = counted(npy_file.GrowingArray.append)
        manifest.write_draft = counted(manifest.write_draft)
        run_steps.StoreWriter.write_rows = counted(
            run_steps.StoreWriter.write_rows
        )
        try:
            call()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [None, [5, 3, 77]])
def test_killed_at_any_moment(task, tmp_path, nodes):
    def call(out):
        return task.lc.precompute(
            task.graph, task.features, nodes=nodes, out=out, memory="64MiB",
            progress=False,
        )  # fmt: skip

    call(tmp_path / "calm")
    expected = files(tmp_path / "calm")
    event, ended = 1 if nodes is None else 2, False
    while not ended:
        out = tmp_path / f"run{event}"
        ended = run_and_kill(lambda out=out: call(out), event)
        if not ended:
            # Killed a second time, while it resumes.
            last = event
            run_and_kill(lambda out=out: call(out), 7)
        call(out).verify()
        assert files(out) == expected, event
        assert not (out / "work").exists()
        # By day each moment is about three times as late as the one before, at
        # night a quarter later. There are hundreds, other ones in each case.
        event += 1 + (event // 4 if NIGHT else 2 * event)
    assert last > 36


def test_a_killed_run_resumes_after_its_last_step(task, tmp_path, monkeypatch):
    names = []
    run = run_steps.Runner._run

    def noted(self, step, *rest):
        names.append(step.name)
        if len(names) == 5:
            raise KeyboardInterrupt
        run(self, step, *rest)

    monkeypatch.setattr(run_steps.Runner, "_run", noted)
    call = (task.graph, task.features)
    with pytest.raises(KeyboardInterrupt):
        task.lc.precompute(*call, out=tmp_path / "s")
    task.lc.precompute(*call, out=tmp_path / "s")
    # Only the step that failed is done twice.
    assert len(names) == len(set(names)) + 1


def test_nothing_stale_is_used(task, tmp_path):
    class Power(torch.nn.Module):
        def __init__(self, power):
            super().__init__()
            self.power, self.fc = power, torch.nn.Linear(6, 5)

        def forward(self, g, x):
            scale = (1.0 + g.in_degrees()).pow(self.power).unsqueeze(1)
            x = F.leaky_relu(x, -self.power)
            return dgl.ops.copy_u_sum(g, self.fc(x) * scale)

    def made(power):
        return lc_transform(Power(power), task.sample, task.sample_x)

    other = OnDisk(tmp_path, seed=5)
    out = tmp_path / "s"
    first = made(-0.3)
    first.precompute(task.graph, task.features, out=out)
    before = files(out)
    for lc, call, options in (
        (made(-0.4), (task.graph, task.features), {}),
        (first, (other.graph, task.features), {}),
        (first, (task.graph, other.features), {}),
        (first, (task.graph, task.features), {"nodes": [3]}),
        (first, (task.graph, task.features), {"dtype": torch.float16}),
        (lc_transform(gcn(), task.sample, task.sample_x),
         (task.graph, task.features), {}),
    ):  # fmt: skip
        with pytest.raises(dgl.DGLError, match="holds something else"):
            lc.precompute(*call, out=out, **options)
        assert files(out) == before
    found = made(-0.4).precompute(
        task.graph, task.features, out=out, resume=False
    )
    expected = made(-0.4).precompute(task.g, task.x)
    for one, own in zip(found, expected, strict=True):
        torch.testing.assert_close(one, own, rtol=1e-5, atol=1e-5)


def test_an_unfinished_run_of_something_else(task, tmp_path, monkeypatch):
    """A folder with steps of other features is not mixed with new ones."""
    other = OnDisk(tmp_path, seed=5)
    out, names = tmp_path / "s", []
    write = run_steps.Runner._write

    def failing(self, step, about, resume):
        names.append(step.name)
        if len(names) == 2:
            raise KeyboardInterrupt
        write(self, step, about, resume)

    monkeypatch.setattr(run_steps.Runner, "_write", failing)
    with pytest.raises(KeyboardInterrupt):
        task.lc.precompute(task.graph, task.features, out=out)
    monkeypatch.undo()
    with pytest.raises(dgl.DGLError, match="holds something else"):
        task.lc.precompute(other.graph, other.features, out=out)
    found = task.lc.precompute(
        other.graph, other.features, out=out, resume=False
    )
    expected = task.lc.precompute(other.g, other.x)
    for one, own in zip(found, expected, strict=True):
        torch.testing.assert_close(one, own, rtol=1e-4, atol=1e-4)
    assert not (out / "work").exists()


def test_a_full_disk_loses_nothing(task, tmp_path, monkeypatch):
    write = run_steps.StoreWriter.write_rows
    calls = []

    def full(self, low, values):
        calls.append(low)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "no space")
        write(self, low, values)

    monkeypatch.setattr(run_steps.StoreWriter, "write_rows", full)
    out = tmp_path / "s"
    with pytest.raises(dgl.DGLError, match="disk is full"):
        task.lc.precompute(task.graph, task.features, out=out)
    monkeypatch.undo()
    task.lc.precompute(task.graph, task.features, out=out).verify()


def test_files_of_others_stay(task, tmp_path):
    out = tmp_path / "s"
    (out / "work").mkdir(parents=True)
    (out / "work" / "notes.txt").write_text("mine")
    task.lc.precompute(task.graph, task.features, out=out)
    assert (out / "work" / "notes.txt").read_text() == "mine"
    open_store(out).verify()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(dgl.DGLError, match=r"notes\.txt"):
        task.lc.precompute(task.graph, task.features, out=tmp_path / "other")


def test_mapped_files_that_were_not_compared_are_named(task, tmp_path):
    np.save(tmp_path / "x.npy", task.x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    lc = lc_transform(gcn(), task.sample, task.sample_x)
    lc.precompute(task.graph, mapped, out=tmp_path / "s")
    with pytest.warns(dgl.base.DGLWarning, match="memory map of a file"):
        lc.precompute(task.graph, mapped, out=tmp_path / "s")
