"""Importing DGL whatever torch is there: with stand-ins for DGL."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import dgl_lc

LOADER = """
import importlib.util, sys
sys.path.insert(0, {folder!r})
spec = importlib.util.spec_from_file_location("loader", {path!r})
loader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loader)
"""


@pytest.fixture
def load(tmp_path):
    """Run code after importing a DGL whose ``__init__`` is given."""
    path = Path(dgl_lc.__file__).parent / "_dgl.py"
    start = LOADER.format(folder=str(tmp_path), path=str(path))

    def run(init, code, libraries=()):
        graphbolt = tmp_path / "dgl" / "graphbolt"
        graphbolt.mkdir(parents=True)
        (tmp_path / "dgl" / "__init__.py").write_text(textwrap.dedent(init))
        (graphbolt / "__init__.py").write_text("import torchdata.datapipes")
        for version in libraries:
            (graphbolt / f"libgraphbolt_pytorch_{version}.so").touch()
        return subprocess.run(
            [sys.executable, "-c", start + textwrap.dedent(code)],
            capture_output=True, text=True,
        )  # fmt: skip

    return run


USES_GRAPHBOLT = "from . import graphbolt as gb"


def test_graphbolt_without_a_library_gets_a_placeholder(load):
    found = load(
        USES_GRAPHBOLT,
        """
        loader.let_dgl_be_imported()
        import dgl
        assert dgl.graphbolt is sys.modules["dgl.graphbolt"]
        assert not hasattr(dgl.graphbolt, "__file__")
        dgl.graphbolt.ItemSet
        """,
        libraries=["2.0.0", "2.2.1000"],
    )
    assert "dgl.graphbolt.ItemSet is not available" in found.stderr
    assert "no graphbolt library for torch" in found.stderr


def test_graphbolt_with_its_library_is_left_alone(load):
    version = torch.__version__.split("+")[0]
    found = load(
        "",
        """
        loader.let_dgl_be_imported()
        import dgl
        print("dgl.graphbolt" in sys.modules)
        """,
        libraries=["2.0.0", version],
    )
    assert found.stdout.strip() == "False"


def test_a_dgl_without_graphbolt_is_left_alone(load):
    found = load(
        "",
        """
        loader.let_dgl_be_imported()
        import dgl
        print("dgl.graphbolt" in sys.modules)
        """,
    )
    assert found.stdout.strip() == "False"


def test_a_dgl_that_fails_says_why_and_what_works(load):
    version = torch.__version__.split("+")[0]
    found = load(
        "raise ModuleNotFoundError(\"No module named 'torchdata.pipes'\")",
        "loader.let_dgl_be_imported(); import dgl",
        libraries=[version],
    )
    last = found.stderr[found.stderr.index("ImportError: DGL is installed") :]
    assert "No module named 'torchdata.pipes'" in last
    assert "dgl 2.1.0" in last
    assert "Combinations that were tried" in last
    assert "During handling" not in found.stderr


def test_a_missing_dgl_says_what_to_install(tmp_path):
    path = Path(dgl_lc.__file__).parent / "_dgl.py"
    start = LOADER.format(folder=str(tmp_path), path=str(path))
    code = """
    import importlib.util as util
    find = util.find_spec
    util.find_spec = lambda name: None if name == "dgl" else find(name)
    loader.let_dgl_be_imported()
    """
    found = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "dgl_lc needs DGL, which is not installed" in found.stderr
