"""Figures of training runs."""

import types

import pandas as pd
import pytest
from matplotlib.figure import Figure

from dgl_lc.experiments.plots import accuracy_over_time


@pytest.fixture
def drawn(monkeypatch):
    """The lines of the figures that are saved."""
    found = []

    def save(figure, path, **options):
        found.extend(figure.axes[0].lines)

    monkeypatch.setattr(Figure, "savefig", save)
    return found


def trained(name, epochs):
    history = pd.DataFrame(
        {
            "seconds": [1.0 + epoch for epoch in range(epochs)],
            "valid_accuracy": [0.5] * epochs,
        }
    )
    fit = types.SimpleNamespace(history=history)
    return types.SimpleNamespace(name=name, fit=fit, precompute_seconds=0.5)


def test_a_run_of_one_epoch_can_be_seen(drawn, tmp_path):
    accuracy_over_time([trained("GCN", 1), trained("SGC", 3)], tmp_path / "a")
    assert [line.get_marker() for line in drawn] == ["o", "None"]
    assert list(drawn[0].get_xdata()) == [1.5]
