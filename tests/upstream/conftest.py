"""The scripts of the kit, and a checkout with DGL's paths, written here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "upstream"))

CHECKOUT = {
    "python/dgl/base.py": "class DGLError(Exception): pass\n",
    "python/dgl/nn/pytorch/conv/__init__.py": '''\
"""Layers."""
from .alpha import Alpha
from .graphconv import (
    EdgeWeightNorm,
    GraphConv,
)
from .omega import Omega

__all__ = [
    "GraphConv",
    "Omega",
]
''',
    "python/dgl/nn/pytorch/conv/graphconv.py": "GraphConv = 1\n",
    "docs/source/api/python/nn-pytorch.rst": """\
Layers
------

.. autosummary::
    :toctree: here

    ~dgl.nn.pytorch.conv.GraphConv
    ~dgl.nn.pytorch.conv.Omega

More
----

    ~dgl.nn.pytorch.conv.Alpha
""",
    "examples/README.md": """\
# Papers

## 2023
- One
    - Example code: [PyTorch](one)
## 2022
- Two
    - Example code: [PyTorch](two)

## 2021
- Three
""",
    "tests/backend/__init__.py": """\
import torch

int32, int64 = torch.int32, torch.int64


def ctx():
    return torch.device("cpu")


def randn(shape):
    return torch.randn(shape)
""",
    "tests/utils/__init__.py": """\
import backend
import pytest

parametrize_idtype = pytest.mark.parametrize(
    "idtype", [backend.int32, backend.int64]
)
""",
    "tests/utils/graph_cases.py": """\
import dgl


def get_cases(labels, exclude=()):
    ring = [*range(7)], [1, 2, 3, 4, 5, 6, 0]
    path = [0, 0, 1, 2], [1, 2, 2, 3]
    cases = [dgl.add_self_loop(dgl.graph(ring)), dgl.graph(ring)]
    return cases if exclude else [*cases, dgl.graph(path)]
""",
    # It also makes a DGL without a library for this torch importable.
    "tests/conftest.py": f"""\
import sys

sys.path.append({str(ROOT)!r})
import dgl_lc
""",
}


def commit(folder):
    """Commit everything in a folder."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Files"], check=True)


@pytest.fixture
def checkout(tmp_path):
    """A small git repository with the files of DGL that the kit knows."""
    folder = tmp_path / "checkout"
    for path, text in CHECKOUT.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    subprocess.run(["git", "init", "-q", folder], check=True)
    commit(folder)
    return folder
