"""The built package."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_has_everything_and_nothing_else(tmp_path):
    pytest.importorskip("build")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path, ROOT],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    names = zipfile.ZipFile(wheel).namelist()
    for path in (ROOT / "dgl_lc").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in names
    assert "dgl_lc/py.typed" in names
    assert not [name for name in names if name.startswith("tests")]
    meta = zipfile.ZipFile(wheel).read(
        next(name for name in names if name.endswith("METADATA"))
    )
    assert b"dgl!=2.1.0,>=1.1.3; python_version < " in meta
    assert b"dgl>=2.1.0; python_version >= " in meta
    assert b"Requires-Dist: packaging" in meta
