"""The argument ``memory`` of ``prepare`` is a promise: peaks, measured."""

import os
import subprocess
import sys

import pytest

from dgl_lc.testing.peak_memory import LIVE

pytest.importorskip("pyarrow")
from prepare_cases import arguments, make_content

MEMORY = 96 << 20
# Files are written by another process: what it takes and keeps would hide
# what the call takes.
CHILD = """
import sys
from dgl_lc.data import prepare
from dgl_lc.testing.peak_memory import peak_memory

small_edges, small_nodes, edges, nodes, out, memory = sys.argv[1:]


def run(edges, nodes, out):
    prepare(edges, nodes, out, id_type="text", memory=int(memory))


run(small_edges, small_nodes, out + " small")
print(peak_memory(lambda: run(edges, nodes, out), maps_files=True))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "list column"])
def test_peaks_stay_below_the_promise(tmp_path, form, live):
    files = []
    large = make_content(n=150_000, m=400_000, d=16)
    for name, content in (("small", make_content()), ("large", large)):
        options = arguments(tmp_path / name, content, form)
        files += [str(options["edges"]), str(options["features"])]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *files, str(tmp_path / "out"),
         str(MEMORY)],
        capture_output=True, text=True, env=_environment(live),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout)
    print(form, live, peak)
    # The rows of the features alone are 19 MiB: the peak is that of the call.
    assert 16 << 20 < peak < MEMORY


def _environment(live):

    return os.environ | (LIVE if live else {})
