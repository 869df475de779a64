"""What the demo says about ogbn-papers100M."""

import re

import pytest

from dgl_lc.experiments import papers100m_plan as module


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    monkeypatch.setattr(module, "hop_seconds", lambda plan: 600.0)


def test_the_plan_is_within_the_budget():
    text = module.papers100m_plan(16 << 30)
    peak, budget = re.search(
        r"memory +([\d.]+) GiB of the ([\d.]+)", text
    ).groups()
    assert 0 < float(peak) <= float(budget) == 16
    assert "10 min for the hops" in text
    assert "--memory 16GiB" in text


def test_a_machine_that_is_too_small_is_told_what_is_enough():
    text = module.papers100m_plan(1 << 30)
    assert "does not fit" in text
    assert re.search(
        r"\d+(\.\d+)? (MiB|GiB)", text.partition("does not fit")[2]
    )
