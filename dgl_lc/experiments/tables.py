"""The paper's tables, from the records of runs."""

from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from . import paper
from .model_names import NAMES

#: What :func:`~dgl_lc.experiments.recorded_run.run_once` returns.
Record: TypeAlias = dict[str, Any]


def frame_of(records: list[Record]) -> pd.DataFrame:
    """Make a table with one row per run, without its history."""
    dropped = ("history", "environment", "params", "key")
    rows = [
        {name: value for name, value in record.items() if name not in dropped}
        for record in records
    ]
    frame = pd.DataFrame(rows)
    order = {name: number for number, name in enumerate(NAMES)}
    return frame.sort_values(
        ["data", "model", "seed"],
        key=lambda column: (
            column.map(order) if column.name == "model" else column
        ),
    ).reset_index(drop=True)


def accuracy_table(
    records: list[Record], names: dict[str, str | None]
) -> pd.DataFrame:
    """Make the table of test accuracies, with the paper's beside ours.

    Cells are mean (standard deviation) in %, by both protocols.

    Parameters
    ----------
    records : list of dict
        Records of runs.
    names : dict
        The paper's name of each data set, or None if it is another one.
    """
    frame = frame_of(records)
    columns: dict[str, dict[str, str]] = {}
    for (data, model), runs in frame.groupby(["data", "model"], sort=False):
        columns.setdefault(data, {})[model] = spread(runs.test)
        columns.setdefault(f"{data}, last epoch", {})[model] = spread(
            runs.test_last
        )
        columns.setdefault(f"{data}, parameters", {})[model] = (
            f"{runs.origin.iloc[0]}; {len(runs)} seeds"
        )
        theirs = names.get(data)
        if theirs is not None:
            found = paper.ACCURACY.get(theirs, {}).get(model)
            if found is not None:
                columns.setdefault(f"{data}, paper", {})[model] = (
                    published_spread(found)
                )
    return _table(columns)


def time_table(
    records: list[Record], names: dict[str, str | None]
) -> pd.DataFrame:
    """Make the table of mean training times, per epoch / in total.

    The total includes the precomputation. The parameters are those of
    :func:`accuracy_table`.
    """
    frame = frame_of(records)
    columns: dict[str, dict[str, str]] = {}
    for (data, model), runs in frame.groupby(["data", "model"], sort=False):
        columns.setdefault(data, {})[model] = (
            f"{1000 * runs.epoch_seconds.mean():.1f} ms / "
            f"{runs.total_seconds.mean():.1f} s "
            f"({runs.total_seconds.std(ddof=0):.1f})"
        )
        columns.setdefault(f"{data}, epochs", {})[model] = (
            f"{runs.epochs.mean():.0f}"
        )
        theirs = names.get(data)
        found = paper.TIMES.get(theirs, {}).get(model) if theirs else None
        if found is not None:
            columns.setdefault(f"{data}, paper", {})[model] = (
                f"{1000 * found[0]:.1f} ms / {found[1]:.1f} s"
            )
    return _table(columns)


def pairs_table(records: list[Record]) -> pd.DataFrame:
    """Compare each LC version with its original, on every data set."""
    frame = frame_of(records)
    means = frame.groupby(["data", "model"], sort=False).mean(numeric_only=True)
    rows = []
    for data, model in means.index:
        for prefix in ("LC", "auto"):
            original = model.removeprefix(prefix)
            if original == model or (data, original) not in means.index:
                continue
            ours, theirs = means.loc[(data, model)], means.loc[(data, original)]
            speedup = theirs / ours
            rows.append(
                {
                    "data": data,
                    "LC version": model,
                    "parameters": _origins(frame, data, model, original),
                    "points": 100 * (ours.test - theirs.test),
                    "points, last epoch": 100
                    * (ours.test_last - theirs.test_last),
                    "speed-up per epoch": speedup.epoch_seconds,
                    "speed-up in total": speedup.total_seconds,
                }
            )
    return pd.DataFrame(rows)


def _origins(frame: pd.DataFrame, data: str, *models: str) -> str:
    """Return where the parameters of some models come from."""
    own = frame[(frame.data == data) & frame.model.isin(models)]
    return " / ".join(dict.fromkeys(own.origin))


def spread(values: pd.Series) -> str:
    """Return mean (standard deviation) of some shares, in %.

    >>> spread(pd.Series([0.5, 0.6]))
    '55.00 (5.00)'
    """
    deviation = values.std(ddof=0)
    return f"{100 * values.mean():.2f} ({100 * deviation:.2f})"


def published_spread(found: tuple[float, float]) -> str:
    """Return the paper's mean (standard deviation), in %.

    >>> published_spread((0.525, 0.003))
    '52.5 (0.3)'
    """
    mean, deviation = found
    return f"{100 * mean:.1f} ({100 * deviation:.1f})"


def _table(columns: dict[str, dict[str, str]]) -> pd.DataFrame:
    """Make a table with a row per model, in the order of their names."""
    models = [
        name for name in NAMES if any(name in c for c in columns.values())
    ]
    return pd.DataFrame(
        {
            title: [cells.get(model, "") for model in models]
            for title, cells in columns.items()
        },
        index=pd.Index(models, name="model"),
    )


def save_table(frame: pd.DataFrame, path: Path) -> str:
    """Save a table as CSV and Markdown; return the Markdown."""
    shown = frame.reset_index() if frame.index.name else frame
    frame.to_csv(
        path.with_name(f"{path.name}.csv"), index=bool(frame.index.name)
    )
    text = markdown(shown)
    path.with_name(f"{path.name}.md").write_text(text + "\n")
    return text


def markdown(frame: pd.DataFrame) -> str:
    """Format a table as Markdown; pandas needs another package for that."""

    def cell(value: object) -> str:
        return f"{value:.2f}" if isinstance(value, float) else str(value)

    lines = [list(frame.columns), ["---"] * len(frame.columns)]
    lines += [
        [cell(value) for value in row] for row in frame.itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
