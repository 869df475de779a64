"""Loading the scripts of benchmarks/, which import one another."""

import gc
import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def no_garbage_is_collected(monkeypatch):
    """Scripts do it before each run, which takes longer than small runs."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture
def script(monkeypatch):
    """Load a script by its name, as Python does when it is run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = [path.stem for path in BENCHMARKS.glob("*.py")]
    # Their names are short: other tests may have modules of the same name.
    before = {name: sys.modules.pop(name, None) for name in names}
    yield importlib.import_module
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module
