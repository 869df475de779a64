"""The demo: originals and their LC versions on a generated graph."""

from pathlib import Path
from typing import Any

import pandas as pd

from ..data import NodeData, block_model
from .plots import accuracy_over_time
from .train_one import TrainedModel, train_model

#: The models of the demo with their options; an LC version follows its
#: original.
DEMO_MODELS: dict[str, dict[str, Any]] = {
    "GCN": {"dropout": 0.5},
    "LCGCN": {"dropout": 0.5},
    "JKNet": {"dropout": 0.5},
    "LCJKNet": {"dropout": 0.5},
    "GPRGNN": {"dropout": 0.5},
    "LCGPRGNN": {"dropout": 0.5},
    "SGC": {},
    "FSGNN": {"dropout": 0.5},
}


def run_demo(
    nodes: int, epochs: int, hid_feats: int, folder: Path, seed: int = 0
) -> list[TrainedModel]:
    """Train all models, print a table, and save it with a figure."""
    data = block_model(nodes, seed=seed)
    print(data, flush=True)
    results = []
    for name, options in DEMO_MODELS.items():
        result = train_model(
            name, data, hid_feats=hid_feats, seed=seed, options=options,
            epochs=epochs, patience=20, lr=0.01, weight_decay=1e-5,
        )  # fmt: skip
        results.append(result)
        print(
            f"{name:10} test accuracy {100 * result.test_accuracy:5.2f} %, "
            f"{result.total_seconds:5.1f} s",
            flush=True,
        )
    frame = table(results)
    print(f"\n{format_table(frame)}\n")
    for line in remarks(results, data):
        print(line)
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / "table.csv", index=False)
    figure = folder / "accuracy.png"
    title = f"{data.name}, {data.graph.num_nodes():,} nodes"
    accuracy_over_time(results, figure, title)
    print(f"\nsaved: {folder / 'table.csv'}, {figure}")
    return results


def table(results: list[TrainedModel]) -> pd.DataFrame:
    """Make a table with one row per model."""
    return pd.DataFrame(
        {
            "model": r.name,
            "test accuracy": r.test_accuracy,
            "valid accuracy": r.fit.valid_accuracy,
            "epochs": len(r.fit.history),
            "s/epoch": r.fit.epoch_seconds,
            "precompute s": r.precompute_seconds,
            "total s": r.total_seconds,
            "parameters": r.num_parameters,
        }
        for r in results
    )


def format_table(frame: pd.DataFrame) -> str:
    """Format the table for the terminal, with rounded numbers."""
    shown = frame.copy()
    for name in ("test accuracy", "valid accuracy"):
        shown[name] = [f"{100 * value:.2f} %" for value in frame[name]]
    for name, digits in (("s/epoch", 3), ("precompute s", 2), ("total s", 1)):
        shown[name] = [
            f"{value:.{digits}f}" if value else "-" for value in frame[name]
        ]
    shown["parameters"] = [f"{value:,}" for value in frame["parameters"]]
    return shown.to_string(index=False)


def remarks(results: list[TrainedModel], data: NodeData) -> list[str]:
    """Compare each LC version with its original; explain why one is slower."""
    found = {r.name: r for r in results}
    lines = []
    for name, lc in found.items():
        original = found.get(name.removeprefix("LC"))
        if not name.startswith("LC") or original is None:
            continue
        points = 100 * (lc.test_accuracy - original.test_accuracy)
        ratio = original.fit.epoch_seconds / lc.fit.epoch_seconds
        total = original.total_seconds / lc.total_seconds
        lines.append(
            f"{name} against {original.name}: {points:+.2f} points of "
            f"accuracy, {ratio:.1f}x as fast per epoch, {total:.1f}x in total."
        )
        if ratio < 1:
            lines.append(
                f"  {name} is slower: its layers run on {lc.rows:,} rows per "
                f"epoch ({lc.rows // len(data.train)} hops of each training "
                f"node), those of {original.name} on {original.rows:,} "
                f"nodes. On a CPU the multiplications take most of the time, "
                f"and the saved aggregation is the smaller part."
            )
    return lines
