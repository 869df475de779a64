"""The demo: originals and their LC versions on a generated graph."""

import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from dgl import DGLError

from ..data import NodeData, save_npz
from ..nn import LCGPRGNN
from .demo_page import is_demo_page, write_page
from .demo_settings import FAMILIES, SETTINGS, demo_task, family_of
from .papers100m_plan import papers100m_plan
from .plots import accuracy_over_time
from .train_one import TrainedModel, train_model

#: Hops of the store that the demo writes.
STORE_HOPS = 5
_PAGE = "index.html"


def run_demo(
    nodes: int,
    epochs: int,
    hid_feats: int,
    folder: Path,
    seed: int = 0,
    seeds: int = 3,
) -> list[TrainedModel]:
    """Train all models, print a table, and save it with a figure and a page."""
    check_demo_folder(folder)
    data = demo_task(nodes, seed)
    print(data, flush=True)
    compiling = compile_kernels(data, hid_feats)
    print(
        f"compiled the kernels, or found them compiled: {compiling:.1f} s, "
        f"which no time below includes",
        flush=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_page(folder / _PAGE, "", [("p", "The demo has not finished.")])
    results = []
    for name in [name for family in FAMILIES.values() for name in family]:
        runs = [
            _train(name, data, epochs, hid_feats, (seed + number) % 2**63)
            for number in range(seeds)
        ]
        results += runs
        print(_line(name, runs), flush=True)
    frame = table(results)
    notes = [_setting(data, hid_feats, seeds), *remarks(results, data)]
    print(f"\n{format_table(frame)}\n")
    print("\n".join(notes))
    plan = papers100m_plan()
    print(f"\n{plan}\n")
    frame.to_csv(folder / "table.csv", index=False)
    title = f"{data.name}, {data.graph.num_nodes():,} nodes"
    accuracy_over_time(results, folder / "accuracy.png", title)
    save_npz(data, folder / "task.npz")
    _write_store(data, hid_feats, folder / "hops")
    files, commands = _files(folder), next_commands(folder)
    write_page(
        folder / _PAGE,
        title,
        [
            ("p", f"{data}"),
            ("table", shown(frame)),
            ("notes", notes),
            ("figure", folder / "accuracy.png"),
            ("h2", "ogbn-papers100M on this machine"),
            ("pre", plan),
            ("h2", "Try next"),
            ("commands", commands),
        ],
    )
    print("\n".join(["saved:", *files, "", "try next:"]))
    print("\n".join(f"  {command}" for command in commands))
    return results


def check_demo_folder(folder: Path) -> None:
    """Refuse a folder with files that the demo did not write."""
    if not folder.is_dir() or is_demo_page(folder / _PAGE):
        return
    if any(folder.iterdir()):
        raise DGLError(
            f"{folder} has files that the demo did not write: name a new "
            f"folder with --out, or empty this one."
        )


def compile_kernels(data: NodeData, hid_feats: int) -> float:
    """Train every model for an epoch on a small graph; return the seconds.

    What is measured later then has no compiling in it, and no first use of a
    library.
    """
    start = time.perf_counter()
    small = demo_task(max(200, data.num_classes), seed=1)
    for names in FAMILIES.values():
        for name in names:
            _train(name, small, 1, hid_feats, seed=0)
    return time.perf_counter() - start


def _train(
    name: str, data: NodeData, epochs: int, hid_feats: int, seed: int
) -> TrainedModel:
    found = SETTINGS[family_of(name)]
    return train_model(
        name, data, hid_feats=hid_feats, seed=seed, options=found.options,
        epochs=epochs, patience=20, lr=found.lr,
        weight_decay=found.weight_decay,
    )  # fmt: skip


def _line(name: str, runs: list[TrainedModel]) -> str:
    accuracies = [f"{100 * r.test_accuracy:.2f} %" for r in runs]
    seconds = sum(r.total_seconds for r in runs) / len(runs)
    found = ", ".join(accuracies)
    return f"{name:10} test accuracy {found}; {seconds:.1f} s each"


def _setting(data: NodeData, hid_feats: int, seeds: int) -> str:
    steps = -(-len(data.train) // 4096)
    return (
        f"Means over {seeds} seeds of weights and dropout, and the standard "
        f"deviation in brackets; hidden size {hid_feats}. Both sides of a pair "
        f"have the same parameters. Of {data.graph.num_nodes():,} nodes "
        f"{len(data.train):,} are for training: an epoch of an original is one "
        f"step on the whole graph, an epoch of an LC version is "
        f"{'one step' if steps == 1 else f'{steps} steps'} on these rows."
    )


def _runs(results: list[TrainedModel]) -> dict[str, list[TrainedModel]]:
    """Group the runs by their models."""
    found: dict[str, list[TrainedModel]] = {}
    for result in results:
        found.setdefault(result.name, []).append(result)
    return found


def table(results: list[TrainedModel]) -> pd.DataFrame:
    """Make a table with one row per model: means over its runs."""
    rows = []
    for name, runs in _runs(results).items():
        values = pd.DataFrame(
            {
                "test accuracy": r.test_accuracy,
                "valid accuracy": r.fit.valid_accuracy,
                "epochs": len(r.fit.history),
                "s/epoch": r.fit.epoch_seconds,
                "precompute s": r.precompute_seconds,
                "total s": r.total_seconds,
            }
            for r in runs
        )
        row: dict[str, Any] = {"model": name, "runs": len(runs)}
        row.update(values.mean())
        # Of one run there is no deviation.
        deviation = values["test accuracy"].std() if len(runs) > 1 else 0.0
        row["deviation"] = deviation
        row["parameters"] = runs[0].num_parameters
        rows.append(row)
    order = [
        "model", "test accuracy", "deviation", "valid accuracy", "epochs",
        "s/epoch", "precompute s", "total s", "parameters", "runs",
    ]  # fmt: skip
    return pd.DataFrame(rows)[order]


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Round the numbers of the table, and write them as a reader expects."""
    text = pd.DataFrame({"model": frame["model"]})
    text["test accuracy"] = [
        f"{100 * mean:.2f} ({100 * deviation:.2f}) %"
        for mean, deviation in zip(
            frame["test accuracy"], frame["deviation"], strict=True
        )
    ]
    text["epochs"] = [f"{value:.0f}" for value in frame["epochs"]]
    for name, digits in (("s/epoch", 4), ("precompute s", 2), ("total s", 2)):
        text[name] = [
            f"{value:.{digits}f}" if value else "-" for value in frame[name]
        ]
    text["parameters"] = [f"{value:,}" for value in frame["parameters"]]
    return text


def format_table(frame: pd.DataFrame) -> str:
    """Format the table for the terminal."""
    return shown(frame).to_string(index=False)


def remarks(results: list[TrainedModel], data: NodeData) -> list[str]:
    """Compare each LC version with its original; say where it loses."""
    found = _runs(results)
    frame = table(results).set_index("model")
    lines = []
    for name, runs in found.items():
        original = name.removeprefix("LC")
        if name == original or original not in found:
            continue
        ours, theirs = frame.loc[name], frame.loc[original]
        points = 100 * (ours["test accuracy"] - theirs["test accuracy"])
        ratio = theirs["s/epoch"] / ours["s/epoch"]
        total = theirs["total s"] / ours["total s"]
        lines.append(
            f"{name} against {original}: {points:+.2f} points of "
            f"accuracy, {ratio:.1f}x as fast per epoch, {total:.1f}x in total."
        )
        if points < 0:
            deviation = 100 * max(ours["deviation"], theirs["deviation"])
            lines.append(
                f"  {name} is less accurate here, by "
                f"{'more' if -points > deviation else 'less'} than the "
                f"deviation of the runs: it is another function, in which "
                f"aggregation comes before all activations."
            )
        rows, nodes = runs[0].rows, found[original][0].rows
        if ratio < 1 and rows > nodes:
            lines.append(
                f"  {name} is slower: its layers run on {rows:,} rows per "
                f"epoch ({rows // len(data.train)} hops of each training "
                f"node), those of {original} on {nodes:,} "
                f"nodes. On a CPU the multiplications take most of the time, "
                f"and the saved aggregation is the smaller part."
            )
        elif ratio < 1:
            lines.append(
                f"  {name} is slower, although its layers run on fewer rows "
                f"({rows:,} per epoch) than those of {original} ({nodes:,} "
                f"nodes). Mini-batches are many small steps, which other "
                f"programs on this machine slow down most: if any ran, "
                f"measure again."
            )
    return lines


def _write_store(data: NodeData, hid_feats: int, folder: Path) -> None:
    """Write hop features of all nodes, for the commands to try next."""
    model = LCGPRGNN(
        data.num_feats, hid_feats, data.num_classes, K=STORE_HOPS
    )  # fmt: skip
    with warnings.catch_warnings():
        # That the folder of an earlier demo is written again is meant.
        warnings.simplefilter("ignore")
        model.precompute(data.graph, data.feat, out=folder, resume=False)


def _files(folder: Path) -> list[str]:
    """List what the demo wrote, for people."""
    names = {
        "table.csv": "the table",
        "accuracy.png": "the figure, validation accuracy over time",
        _PAGE: "both on a page for a browser",
        "task.npz": "the task: graph, features, labels and split",
        "hops": f"a hop store: hops 0 to {STORE_HOPS} of all nodes",
    }
    return [f"  {folder / name}: {what}" for name, what in names.items()]


def next_commands(folder: Path) -> list[str]:
    """List three commands that go on from what the demo wrote."""
    task, store, model = (
        folder / name for name in ("task.npz", "hops", "model.pt")
    )
    found = SETTINGS["GPRGNN"]
    both = f"--data {task} --store {store}"
    return [
        f"dgl-lc train {both} --model LCGPRGNN --hops {STORE_HOPS} "
        f"--lr {found.lr} --weight-decay {found.weight_decay} "
        f"--epochs 100 --save {model}",
        f"dgl-lc predict {both} --model {model} "
        f"--out {folder / 'predictions.csv'}",
        "dgl-lc prepare --help  # your own graph",
    ]
