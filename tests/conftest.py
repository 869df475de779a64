"""Graphs for the tests."""

import dgl_lc  # isort: skip  # first: it makes DGL importable
import itertools
import os
import random
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from dgl_lc.testing.random_graphs import graphs, make_features  # noqa: F401

assert dgl_lc.__version__

# Triton reads this when it is imported, which dgl_lc has not done.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile(
    "dgl-lc",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("dgl-lc")

#: Real graphs beside the repository; tests that want them are skipped by
#: name where they are missing.
SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared_data():
    """The folder of real graphs beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the real graphs are not at hand")
    return SHARED


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


@pytest.fixture(params=["cora", "ogbn_arxiv"])
def real_graph(request):
    path = SHARED / f"{request.param}.npz"
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
    torch.manual_seed(0)
    dgl.seed(0)


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
