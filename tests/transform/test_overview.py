"""The overview in dgl_lc/transform/__init__.py names files that exist."""

import re
from pathlib import Path

import dgl_lc.transform


def test_every_file_of_the_overview_exists():
    folder = Path(dgl_lc.transform.__file__).parent
    known = {path.name for path in folder.rglob("*.py")}
    named = re.findall(r"[a-z_/]+\.py", dgl_lc.transform.__doc__)
    assert len(named) > 20
    for name in named:
        path = folder / name
        assert path.exists() if "/" in name else name in known, name
