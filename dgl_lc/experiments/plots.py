"""Pictures of training runs."""

from pathlib import Path

from .run import Result


def accuracy_over_time(
    results: list[Result], path: Path, title: str = ""
) -> None:
    """Validation accuracy over seconds, precomputation included.

    An LC version has the colour of its original and a solid line.
    """
    # Only who draws pays for importing it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = {r.name for r in results}
    colours: dict[str, str] = {}
    for result in results:
        family = result.name.removeprefix("LC")
        colour = colours.setdefault(family, f"C{len(colours)}")
        pair = {family, f"LC{family}"} <= names
        original = pair and not result.name.startswith("LC")
        axes.plot(
            result.fit.history.seconds + result.precompute_seconds,
            100 * result.fit.history.valid_accuracy,
            color=colour,
            linestyle="--" if original else "-",
            label=result.name,
        )
    axes.set_xscale("log")
    axes.set_xlabel("seconds (precomputation and training)")
    axes.set_ylabel("validation accuracy (%)")
    if title:
        axes.set_title(title)
    axes.grid(True, alpha=0.3)
    axes.legend(ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)
