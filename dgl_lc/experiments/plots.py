"""Figures of training runs and of precomputation times."""

from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
from dgl import DGLError

from .._common.file_access import open_regular, replace_buffered
from ..training import Fit
from ..training.metrics import CLASS_METRICS
from .train_one import TrainedModel

#: Is written to a figure's file, so that it is known as ours.
_OWNER = "dgl-lc training"
#: A figure is smaller than this.
_MOST_BYTES = 1 << 24


def accuracy_over_time(
    results: list[TrainedModel], path: Path, title: str = ""
) -> None:
    """Draw the validation accuracy over time, precomputation included.

    An LC version has the colour of its original and a solid line. Of the runs
    of one model, all but the first are drawn lightly.
    """
    figure, axes = _figure(7, 4.5)
    names = {r.name for r in results}
    drawn: set[str] = set()
    colours: dict[str, str] = {}
    for result in results:
        family = result.name.removeprefix("LC")
        colour = colours.setdefault(family, f"C{len(colours)}")
        pair = {family, f"LC{family}"} <= names
        original = pair and not result.name.startswith("LC")
        history = result.fit.history
        axes.plot(
            history.seconds + result.precompute_seconds,
            100 * history.valid_accuracy,
            color=colour,
            linestyle="--" if original else "-",
            # A line through one point cannot be seen.
            marker="o" if len(history) == 1 else None,
            label=None if result.name in drawn else result.name,
            alpha=0.3 if result.name in drawn else 1.0,
        )
        drawn.add(result.name)
    axes.set_ylabel("validation accuracy (%)")
    _save_course(figure, axes, path, title)


#: The order of the colours; an LC version has the colour of its original.
_FAMILIES = ["GCN", "JKNet", "GPRGNN", "SGC", "FSGNN", "SIGN", "APPNP",
             "MixHop", "H2GCN", "ShaDow-GAT", "SAGN", "GAMLP"]  # fmt: skip
#: Matplotlib's cycle has ten colours; two more, and one for other models.
_COLOURS = [*(f"C{place}" for place in range(10)), "black", "gold", "grey"]


def validation_over_time(
    records: list[dict[str, Any]], path: Path, title: str = ""
) -> None:
    """Draw the validation accuracy over time, precomputation included.

    Each model has one line, of its first seed. It ends where training
    stopped, and a dot marks the epoch whose weights were kept.
    """
    figure, axes = _figure(7, 4.5)
    shown = {}
    for record in sorted(records, key=lambda r: r["seed"], reverse=True):
        shown[record["model"]] = record
    shown = {r["model"]: shown[r["model"]] for r in records}
    for name, record in shown.items():
        family = name.removeprefix("LC").removeprefix("auto")
        place = _FAMILIES.index(family) if family in _FAMILIES else -1
        colour = _COLOURS[place]
        style = "-" if name.startswith("LC") else "--"
        style = ":" if name.startswith("auto") else style
        if not {f"LC{family}", f"auto{family}"} & set(shown):
            style = "-"
        history = record["history"]
        start = record["precompute_seconds"]
        seconds = [start + second for second in history["seconds"]]
        valid = [100 * value for value in history["valid"]]
        # The best so far, since the accuracy of single epochs varies much on
        # small validation sets.
        best = [max(valid[: i + 1]) for i in range(len(valid))]
        axes.plot(seconds, best, style, color=colour, label=name, lw=1.4)
        kept = record["best_epoch"] - 1
        if 0 <= kept < len(seconds):
            axes.plot(seconds[kept], valid[kept], "o", color=colour, ms=4)
    axes.set_ylabel("best validation accuracy so far (%)")
    _save_course(figure, axes, path, title)


def bars(
    times: dict[str, dict[str, float]], path: Path, title: str = ""
) -> None:
    """Draw stacked bars of seconds: normalisation, then aggregation."""
    figure, axes = _figure(7, 0.5 * len(times) + 1.5)
    names = list(times)[::-1]
    left = [0.0] * len(names)
    for number, part in enumerate(("normalisation", "aggregation")):
        seconds = [times[name][part] for name in names]
        axes.barh(names, seconds, left=left, color=f"C{number}", label=part)
        left = [a + b for a, b in zip(left, seconds, strict=True)]
    for place, total in enumerate(left):
        axes.text(total, place, f" {total:.2f} s", va="center", fontsize=9)
    axes.set_xlim(0, 1.15 * max(left))
    axes.set_xlabel("seconds")
    if title:
        # The title of the figure, which is wider than that of the axes.
        figure.suptitle(title, fontsize=11)
    _legend_below(figure, columns=2)
    figure.savefig(path, dpi=150)


def training_curves(
    fit: Fit,
    path: Path,
    title: str = "",
    attention: pd.DataFrame | None = None,
) -> None:
    """Draw loss and metric over epochs; a line marks the best epoch.

    A file that exists is replaced if it is such a figure. Beside the curves
    is drawn how much the model weighs each hop, if ``attention`` is given: a
    column for each hop, and a row for each node.
    """
    check_figure(path)
    figure, axes = _figure(7, 4)
    if attention is not None and attention.empty:
        attention = None
    if attention is not None:
        figure.set_size_inches(11, 4)
        grid = figure.add_gridspec(1, 2, width_ratios=(7, 4))
        axes.set_subplotspec(grid[0])
        _draw_attention(figure.add_subplot(grid[1]), attention)
    history = fit.history
    # One epoch is a point, which no line shows.
    marker = "o" if len(history) == 1 else ""
    for name, text in (("train", "training"), ("valid", "validation")):
        axes.plot(
            history.index, history[f"{name}_loss"], marker=marker,
            label=f"{text} loss",
        )  # fmt: skip
    axes.set_xlabel("epoch")
    _integer_ticks(axes)
    axes.set_ylabel("loss")
    # Shares are shown in percent; errors and functions are not shares.
    share = fit.metric in CLASS_METRICS
    metric = axes.twinx()
    metric.plot(
        history.index, (100 if share else 1) * history[f"valid_{fit.metric}"],
        "C2", marker=marker, label=f"validation {fit.metric}",
    )  # fmt: skip
    metric.set_ylabel(f"{fit.metric} (%)" if share else fit.metric)
    axes.axvline(fit.best_epoch, color="grey", lw=0.8, label="best epoch")
    if title:
        axes.set_title(title)
    _legend_below(figure, columns=4 if attention is None else 5)
    kind = path.suffix[1:]
    owner = "Software" if kind == "png" else "Creator"

    def write(file: BinaryIO) -> None:
        figure.savefig(file, dpi=150, format=kind, metadata={owner: _OWNER})

    replace_buffered(path, write)


def _draw_attention(axes: Any, attention: pd.DataFrame) -> None:
    """Draw the weight of each hop: over all nodes, or one for all."""
    names = list(attention.columns)
    places = list(range(len(names)))
    values = attention.to_numpy()
    if (values == values[0]).all():
        axes.bar(places, values[0], color="C0")
        axes.axhline(0, color="grey", lw=0.8)
        axes.set_ylabel("weight, the same for all nodes")
    else:
        # Whiskers hold nine tenths of the nodes; outliers are not drawn.
        axes.boxplot(
            values, positions=places, whis=(5, 95), showfliers=False,
            widths=0.6, medianprops={"color": "C1"},
        )  # fmt: skip
        axes.plot(places, values.mean(0), "C0D", ms=4, label="mean weight")
        axes.set_ylabel(f"weight in {len(values):,} validation nodes")
    long = max(map(len, names)) > 3
    axes.set_xticks(
        places,
        names,
        rotation=30 if long else 0,
        ha="right" if long else "center",
    )
    axes.set_xlabel("hop")
    axes.set_title("hop attention")


def check_figure(path: Path) -> None:
    """Refuse a file that exists and is not a figure of a training run."""
    if not path.exists():
        return
    with open_regular(path) as file:
        found = file.read(_MOST_BYTES)
    if found and _OWNER.encode() not in found:
        raise DGLError(
            f"{path} exists, and is not a figure that dgl-lc drew: name "
            f"another file, or remove this one."
        )


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """Make a figure that needs no display; return it with its axes."""
    # Importing matplotlib takes a second, so that only figures do it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _save_course(figure: Any, axes: Any, path: Path, title: str) -> None:
    """Label the axes of a figure over time, and save it."""
    # Importing matplotlib takes a second, so that only figures do it.
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    # 0.2, 0.5, 1 and not powers of ten, whose labels run into each other.
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("seconds (precomputation and training)")
    if title:
        axes.set_title(title)
    axes.grid(True, alpha=0.3)
    _legend_below(figure, columns=4)
    figure.savefig(path, dpi=150)


def _integer_ticks(axes: Any) -> None:
    """Mark only whole numbers on the horizontal axis, such as epochs."""
    from matplotlib.ticker import MaxNLocator

    # With more than one tick at least, a single epoch would get fractions.
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _legend_below(figure: Any, columns: int) -> None:
    """Draw the legend of all axes below them, where it covers no curve."""
    figure.legend(loc="outside lower center", ncols=columns, fontsize="small")
