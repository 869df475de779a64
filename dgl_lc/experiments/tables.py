"""The paper's tables, from the records of runs."""

from pathlib import Path
from typing import Any

import pandas as pd

from . import paper
from .recorded_run import NAMES

Record = dict[str, Any]


def frame_of(records: list[Record]) -> pd.DataFrame:
    """A row for each run, without its history."""
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
    """Mean (deviation) of the test accuracy; the paper's beside ours.

    ``names`` says what the paper calls a data set, if it is the same.
    """
    frame = frame_of(records)
    columns: dict[str, dict[str, str]] = {}
    for (data, model), runs in frame.groupby(["data", "model"], sort=False):
        columns.setdefault(data, {})[model] = _spread(runs.test)
        columns.setdefault(f"{data}, last epoch", {})[model] = _spread(
            runs.test_last
        )
        columns.setdefault(f"{data}, parameters", {})[model] = (
            f"{runs.origin.iloc[0]}; {len(runs)} seeds"
        )
        theirs = names.get(data)
        if theirs is not None:
            found = paper.ACCURACY.get(theirs, {}).get(model)
            if found is not None:
                mean, deviation = found
                columns.setdefault(f"{data}, paper", {})[model] = (
                    f"{100 * mean:.1f} ({100 * deviation:.1f})"
                )
    return _table(columns)


def time_table(
    records: list[Record], names: dict[str, str | None]
) -> pd.DataFrame:
    """Seconds an epoch / in all, precomputation included; means."""
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
    """Each LC version beside its original, on every data set."""
    frame = frame_of(records)
    means = frame.groupby(["data", "model"], sort=False).mean(numeric_only=True)
    rows = []
    for data, model in means.index:
        for prefix in ("LC", "auto"):
            original = model.removeprefix(prefix)
            if original == model or (data, original) not in means.index:
                continue
            ours, theirs = means.loc[(data, model)], means.loc[(data, original)]
            rows.append(
                {
                    "data": data,
                    "LC version": model,
                    "parameters": _origins(frame, data, model, original),
                    "points": 100 * (ours.test - theirs.test),
                    "points, last epoch": 100
                    * (ours.test_last - theirs.test_last),
                    "epoch": theirs.epoch_seconds / ours.epoch_seconds,
                    "in all": theirs.total_seconds / ours.total_seconds,
                }
            )
    return pd.DataFrame(rows)


def _origins(frame: pd.DataFrame, data: str, *models: str) -> str:
    """Where the parameters of both are from."""
    own = frame[(frame.data == data) & frame.model.isin(models)]
    return " / ".join(dict.fromkeys(own.origin))


def _spread(values: pd.Series) -> str:
    deviation = values.std(ddof=0)
    return f"{100 * values.mean():.2f} ({100 * deviation:.2f})"


def _table(columns: dict[str, dict[str, str]]) -> pd.DataFrame:
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
    """Save as CSV and Markdown; the Markdown."""
    shown = frame.reset_index() if frame.index.name else frame
    frame.to_csv(
        path.with_name(f"{path.name}.csv"), index=bool(frame.index.name)
    )
    text = markdown(shown)
    path.with_name(f"{path.name}.md").write_text(text + "\n")
    return text


def markdown(frame: pd.DataFrame) -> str:
    """A table as Markdown (pandas would want another package for that)."""

    def cell(value):
        return f"{value:.2f}" if isinstance(value, float) else str(value)

    lines = [list(frame.columns), ["---"] * len(frame.columns)]
    lines += [
        [cell(value) for value in row] for row in frame.itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
