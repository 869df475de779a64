"""``memory=`` is a promise: what is resident stays below it.

Each process runs a few random calls. DGL_LC_MEMORY_CASES sets how many (8),
DGL_LC_MEMORY_SEED the first one's seed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dgl_lc
from dgl_lc.testing.peak_memory import LIVE

CASES = int(os.environ.get("DGL_LC_MEMORY_CASES", "8"))
SEED = int(os.environ.get("DGL_LC_MEMORY_SEED", "0"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(60 + 30 * CASES)
@pytest.mark.parametrize("counted", ["resident", "live"])
def test_memory_is_a_promise(counted):
    environment = {**os.environ, **(LIVE if counted == "live" else {})}
    package = str(Path(dgl_lc.__file__).parents[1])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    first = SEED + (CASES if counted == "live" else 0)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("memory_cases.py")),
         str(first), str(CASES)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == CASES
    broken = [
        case
        for case in found
        if case["peak"] > min(case["memory"], case["plan"])
        or case["refused"] > case["refused_limit"]
    ]
    assert not broken, json.dumps(broken, indent=1)
