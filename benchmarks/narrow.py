"""Measure what bfloat16 and float16 hop features gain, and what they cost.

    python benchmarks/narrow.py [--only times accuracy] [--graphs pubmed ...]

times: seconds from float32 features to all hops, in memory, with K=3 and 128
columns, stored as float32, bfloat16 and float16; the edges of the graph are
sorted. Conversion and allocation are counted. accuracy: test accuracy of
models trained on them, on real graphs, with the same seeds for each type.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import numpy as np
import torch
import torch.nn.functional as F
from measure import seconds_of
from section import Options, Row, Section, print_rows, row, select, value

from dgl_lc.data import load, power_law_graph
from dgl_lc.experiments.train_one import train_model
from dgl_lc.precompute import block_aggregate

TYPES = (torch.float32, torch.bfloat16, torch.float16)
COLUMNS, K = 128, 3
#: Nodes and edges of the generated graphs, by the size of the run.
GRAPHS = {
    "tiny": {"2,000 nodes, 20,000 edges": (2_000, 20_000)},
    "default": {"4M nodes, 65M edges": (4_000_000, 65_000_000)},
    "all": {
        "1M nodes, 16M edges": (1_000_000, 16_000_000),
        "4M nodes, 65M edges": (4_000_000, 65_000_000),
    },
}
#: Options of the models, with a hidden size of 64.
MODELS = {
    "LCGCN": {"num_layers": 2, "dropout": 0.5},
    "LCGPRGNN": {"K": 3, "num_layers": 2, "dropout": 0.5, "alpha": 0.1},
    "SAGN": {"K": 3},
}
#: How models are trained on each real graph.
TASKS = {
    "ogbn_arxiv": {"epochs": 8, "patience": 8, "batch_size": 8192},
    "amazon_computers": {"epochs": 50, "patience": 25},
    "pubmed": {"epochs": 100, "patience": 50, "weight_decay": 5e-3},
}


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type without its module."""
    return str(dtype).removeprefix("torch.")


def times(options: Options) -> Iterator[Row]:
    """Yield the seconds of each type on generated graphs."""
    for case, (nodes, edges) in GRAPHS[options.size].items():
        g = power_law_graph(nodes, edges)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(nodes, COLUMNS, generator=generator)
        exact: list[torch.Tensor] = []
        for dtype in TYPES:

            def call(dtype=dtype, g=g, x=x):
                return block_aggregate(g, x, K, dtype=dtype, progress=False)

            some = [hop[:1000].float() for hop in call()]
            seconds = min(seconds_of(call) for _ in range(options.runs))
            exact = exact or some
            error = max(
                float((a - b).norm() / b.norm())
                for a, b in zip(some, exact, strict=True)
            )
            yield row(
                case, name_of(dtype), "all hops", seconds, "s",
                runs=options.runs, error=error,
            )  # fmt: skip


def times_table(rows: list[Row]) -> str:
    """Make a table of the seconds, and of how much faster a type is."""
    lines = ["| | | seconds | speed | error of a hop |", "| --- " * 5 + "|"]
    for r in select(rows, what="all hops"):
        base = value(rows, case=r["case"], name="float32", what="all hops")
        lines.append(
            f"| {r['case']} | {r['name']} | {r['value']:.2f} | "
            f"{base / r['value']:.2f}x | {r['error']:.1e} |"
        )
    return "\n".join(lines)


def accuracy(
    options: Options,
    graphs: Iterable[str] = tuple(TASKS),
    models: Iterable[str] = tuple(MODELS),
    seeds: int = 5,
) -> Iterator[Row]:
    """Yield the test accuracy of models trained on each type."""
    for name in graphs:
        path = options.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: skipped, {path} does not exist")
            continue
        data = load(path, add_reverse=name == "ogbn_arxiv")
        data.feat = _prepare(name, data.feat)
        for model in models:
            for dtype in TYPES:
                found = [
                    100
                    * train_model(
                        model, data, hid_feats=64, seed=seed,
                        options=MODELS[model], precompute={"dtype": dtype},
                        lr=0.01, progress=False, **TASKS[name],
                    ).test_accuracy
                    for seed in range(seeds)
                ]  # fmt: skip
                yield row(
                    name, model, name_of(dtype), float(np.mean(found)), "%",
                    runs=seeds, spread=float(np.std(found)), each=found,
                )  # fmt: skip


def _prepare(name: str, feat: torch.Tensor) -> torch.Tensor:
    """Scale features as in benchmarks/training.py."""
    if name == "ogbn_arxiv":
        return feat
    feat = F.normalize(feat, dim=1)
    if name == "pubmed":
        return feat
    return (feat - feat.mean(dim=0)) / feat.std(dim=0).clamp(min=1e-6)


def accuracy_table(rows: list[Row]) -> str:
    """Make a table of mean accuracies, with the deviation over seeds."""
    names = [name_of(dtype) for dtype in TYPES]
    lines = [f"| | | {' | '.join(names)} |", "| --- " * 5 + "|"]
    cases = dict.fromkeys((r["case"], r["name"]) for r in rows)
    for case, model in cases:
        cells = []
        for name in names:
            (found,) = select(rows, case=case, name=model, what=name)
            cells.append(f"{found['value']:.2f} ({found['spread']:.2f})")
        lines.append(f"| {case} | {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "narrow": Section(times, {"narrow": times_table}, minutes=1.1),
    "narrow accuracy": Section(
        accuracy, {"narrow_accuracy": accuracy_table}, minutes=20,
        only_all=True,
    ),
}  # fmt: skip


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--only", nargs="+", choices=("times", "accuracy"),
        default=["times", "accuracy"], help="what to measure (default: both)",
        )  # fmt: skip
    add("--size", choices=list(GRAPHS), default="default",
        help="size of the generated graphs (default: %(default)s)",
        )  # fmt: skip
    add("--runs", type=int, default=3,
        help="number of timed runs (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--graphs", nargs="+", choices=list(TASKS), default=list(TASKS),
        help="real graphs of 'accuracy' (default: all)")  # fmt: skip
    add("--models", nargs="+", choices=list(MODELS), default=list(MODELS),
        help="models of 'accuracy' (default: all)")  # fmt: skip
    add("--seeds", type=int, default=5,
        help="number of seeds of 'accuracy' (default: %(default)s)",
        )  # fmt: skip
    add("--data", type=Path, default=Options().data,
        help="folder with the real graphs (default: ../shared/data beside "
        "the repository)")  # fmt: skip
    return parser.parse_args()


def main(args):
    torch.set_num_threads(args.threads)
    print(f"dgl-lc {dgl_lc.__version__}, dgl {dgl.__version__}, torch "
          f"{torch.__version__}, {args.threads} threads")  # fmt: skip
    options = Options(args.size, args.runs, args.threads, args.data)
    if "times" in args.only:
        print("\n" + times_table(print_rows(times(options))))
    if "accuracy" in args.only:
        found = print_rows(
            accuracy(options, args.graphs, args.models, args.seeds)
        )
        print("\n" + accuracy_table(found))


if __name__ == "__main__":
    main(parse_args())
