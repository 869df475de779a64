"""Tables of the study of models old and new, from its records as text.

The records are those that ``study_records.py pack`` keeps in
docs/results/today. No data set is needed to make the tables.
"""

import json
from collections import defaultdict
from pathlib import Path

import pandas as pd

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable

from dgl_lc.experiments.results_folder import slug
from dgl_lc.experiments.tables import markdown, spread
from dgl_lc.experiments.today_space import ENTRANTS, Contest, contests
from dgl_lc.experiments.today_tables import (
    Runs,
    ablation_table,
    choices,
    results_table,
)

#: The pieces of an ablation table, in the words of its columns.
PIECES = {
    "options": "options", "labels": "labels", "stages": "self-training",
    "C&S": "C&S", "C&S after labels": "C&S after labels",
}  # fmt: skip


def read_records(folder: Path) -> dict[str, list[dict]]:
    """Return the records of each data set, in the order of their files.

    A data set with two studies, which trained for different numbers of
    epochs, is two: their records are not compared.
    """
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        studies: dict[str, list[dict]] = defaultdict(list)
        for line in path.read_text().splitlines():
            record = json.loads(line)
            epochs = record["key"]["training"]["epochs"]
            studies[f"{record['data']}, {epochs} epochs"].append(record)
        if len(studies) == 1:
            (records,) = studies.values()
            studies = {records[0]["data"]: records}
        found.update(studies)
    return found


def complete_runs(records: list[dict]) -> list[Runs]:
    """Return each contest with its runs, where all seeds have one.

    Of self-training, the threshold counts that was better with seed 1: only
    that one has all seeds.
    """
    groups: dict[tuple, dict[int, dict]] = defaultdict(dict)
    for record in records:
        if record["seed"] > 0:
            params = json.dumps(record["key"]["params"], sort_keys=True)
            group = record["model"], params, record["threshold"]
            groups[group][record["seed"]] = record
    seeds = max(map(len, groups.values()), default=0)
    by_title: dict[str, list[dict]] = {}
    for (title, *_), runs in groups.items():
        if len(runs) < seeds:
            continue
        if title in by_title:
            raise ValueError(
                f"{title} has all seeds with two sets of parameters: delete "
                f"the records of an older search"
            )
        by_title[title] = [runs[seed] for seed in sorted(runs)]
    every: list[tuple[str, Contest]] = [
        (contest.title + suffix, contest)
        for suffix in ("", " + stages")
        for contest in contests(list(ENTRANTS))
    ]
    return [(c, by_title[t]) for t, c in every if t in by_title]


def summary_table(found: dict[str, list[Runs]]) -> pd.DataFrame:
    """Compare the best without new pieces with the best of all."""
    rows = []
    for name, runs in found.items():
        old, new = choices(runs)
        if old is None:
            continue
        metric = runs[0][1][0]["metric"]
        points = 100 * (new.test.mean() - old.test.mean())
        rows.append({
            "data set": name,
            "metric": {"roc_auc": "ROC AUC"}.get(metric, metric),
            "seeds": len(old.test),
            "best of 2022": old.title,
            "test": spread(old.test),
            "best of all": new.title,
            "its test": spread(new.test),
            "difference": f"{points:+.2f}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def models_table(found: dict[str, list[Runs]]) -> pd.DataFrame:
    """Make the table of all models without pieces: test of each data set."""
    rows: dict[str, dict[str, str]] = {title: {} for title in ENTRANTS}
    for name, runs in found.items():
        for contest, records in runs:
            title = records[0]["model"]
            if title == contest.entrant.title:
                test = pd.Series([record["test"] for record in records])
                rows[title][name] = spread(test)
    return pd.DataFrame(
        [{"model": title, **row} for title, row in rows.items() if row]
    ).fillna("")


def pieces_table(found: dict[str, list[Runs]]) -> pd.DataFrame:
    """Make the table of what each piece adds: mean over models, and range."""
    rows = [{"piece": text} for text in PIECES.values()]
    for name, runs in found.items():
        table = ablation_table(runs)
        for row, piece in zip(rows, PIECES, strict=True):
            points = [float(cell) for cell in table[piece] if cell]
            if points:
                mean = sum(points) / len(points)
                row[name] = (
                    f"{mean:+.2f} ({min(points):+.2f} to {max(points):+.2f})"
                )
    return pd.DataFrame(rows, columns=["piece", *found]).fillna("")


def spent_table(found: dict[str, list[dict]]) -> pd.DataFrame:
    """Make the table of trainings and hours of each data set."""
    rows = []
    for name, records in found.items():
        trials = sum(record["seed"] == 0 for record in records)
        seconds = sum(
            record["train_seconds"] + record.get("smooth_seconds", 0.0)
            for record in records
        )
        rows.append({
            "data set": name, "trials": trials,
            "runs": len(records) - trials, "hours": seconds / 3600,
        })  # fmt: skip
    table = pd.DataFrame(rows)
    total = {"data set": "all", **table.drop(columns="data set").sum()}
    table = pd.concat([table, pd.DataFrame([total])], ignore_index=True)
    for column in ("trials", "runs"):
        table[column] = table[column].astype(int)
    table["hours"] = table["hours"].map("{:.1f}".format)
    return table


def study_tables(folder: Path) -> dict[str, str]:
    """Return all tables as Markdown, by the names of their blocks."""
    records = read_records(folder)
    if not records:
        return {}
    found = {
        name: runs
        for name, own in records.items()
        if (runs := complete_runs(own))
    }
    tables = {
        "study-summary": summary_table(found),
        "study-models": models_table(found),
        "study-pieces": pieces_table(found),
        "study-spent": spent_table(records),
    }
    for name, runs in found.items():
        tables[f"study-results-{slug(name)}"] = results_table(runs)
        tables[f"study-ablation-{slug(name)}"] = ablation_table(runs)
    return {name: markdown(table) for name, table in tables.items()}
