"""Graphs for the tests."""

import os

# Threads that wait for work give their core away: several processes test at
# once. Without it, most of the time is spent in waiting. OpenMP reads this
# when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import dgl_lc  # isort: skip  # first: it makes DGL importable
import gc
import itertools
import random
import signal
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from night import NIGHT, cases

from dgl_lc.data import power_law_graph
from dgl_lc.testing.random_graphs import graphs, make_features  # noqa: F401

assert dgl_lc.__version__

# A shell has what it runs in the background ignore Ctrl-C, which tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Triton reads this when it is imported, which dgl_lc has not done.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile(
    "dgl-lc",
    deadline=None,
    max_examples=cases(15, 500),
    suppress_health_check=[HealthCheck.too_slow],
    # The same cases each time in CI, and other ones each night.
    derandomize=bool(os.environ.get("CI")) and not NIGHT,
    print_blob=True,
)
settings.load_profile("dgl-lc")

#: Real graphs, beside the repository or where ``DGL_LC_REAL_GRAPHS`` says.
#: Every test that reads them has a smaller form without them.
REAL_GRAPHS = Path(
    os.environ.get(
        "DGL_LC_REAL_GRAPHS", Path(__file__).parents[2] / "shared" / "data"
    )
)


@pytest.fixture
def shared_data():
    """The folder of real graphs; without it, the test is skipped."""
    if not REAL_GRAPHS.is_dir():
        pytest.skip("the real graphs are not at hand")
    return REAL_GRAPHS


@pytest.fixture
def double_precision():
    """Make float64 torch's default type, which modules of DGL use as well."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def small_graph():
    """Four nodes, one of them isolated, with a multi-edge and a self-loop."""
    return dgl.graph(([0, 0, 1, 2, 2], [1, 1, 2, 0, 2]), num_nodes=4)


@pytest.fixture(
    params=[
        "generated", "cora",
        pytest.param("ogbn_arxiv", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def large_graph(request):
    """A graph with hubs: a generated one, and real ones that are at hand."""
    if request.param == "generated":
        return power_law_graph(5_000, 30_000)
    path = REAL_GRAPHS / f"{request.param}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    with np.load(path, allow_pickle=False) as data:
        n, edges = int(data["num_nodes"]), data["edges"].astype(np.int64)
    return dgl.graph(
        (torch.from_numpy(edges[0]), torch.from_numpy(edges[1])), num_nodes=n
    )


def pytest_runtest_setup(item):
    # Weights and graphs are drawn alike whichever tests ran before.
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # what DGL itself uses
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:
        # The same, in 2 ms less.
        torch.default_generator.manual_seed(0)
    dgl.seed(0)


def pytest_collection_finish():
    # What was imported and collected stays. Looking at it again and again,
    # for garbage in cycles, would take a sixth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture
def docs_table():
    """The cells of the first table under a heading of a page of docs/."""

    def read(page, heading):
        text = (Path(__file__).parents[1] / "docs" / page).read_text()
        section = text.partition(f"\n{heading}\n")[2]
        lines = itertools.dropwhile(
            lambda line: not line.startswith("|"), section.splitlines()
        )
        rows = list(itertools.takewhile(lambda line: line[:1] == "|", lines))
        return [
            [cell.strip() for cell in row[1:-1].split("|")] for row in rows[2:]
        ]

    return read
