"""Figures of training runs."""

import types

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dgl_lc.experiments.plots import (
    accuracy_over_time,
    bars,
    training_curves,
    validation_over_time,
)
from dgl_lc.training import Fit


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    found = []

    def save(figure, path, **options):
        figure.draw_without_rendering()
        found.append(figure)

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
    lines = drawn[0].axes[0].lines
    assert [line.get_marker() for line in lines] == ["o", "None"]
    assert list(lines[0].get_xdata()) == [1.5]


def fitted(epochs):
    history = pd.DataFrame(
        {
            "train_loss": [1 / epoch for epoch in range(1, epochs + 1)],
            "valid_loss": [2 / epoch for epoch in range(1, epochs + 1)],
            "valid_accuracy": [0.5] * epochs,
        },
        index=range(1, epochs + 1),
    )
    return Fit(history, epochs)


@pytest.mark.parametrize(
    ("metric", "label", "height"),
    [("accuracy", "accuracy (%)", 50), ("macro_f1", "macro_f1 (%)", 50),
     ("rmse", "rmse", 0.5), ("worst_class", "worst_class", 0.5)],
)  # fmt: skip
def test_only_shares_are_drawn_in_percent(
    metric, label, height, drawn, tmp_path
):
    names = {"valid_accuracy": f"valid_{metric}"}
    found = Fit(fitted(3).history.rename(columns=names), 3, metric)
    training_curves(found, tmp_path / "a.png")
    axes = drawn[0].axes[1]
    assert axes.get_ylabel() == label
    assert set(axes.lines[0].get_ydata()) == {height}


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 30, 2000])
def test_only_whole_epochs_are_marked(epochs, drawn, tmp_path):
    training_curves(fitted(epochs), tmp_path / "a.png")
    axis = drawn[0].axes[0]
    low, high = axis.get_xlim()
    shown = [tick for tick in axis.get_xticks() if low <= tick <= high]
    assert shown
    assert all(tick == round(tick) for tick in shown)


def attention(rows, varied=True, names=("0", "1", "2 without loops")):
    """Weights of hops, which are the same for all nodes or not."""
    rng = np.random.default_rng(0)
    drawn = rng.dirichlet([1.0] * len(names), rows if varied else 1)
    values = np.broadcast_to(drawn, (rows, len(names)))
    return pd.DataFrame(values, columns=names)


def test_weights_of_hops_are_drawn_beside_the_curves(drawn, tmp_path):
    weights = attention(50)
    training_curves(fitted(3), tmp_path / "a.png", "SAGN", weights)
    training_curves(fitted(3), tmp_path / "a.png", "GPR", attention(50, False))
    training_curves(fitted(3), tmp_path / "a.png", "SGC")
    shown = [
        {axes.get_title(): axes for axes in figure.axes} for figure in drawn
    ]
    boxes = shown[0]["hop attention"]
    assert [tick.get_text() for tick in boxes.get_xticklabels()] == list(
        weights.columns
    )
    means = next(line for line in boxes.lines if line.get_marker() == "D")
    assert list(means.get_ydata()) == pytest.approx(list(weights.mean()))
    bars = shown[1]["hop attention"].patches
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx(list(attention(1, False).iloc[0]))
    assert "hop attention" not in shown[2]


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("hops", [1, 2])
def test_weights_of_few_hops_and_nodes_can_be_drawn(
    rows, hops, drawn, tmp_path
):
    names = tuple(map(str, range(hops)))
    weights = attention(rows, names=names)
    training_curves(fitted(1), tmp_path / "a.png", attention=weights)
    assert len(drawn) == 1


def recorded(name):
    history = {"seconds": [1.0, 2.0, 3.0], "valid": [0.2, 0.9, 0.5]}
    return {"model": name, "seed": 0, "precompute_seconds": 0.5,
            "best_epoch": 2, "history": history}  # fmt: skip


MANY = ["GCN", "LCGCN", "JKNet", "LCJKNet", "GPRGNN", "LCGPRGNN", "SGC",
        "FSGNN", "SIGN", "ShaDow-GAT", "SAGN", "GAMLP"]  # fmt: skip
FIGURES = {
    "training, 1 epoch": lambda path: training_curves(fitted(1), path),
    "training": lambda path: training_curves(fitted(30), path, "LCGCN"),
    "training and hops": lambda path: training_curves(
        fitted(30), path, "SAGN", attention(9)
    ),
    "accuracy": lambda path: accuracy_over_time(
        [trained(name, 3) for name in MANY], path, "title"
    ),
    "validation": lambda path: validation_over_time(
        [recorded(name) for name in MANY], path, "title"
    ),
    "bars": lambda path: bars(
        {
            "short": {"normalisation": 0.1, "aggregation": 0.2},
            "long": {"normalisation": 1.0, "aggregation": 5.0},
        },
        path,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_legend_is_beside_the_axes_and_in_the_figure(name, drawn, tmp_path):
    FIGURES[name](tmp_path / "a.png")
    (figure,) = drawn
    (legend,) = figure.legends
    place = legend.get_window_extent()
    assert not any(axes.get_legend() for axes in figure.axes)
    for axes in figure.axes:
        # With its labels.
        assert place.y1 <= axes.get_tightbbox().y0
    assert 0 <= place.x0 < place.x1 <= figure.bbox.x1
    assert place.y0 >= 0
    # The axes keep room.
    assert figure.axes[0].bbox.height > 0.4 * figure.bbox.height
