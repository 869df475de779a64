"""From raw files to hop features, killed again and again."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dgl_lc.data import DiskData, write_papers_like
from dgl_lc.precompute import open_store

WORK = """
import sys
import torch
from dgl_lc.data import prepare_ogb
from dgl_lc.precompute import block_aggregate

root, out = sys.argv[1:]
data = prepare_ogb(root, out + "/data", memory="64MiB")
nodes = torch.cat([data.train, data.valid, data.test])
block_aggregate(
    data.graph, data.feat, 3, nodes=nodes, memory="40MiB", out=out + "/hops"
)
"""


def run(root, out, seconds=None):
    """Whether it came to its end before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", WORK, root, out])
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(Path(folder).rglob("*.npy"))
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_twenty_times(tmp_path):
    root = tmp_path / "raw"
    write_papers_like(root, 0.002)
    start = time.monotonic()
    assert run(root, str(tmp_path / "calm"))
    whole = time.monotonic() - start
    rng = random.Random(0)
    kills = ended = 0
    while kills < 20:
        out = str(tmp_path / f"run{ended}")
        # Python and torch take seconds to start: those are not interesting.
        if run(root, out, rng.uniform(0.45, 0.95) * whole):
            ended += 1
        else:
            kills += 1
    out = str(tmp_path / f"run{ended}")
    assert run(root, out)
    ended += 1
    calm = files(tmp_path / "calm")
    for number in range(ended):
        assert files(tmp_path / f"run{number}") == calm
    print(f"killed {kills} times, came to its end {ended} times")
    DiskData(f"{out}/data").verify()
    open_store(f"{out}/hops").verify()
