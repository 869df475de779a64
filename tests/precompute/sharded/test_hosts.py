"""Ranks under torchrun: on several hosts, killed, and with the cable cut."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from dgl_lc.precompute import block_aggregate
from dgl_lc.testing.hosts import make_hosts, why_no_hosts

from . import rank_script

#: Without it, torchrun of torch 2.13 gives ranks that it has restarted the
#: addresses of those that died.
RESTARTS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
SCRIPT = str(Path(rank_script.__file__))
REASON = why_no_hosts()
#: What is said of a host that cannot be reached, and what it says.
SILENT = "rank 1 (node 1) shows no sign of life"
LOST = "the store of the process group cannot be reached (no answer in 8 s)"
needs_hosts = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def expected(tmp_path):
    g, x, _ = rank_script.make()
    return torch.stack(list(block_aggregate(g, x, 2, out=tmp_path / "one")))


def command(folder, **options):
    folder.mkdir(exist_ok=True)
    return [SCRIPT, str(folder), json.dumps(options)]


def check_rows(folders, wanted):
    """Compare what each rank has with the rows of one process."""
    seen = 0
    for folder in folders:
        for file in sorted(folder.glob("result-*.npz")):
            found = np.load(file)
            rows = wanted[:, torch.from_numpy(found["nodes"])].numpy()
            assert np.array_equal(found["rows"], rows)
            seen += 1
    return seen


def wait(processes, seconds=200):
    end = time.monotonic() + seconds
    codes = [p.wait(max(1, end - time.monotonic())) for p in processes]
    return codes


# By day, ranks of one host have folders of their own: see test_ranks.py.
@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize(("count", "split"), [(2, "columns"), (3, "edges")])
def test_hosts_without_a_shared_folder(tmp_path, count, split):
    wanted = expected(tmp_path)
    folders = [tmp_path / f"host-{host}" for host in range(count)]
    with make_hosts(count) as hosts:
        running = [
            hosts.torchrun(
                host, 1,
                command(
                    folder, out=str(folder / "store"), shared=False,
                    split=split, train=True,
                ),
            )
            for host, folder in enumerate(folders)
        ]  # fmt: skip
        assert wait(running) == [0] * count
        sent = hosts.sent_bytes(0)
    assert check_rows(folders, wanted) == count
    # What is sent: two hops of the rows of the others, in half of the
    # columns, or less.
    assert sent > 2 * 4 * rank_script.NODES * rank_script.COLUMNS / 8
    # Every rank gets the predictions of all rows.
    first, *others = [
        np.load(folder / f"result-{rank}.npz")["logits"]
        for rank, folder in enumerate(folders)
    ]
    assert first.shape == (rank_script.NODES, 3)
    for other in others:
        assert np.array_equal(first, other)


@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize("split", ["columns", "edges"])
def test_a_cut_cable_is_an_error_and_the_next_run_resumes(tmp_path, split):
    wanted = expected(tmp_path)
    folders = [tmp_path / f"host-{host}" for host in range(2)]
    logs = [tmp_path / f"log-{host}" for host in range(2)]

    def start(hosts, slow):
        running = []
        for host, (folder, log) in enumerate(zip(folders, logs, strict=True)):
            call = command(
                folder, out=str(folder / "store"), shared=False, split=split,
                slow=slow, silent=8,
            )  # fmt: skip
            with log.open("w") as file:
                running.append(hosts.torchrun(host, 1, call, stderr=file))
        return running

    def find_progress():
        return (folders[1] / "store").exists()

    with make_hosts(2) as hosts:
        running = start(hosts, 6.0)
        wait_until(find_progress)
        time.sleep(4)
        hosts.cut(1)
        # Both sides say what is wrong. Their agents may wait for long.
        for log, text in zip(logs, [SILENT, LOST], strict=True):
            wait_until(lambda log=log, text=text: text in log.read_text())
        for process in running:
            process.kill()
        kill_ranks(folders)
        wait(running)
        assert not list(tmp_path.glob("host-*/result-*"))
        hosts.mend(1)
        assert wait(start(hosts, 0.0)) == [0, 0]
    assert check_rows(folders, wanted) == 2


def wait_until(is_so, seconds=120):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def kill_ranks(folders):
    for file in [file for own in folders for file in own.glob("pid-*")]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def _kill_ranks(folder, agent, kills, chance):
    """Kill ranks at random moments, as long as the agent runs."""
    done = 0
    while agent.poll() is None and done < kills:
        time.sleep(chance.uniform(0.5, 12))
        files = sorted(folder.glob("pid-*"))
        if files and agent.poll() is None:
            pid = int(chance.choice(files).read_text())
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                done += 1
    return done


def start_two(folder, restarts, **options):
    """Start two ranks under torchrun, which restarts them."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node=2", f"--max-restarts={restarts}",
         *command(folder, out=str(folder / "store"), **options)],
        stderr=subprocess.DEVNULL, env={**os.environ, **RESTARTS},
    )  # fmt: skip


#: How many ranks are killed, for each way of computing: 21 in all.
KILLS = 7


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("split", "shared"), [("columns", True), ("edges", True), ("edges", False)]
)
def test_killed_ranks_lose_nothing(tmp_path, split, shared):
    wanted, chance = expected(tmp_path), random.Random(split)
    killed = run = 0
    while killed < KILLS:
        # A run that ends before all of them is followed by another.
        folder = tmp_path / f"ranks-{run}"
        agent = start_two(
            folder, 100, shared=shared, split=split, slow=1.5, train=True
        )
        killed += _kill_ranks(folder, agent, KILLS - killed, chance)
        assert wait([agent], 600) == [0]
        assert check_rows([folder], wanted) == 2
        run += 1
    assert killed == KILLS


# By day, a rank is killed without torchrun: see test_shared_store.py.
@pytest.mark.slow
def test_one_rank_killed_resumes(tmp_path):
    wanted = expected(tmp_path)
    folder = tmp_path / "ranks"
    # Rank 1 does not get further than its first columns, however busy the
    # machine is, before rank 0 has written some.
    agent = start_two(folder, 2, hangs=1)
    parts = folder / "store" / "parts"
    wait_until(lambda: list(parts.glob("*/manifest.json")))
    os.kill(int((folder / "pid-1").read_text()), signal.SIGKILL)
    assert wait([agent]) == [0]
    # What was finished is not computed again.
    logs = [log.read_text().split() for log in folder.glob("computed-*")]
    columns = [first for log in logs for first in log]
    assert len(columns) == len(set(columns)) > 1
    assert check_rows([folder], wanted) == 2
