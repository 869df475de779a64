"""``memory=`` is a promise: what is resident stays below it.

Each process runs a few random calls. DGL_LC_MEMORY_CASES sets how many,
DGL_LC_MEMORY_SEED the first one's seed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from night import cases

import dgl_lc
from dgl_lc.testing.peak_memory import LIVE

CASES = int(os.environ.get("DGL_LC_MEMORY_CASES", cases(3, 40)))
SEED = int(os.environ.get("DGL_LC_MEMORY_SEED", "0"))


#: A graph on disk whose weights, as long as its edges, are of another type
#: than the sums: an array of converted weights would take 16 MB.
WEIGHTED_ON_DISK = {
    "on_disk": True, "weight": "float32", "dtype": "float64",
    "feat": "float64", "n": 50_000, "m": 2_000_000, "columns": 7, "K": 2,
    "hops": [2], "stored": True, "room": 1.0, "threads": 2,
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(60 + 30 * CASES)
@pytest.mark.parametrize("counted", ["resident", "live"])
def test_memory_is_a_promise(counted):
    first = SEED + (CASES if counted == "live" else 0)
    calls = [(seed, {}) for seed in range(first, first + CASES)]
    if counted == "live":
        calls += [(seed, WEIGHTED_ON_DISK) for seed in range(SEED, SEED + 2)]
    check_promise(counted, calls)


def check_promise(counted, calls):
    environment = {**os.environ, **(LIVE if counted == "live" else {})}
    package = str(Path(dgl_lc.__file__).parents[1])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("memory_cases.py")),
         json.dumps(calls)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(calls)
    broken = [
        case
        for case in found
        if case["peak"] > min(case["memory"], case["plan"])
        or case["refused"] > case["refused_limit"]
    ]
    assert not broken, json.dumps(broken, indent=1)
