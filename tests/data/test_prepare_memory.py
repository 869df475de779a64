"""The argument ``memory`` of ``prepare`` is a promise: peaks, measured."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

CHILD = """
import json, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from prepare_cases import arguments, make_content
from dgl_lc.data import prepare
from dgl_lc.testing.peak_memory import peak_memory

folder, memory = Path(sys.argv[1]), 96 << 20
for form in ("csv", "parquet", "csv.gz", "list column"):
    small = arguments(folder / f"small {form}", make_content(), form)
    prepare(**small, out=folder / f"warm {form}", memory=memory)
    content = make_content(n=150_000, m=400_000, d=16)
    options = arguments(folder / form, content, form)
    del content
    out = folder / f"out {form}"
    call = lambda: prepare(**options, out=out, memory=memory)
    print(json.dumps([form, peak_memory(call, maps_files=True), memory]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_peaks_stay_below_the_promise(tmp_path):
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), here],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(cases) == 4
    print(cases)
    assert not [case for case in cases if case[1] > case[2]]
    # The table of ids alone is 4 MiB: the peaks are those of the calls.
    assert min(peak for _, peak, _ in cases) > 4 << 20
