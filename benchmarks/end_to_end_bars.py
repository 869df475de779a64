"""Draw the stages of each way to a trained model as stacked bars."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from section import OURS, Row, format_value, select

#: Stages in their order, what a reader calls them, and colors that people
#: who see colors differently can tell apart.
STAGES = {
    "graph": ("prepare the graph", "#7f7f7f"),
    "precomputation": ("compute hop features", "#0072b2"),
    "loading": ("load batches", "#e69f00"),
    "training": ("train", "#009e73"),
    "prediction": ("predict", "#cc79a7"),
}
WIDTH = 9.0
BAR, HEAD = 0.27, 0.55


def draw_bars(rows: list[Row]) -> Figure:
    """Draw a panel for each case, with a bar for each way."""
    cases = list(dict.fromkeys(r["case"] for r in rows))
    ways = {
        case: list(dict.fromkeys(r["name"] for r in select(rows, case=case)))
        for case in cases
    }
    heights = [BAR * len(ways[case]) for case in cases]
    height = sum(heights) + HEAD * (len(cases) + 1) + 0.3
    figure = Figure(figsize=(WIDTH, height))
    figure.suptitle(
        "Seconds from a new graph to a trained model", x=0.02, ha="left",
        y=1 - 0.12 / height, va="top", fontsize=13, weight="bold",
    )  # fmt: skip
    top = height - HEAD - 0.35
    for number, (case, inches) in enumerate(zip(cases, heights, strict=True)):
        axes = figure.add_axes(
            (0.25, (top - inches) / height, 0.55, inches / height)
        )
        _panel(axes, case, ways[case], rows)
        top -= inches + HEAD
        if number == 0:
            figure.legend(
                *axes.get_legend_handles_labels(), loc="upper left",
                bbox_to_anchor=(0.01, 1 - 0.32 / height), ncols=len(STAGES),
                frameon=False, fontsize=9, handlelength=1.0,
                columnspacing=1.4,
            )  # fmt: skip
    return figure


def _panel(axes: Axes, case: str, ways: list[str], rows: list[Row]) -> None:
    """Draw the bars of a case, the first way on top."""
    left = [0.0] * len(ways)
    for stage, (label, color) in STAGES.items():
        widths = [
            select(rows, case=case, name=way, what=stage)[0]["value"]
            for way in ways
        ]
        axes.barh(
            ways, widths, left=left, color=color, label=label, height=0.72
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for place, (way, end) in enumerate(zip(ways, left, strict=True)):
        accuracy, peak = (
            select(rows, case=case, name=way, what=what)[0]
            for what in ("test accuracy", "peak memory")
        )
        axes.annotate(
            f"{format_value(end, 's')}, {accuracy['value']:.1f} % right, "
            f"{format_value(peak['value'], 'B')}",
            (end, place), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8, annotation_clip=False,
            weight="bold" if way == OURS else "normal",
        )  # fmt: skip
    axes.set_title(case, loc="left", fontsize=9.5)
    axes.invert_yaxis()
    axes.set_xlim(0, max(left) * 1.0)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.tick_params(axis="x", labelsize=8)
    for label in axes.get_yticklabels():
        label.set_weight("bold" if label.get_text() == OURS else "normal")
    axes.spines[["top", "right"]].set_visible(False)
