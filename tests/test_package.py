"""The built package."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_source_distribution_has_every_file(tmp_path):
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("this is not a clone of the repository")
    # Files of git and of the CI begin with a dot.
    files = {
        name
        for name in listed.stdout.splitlines()
        if not name.startswith(".") and (ROOT / name).is_file()
    }
    # A copy, as setuptools writes beside the sources.
    copy = tmp_path / "copy"
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", tmp_path],
        cwd=copy, check=True, capture_output=True,
    )  # fmt: skip
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        found = {
            member.name.partition("/")[2]
            for member in opened
            if member.isfile()
        }
    assert files - found == set()
    extra = {name for name in found - files if "egg-info/" not in name}
    assert extra <= {"PKG-INFO", "setup.cfg"}


def test_the_install_page_lists_all_requirements():
    """Whoever keeps DGL 2.1.0 installs them by hand."""
    text = (ROOT / "setup.py").read_text()
    begin = text.index("install_requires=[")
    lines = text[begin : text.index("],", begin)].splitlines()[1:]
    names = {
        re.match(r"[a-z0-9-]+", line.strip().strip('"'))[0]
        for line in lines
        if line.strip().startswith('"')
    }
    assert "numba" in names
    page = (ROOT / "docs" / "install.md").read_text()
    calls = [
        line for line in page.splitlines()
        if "pip install" in line and "packaging" in line
    ]  # fmt: skip
    assert len(calls) == 2
    for call in calls:
        words = {re.split("[=<]", word.strip('"'))[0] for word in call.split()}
        # DGL and torch require numpy.
        assert names - words <= {"numpy"}


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
