"""Old names of modules."""

import importlib
import sys

import pytest

from dgl_lc._moved import MOVED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_leads_to_the_new_module(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(MOVED[old])
    assert found.__name__ == MOVED[old]


def test_functions_are_not_hidden_by_modules():
    from dgl_lc import precompute

    assert callable(precompute.plan)
    assert callable(precompute.calibrate)
