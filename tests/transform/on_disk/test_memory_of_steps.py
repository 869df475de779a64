"""``memory=`` counts everything: what is resident stays below it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from night import NIGHT
from transform.on_disk.disk_memory_cases import CASES

import dgl_lc
from dgl_lc.testing.peak_memory import LIVE

#: By day, a model with weights of edges on disk, one whose features are made
#: in memory, and one in memory with a result on disk; at night, all of them.
TRIED = list(CASES) if NIGHT else ["sums", "held features", "stored odd power"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(600)
def test_memory_is_a_promise(tmp_path):
    tests = Path(__file__).parents[2]
    package = Path(dgl_lc.__file__).parents[1]
    paths = [str(package), str(tests), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ, **LIVE,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }  # fmt: skip
    script = Path(__file__).with_name("disk_memory_cases.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *TRIED],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case["case"] for case in found] == TRIED
    broken = [
        case
        for case in found
        if case["peak"] > case["memory"] or case["refused"]
    ]
    assert not broken, json.dumps(broken, indent=1)
