"""Measure the way from a new graph to a trained model: ours and those of peers.

    python benchmarks/end_to_end.py [--graphs arxiv half few] [--size all]

Every way trains the same model, from the same weights, for the same number of
epochs, and predicts the test nodes. Each runs in a process of its own, and
begins with a graph of which DGL knows the edges alone (COO).

- dgl-lc: ``model.precompute`` and ``HopLoader``.
- DGL hops, indexed batches: hop features by ``update_all``, and batches that
  are taken by their indices, as DGL's example of SIGN does.
- DGL hops, DataLoader: the same with torch's
  ``DataLoader(TensorDataset(...))``.
- PyG SIGN: PyG's transform and indexed batches, where PyG is installed.
- DGL, full graph: the original model, one step per epoch on the whole graph.

All of them use the dropout of dgl-lc, so that differences come from nothing
else. Compiled code is loaded before the clock starts. Peak memory is that of
the whole process without its imports: graph and features are in it.
"""

import argparse
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import torch
from end_to_end_bars import draw_bars
from measure import Peak, answer, in_process
from section import (
    Options,
    Row,
    Section,
    add_options,
    format_ratio,
    format_value,
    options_of,
    print_rows,
    row,
    select,
    table,
    times_better,
)
from tasks import (
    arxiv_task,
    power_law_task,
    read_task,
    some_labelled,
    write_task,
)
from ways import FULL_GRAPH, STAGES, WAYS, run_way

from dgl_lc.data import NodeData
from dgl_lc.experiments import originals
from dgl_lc.nn import LCGCN, LCGPRGNN, SIGN

HIDDEN = 256
K = 3
#: The share of the nodes that have a label in ogbn-papers100M.
FEW = 0.014
MODELS: dict[str, Any] = {
    "LCGCN": lambda *sizes: LCGCN(*sizes, num_layers=2, dropout=0.5),
    "SIGN": lambda *sizes: SIGN(*sizes, K=K, dropout=0.5),
    "LCGPRGNN": lambda *sizes: LCGPRGNN(*sizes, K=K, num_layers=3, dropout=0.5),
}
#: What the LC versions were made of. SIGN reads hop features by design.
ORIGINALS: dict[str, Any] = {
    "LCGCN": lambda *sizes: originals.GCN(*sizes, num_layers=2, dropout=0.5),
    "LCGPRGNN": lambda *sizes: originals.GPRGNN(
        *sizes, K=K, num_layers=3, dropout=0.5
    ),
}


@dataclass(frozen=True)
class Case:
    """A graph, and what is trained on it.

    Attributes
    ----------
    text : str
        What the graph is.
    epochs : dict
        Number of epochs of each model, the same for every way.
    models : dict
        Names of the models of the default size, and whether the original is
        trained as well. Size "all" has all of them.
    """

    text: str
    epochs: dict[str, int]
    models: dict[str, bool]

    def trains(self, model: str, way: str, size: str) -> bool:
        """Tell whether a model is trained in this way."""
        if way.startswith("PyG") and find_spec("torch_geometric") is None:
            return False
        if way == FULL_GRAPH and model not in ORIGINALS:
            return False
        if size != "default":
            return True
        if way == FULL_GRAPH:
            return self.models.get(model, False)
        return model in self.models


CASES = {
    "arxiv": Case(
        "ogbn-arxiv's graph",
        {"LCGCN": 10, "SIGN": 3, "LCGPRGNN": 3},
        {"LCGCN": True, "SIGN": False, "LCGPRGNN": True},
    ),
    "half": Case(
        "1M nodes, 16M edges, 50 % labelled",
        {"LCGCN": 3, "SIGN": 3, "LCGPRGNN": 2},
        {"LCGCN": True},
    ),
    "few": Case(
        "1M nodes, 16M edges, 1.4 % labelled",
        {"LCGCN": 20, "SIGN": 10, "LCGPRGNN": 10},
        {"SIGN": False},
    ),
}


def end_to_end(graph: str, options: Options) -> Iterator[Row]:
    """Yield seconds of the stages, peak and accuracy of each way."""
    folder = options.scratch / f"end_to_end_{graph}"
    task = make_task(graph, options)
    if task is None:
        return
    case = CASES[graph]
    if options.size == "tiny":
        case = replace(case, text="tiny", epochs=dict.fromkeys(MODELS, 2))
    try:
        write_task(task, folder)
        del task
        for model in MODELS:
            for way in WAYS:
                if case.trains(model, way, options.size):
                    yield from _measure(case, model, way, options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_task(graph: str, options: Options) -> NodeData | None:
    """Make what is trained on; None if a file does not exist."""
    tiny = options.size == "tiny"
    if graph == "arxiv":
        return power_law_task(400, 4) if tiny else arxiv_task(options.data)
    data = power_law_task(600, 4) if tiny else power_law_task(1_000_000)
    return some_labelled(data, FEW if graph == "few" and not tiny else 0.5)


def _measure(
    case: Case, model: str, way: str, options: Options, folder: Path
) -> Iterator[Row]:
    epochs = case.epochs[model]
    task = {
        "folder": str(folder), "model": model, "way": way, "epochs": epochs,
        "runs": options.runs, "threads": options.threads,
    }  # fmt: skip
    # Tests have no time for a process each.
    here = options.size == "tiny"
    found = run_task(task) if here else in_process(__file__, task)
    title = f"{case.text}: {model}, {epochs} epochs"

    def one(what: str, value: float, unit: str, runs: int = 1) -> Row:
        more = {"model": model, "epochs": epochs}
        return row(title, way, what, value, unit, runs=runs, **more)

    for stage in STAGES:
        yield one(stage, found["seconds"][stage], "s", options.runs)
    total = sum(found["seconds"].values())
    yield one("total", total, "s", options.runs)
    yield one("peak memory", found["peak"], "B")
    yield one("test accuracy", found["accuracy"], "%")


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    """Run one way, in a process that :func:`end_to_end` has started."""
    torch.set_num_threads(task["threads"])
    warnings.filterwarnings("ignore", ".*Sparse.*", UserWarning)
    make = ORIGINALS if task["way"] == FULL_GRAPH else MODELS
    kind = WAYS[task["way"]]

    def start(data: Any) -> Any:
        torch.manual_seed(0)
        sizes = data.feat.shape[1], HIDDEN, data.num_classes
        return kind(data, make[task["model"]](*sizes))

    # What is compiled, and what starts at a first use, is loaded here.
    small = Path(task["folder"]) / "small"
    write_task(some_labelled(power_law_task(300, 4), 0.5), small)
    run_way(start(read_task(small)), 2, 1)
    shutil.rmtree(small)
    peak = Peak()
    found = run_way(
        start(read_task(Path(task["folder"]))), task["epochs"], task["runs"],
        peak,
    )  # fmt: skip
    return {
        "seconds": found.stages.seconds,
        "peak": found.peak,
        "accuracy": 100 * found.accuracy,
    }


# Tables


def totals(rows: list[Row]) -> str:
    """Make the table of total seconds."""
    return table(rows, what="total", across="model")


def all_stages(rows: list[Row]) -> str:
    """Make a table with the stages, the peak and the accuracy of each way."""
    columns = [*STAGES, "total", "peak memory", "test accuracy"]
    parts = []
    for case in dict.fromkeys(r["case"] for r in rows):
        of_case = select(rows, case=case)
        lines = [
            f"**{case}**\n",
            f"| | {' | '.join(columns)} |",
            "| --- |" + " --- |" * len(columns),
        ]
        ours = {r["what"]: r for r in select(of_case, name="dgl-lc")}
        for name in dict.fromkeys(r["name"] for r in of_case):
            cells = []
            for what in columns:
                (found,) = select(of_case, name=name, what=what)
                text = format_value(found["value"], found["unit"])
                if what in ("total", "peak memory") and name != "dgl-lc":
                    ratio = times_better(ours[what], found)
                    text += f" ({format_ratio(ratio)})"
                cells.append(text)
            lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _section(graph: str, minutes: float) -> Section:
    name = f"end-to-end-{graph}"
    return Section(
        partial(end_to_end, graph),
        {name: totals, f"{name}-stages": all_stages},
        charts={f"end_to_end_{graph}.svg": draw_bars},
        minutes=minutes,
    )


SECTIONS_OF_BENCH = {
    f"end_to_end_{graph}": _section(graph, minutes)
    for graph, minutes in (("arxiv", 3.1), ("half", 2.3), ("few", 1.3))
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--graphs", nargs="+", choices=list(CASES), default=list(CASES),
        help="graphs to measure on (default: all)",
    )  # fmt: skip
    add_options(parser)
    args = parser.parse_args()
    for graph in args.graphs:
        rows = print_rows(end_to_end(graph, options_of(args)))
        print(f"\n{all_stages(rows)}")


if __name__ == "__main__" and not answer(run_task):
    main()
