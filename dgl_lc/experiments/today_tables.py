"""Tables of the study of today's accuracy, from the records of its runs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from .tables import spread
from .today_space import Contest

#: The complete runs of a contest: one record per seed.
Runs = tuple[Contest, list[dict[str, Any]]]


class _Line(NamedTuple):
    """Runs of one contest, with one way to use their predictions."""

    contest: Contest
    title: str
    stages: int
    smoothed: bool
    valid: pd.Series
    test: pd.Series

    @property
    def before(self) -> bool:
        """Whether none of the new pieces is in it."""
        return self.contest.before and self.stages == 1 and not self.smoothed


def _lines(found: Sequence[Runs]) -> list[_Line]:
    """List each contest as it is, then corrected and smoothed."""
    lines = []
    for contest, records in found:
        title, stages = records[0]["model"], records[0]["stages"]
        for smoothed in (False, True):
            own = [r["smoothed"] if smoothed else r for r in records]
            lines.append(
                _Line(
                    contest, title + " + C&S" * smoothed, stages, smoothed,
                    pd.Series([row["valid"] for row in own]),
                    pd.Series([row["test"] for row in own]),
                )
            )  # fmt: skip
    return lines


def results_table(found: Sequence[Runs]) -> pd.DataFrame:
    """Make the table of all contests: mean (standard deviation) in %.

    Parameters
    ----------
    found : sequence of tuple
        Contests with the records of all their seeds.
    """
    rows = []
    for contest, records in found:
        frame = pd.DataFrame(records)
        smoothed = pd.DataFrame([r["smoothed"] for r in records])
        row = {
            "model": frame.model.iloc[0],
            "new": "" if contest.before and frame.stages.iloc[0] == 1 else "x",
            "validation": spread(frame.valid),
            "test": spread(frame.test),
            "validation, C&S": spread(smoothed.valid),
            "test, C&S": spread(smoothed.test),
        }
        if frame.metric.iloc[0] != "accuracy":
            row["test accuracy"] = spread(frame.test_accuracy)
        row["CPU s per run"] = f"{frame.train_seconds.mean():.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def ablation_table(found: Sequence[Runs]) -> pd.DataFrame:
    """Make the table of what each piece adds to a model, in test points.

    Each cell compares with the same model without that piece, by the mean
    over seeds; an empty one has no such pair among the complete runs.
    """
    lines = _lines(found)
    rows = []
    for title in dict.fromkeys(line.contest.entrant.title for line in lines):
        own = [line for line in lines if line.contest.entrant.title == title]

        def points(
            with_piece: dict[str, Any],
            without: dict[str, Any],
            own: list[_Line] = own,
        ) -> str:
            pair = [_find(own, **with_piece), _find(own, **without)]
            if pair[0] is None or pair[1] is None:
                return ""
            return f"{100 * (pair[0].test.mean() - pair[1].test.mean()):+.2f}"

        new = own[0].contest.entrant.new
        full = {"options": not new}
        staged = next((line for line in own if line.stages > 1), None)
        row = {"model": title, "options": "", "labels": "", "stages": ""}
        if not new:
            row["options"] = points(full, {})
        row["labels"] = points({**full, "labels": True}, full)
        if staged is not None:
            same = {
                "options": staged.contest.options,
                "labels": staged.contest.labels,
            }
            row["stages"] = points({**same, "stages": staged.stages}, same)
        row["C&S"] = points({"smoothed": True}, {})
        row["C&S after labels"] = points(
            {**full, "labels": True, "smoothed": True},
            {**full, "labels": True},
        )
        rows.append(row)
    return pd.DataFrame(rows)


def _find(
    lines: Sequence[_Line],
    options: bool = False,
    labels: bool = False,
    stages: int = 1,
    smoothed: bool = False,
) -> _Line | None:
    for line in lines:
        own = (line.contest.options, line.contest.labels, line.stages,
               line.smoothed)  # fmt: skip
        if own == (options, labels, stages, smoothed):
            return line
    return None


class Choice(NamedTuple):
    """A row of the results that the validation chooses.

    Attributes
    ----------
    title : str
        The model and its pieces.
    test : pd.Series
        The metric of the test nodes, of each seed.
    """

    title: str
    test: pd.Series


def choices(found: Sequence[Runs]) -> tuple[Choice | None, Choice]:
    """Choose the best without new pieces, and the best of all.

    Both are chosen by the mean over seeds of the validation alone. The first
    is None if all that is complete has new pieces.
    """
    lines = _lines(found)

    def best(among: list[_Line]) -> Choice:
        line = max(among, key=lambda line: float(line.valid.mean()))
        return Choice(line.title, line.test)

    old = [line for line in lines if line.before]
    return best(old) if old else None, best(lines)


def summary(found: Sequence[Runs]) -> str:
    """Compare the best without new pieces with the best of all."""
    old, chosen = choices(found)
    text = f"chosen by validation: {chosen.title}, test {spread(chosen.test)}"
    if old is not None:
        points = 100 * (chosen.test.mean() - old.test.mean())
        text += (
            f"; without the new pieces: {old.title}, test "
            f"{spread(old.test)}; difference {points:+.2f} points"
        )
    return text


def spent(records: Sequence[dict[str, Any]], data: str) -> str:
    """Say how many trainings a data set had, and how long they computed.

    >>> spent([{"data": "cora", "train_seconds": 7200.0}] * 2, "cora")
    '2 trainings of cora, 4.0 CPU hours'
    """
    own = [record for record in records if record["data"] == data]
    seconds = sum(
        record["train_seconds"] + record.get("smooth_seconds", 0.0)
        for record in own
    )
    return f"{len(own)} trainings of {data}, {seconds / 3600:.1f} CPU hours"
