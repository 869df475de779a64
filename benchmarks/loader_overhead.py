"""Measure what the loader adds to an epoch, for each model of dgl_lc.nn.

    python benchmarks/loader_overhead.py [--models LCGCN SGC] [--json FILE]

For each model, in float32 and within autocast to bfloat16: seconds of an
epoch on batches that were gathered beforehand, and of the same epoch through
HopLoader, which gathers shuffled rows from memory. Both take turns; the
figures are minima.
"""

import argparse
import gc
import json
import time
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import torch
import torch.nn.functional as F

from dgl_lc import nn
from dgl_lc.data import power_law_graph
from dgl_lc.training import HopLoader

COLUMNS, HIDDEN, CLASSES = 128, 256, 40
SIZES = COLUMNS, HIDDEN, CLASSES
#: The models, with what differs from (columns, hidden, classes, dropout).
MODELS = {
    "SGC": lambda: nn.SGC(COLUMNS, CLASSES, K=2),
    "SIGN": lambda: nn.SIGN(*SIZES, dropout=0.5),
    "FSGNN": lambda: nn.FSGNN(*SIZES, dropout=0.5),
    "SAGN": lambda: nn.SAGN(*SIZES, dropout=0.5),
    "GAMLP": lambda: nn.GAMLP(*SIZES, dropout=0.5),
    "LCGCN": lambda: nn.LCGCN(*SIZES, dropout=0.5),
    "LCJKNet": lambda: nn.LCJKNet(*SIZES, dropout=0.5),
    "LCGPRGNN": lambda: nn.LCGPRGNN(*SIZES, dropout=0.5),
    "LCAPPNP": lambda: nn.LCAPPNP(*SIZES, dropout=0.5),
    "LCMixHop": lambda: nn.LCMixHop(COLUMNS, 86, CLASSES, layer_dropout=0.5),
    "LCH2GCN": lambda: nn.LCH2GCN(*SIZES, dropout=0.5),
}


def measure(models=tuple(MODELS), nodes=100_000, size=4096, runs=3):
    """Return a row for each model and precision."""
    generator = torch.Generator().manual_seed(0)
    # The loader does not see the graph: few edges are enough.
    g = power_law_graph(nodes, 2 * nodes, exponent=4.0)
    x = torch.randn(nodes, COLUMNS, generator=generator)
    labels = torch.randint(CLASSES, (nodes,), generator=generator)
    found = []
    for name in models:
        model = MODELS[name]()
        loader = HopLoader(
            model.precompute(g, x), torch.arange(nodes), labels, size,
            shuffle=True,
        )  # fmt: skip
        ready = list(loader)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        for precision in ("fp32", "bf16"):
            found.append(
                {"model": name, "precision": precision}
                | compare(model, optimizer, ready, loader, precision, runs)
            )
            print(line(found[-1]), flush=True)
        del ready, loader
    return found


def compare(model, optimizer, ready, loader, precision, runs):
    """Measure epochs on gathered batches and through the loader."""

    def epoch(batches):
        for batch, y in batches:
            with torch.autocast(
                "cpu", torch.bfloat16, enabled=precision == "bf16"
            ):
                logits = model(None, batch)
            loss = F.cross_entropy(logits.float(), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    epoch(ready[:3])
    times = []
    for run in range(runs):
        # They take turns, and each is first as often as the other.
        pair = [
            (place, seconds_of(lambda b=batches: epoch(b)))
            for place, batches in sorted(
                enumerate((ready, loader)), reverse=bool(run % 2)
            )
        ]  # fmt: skip
        times.append([seconds for _, seconds in sorted(pair)])
    gathered, loaded = (min(column) for column in zip(*times, strict=True))
    return {
        "gathered_seconds": gathered,
        "loaded_seconds": loaded,
        "ratio": loaded / gathered,
    }


def seconds_of(call):
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def line(row):
    return (
        f"{row['model']:9} {row['precision']} gathered beforehand "
        f"{row['gathered_seconds']:.3f} s, HopLoader "
        f"{row['loaded_seconds']:.3f} s: {row['ratio']:.2f}x"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", nargs="+", choices=list(MODELS), default=list(MODELS),
        help="models to measure (default: all)")  # fmt: skip
    add("--nodes", type=int, default=100_000,
        help="nodes of an epoch (default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=4096,
        help="nodes in a batch (default: %(default)s)")  # fmt: skip
    add("--runs", type=int, default=3,
        help="timed epochs of each (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--json", type=Path, help="file to write the rows to")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(
        f"dgl-lc {dgl_lc.__version__}, torch {torch.__version__}, "
        f"{args.threads} threads; {args.nodes:,} nodes, {COLUMNS} columns, "
        f"batches of {args.batch_size}, hidden {HIDDEN}, minimum of "
        f"{args.runs} epochs",
        flush=True,
    )
    rows = measure(args.models, args.nodes, args.batch_size, args.runs)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
