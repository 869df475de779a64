"""Measure what the loader adds to an epoch, for each model of dgl_lc.nn.

    python benchmarks/loader_overhead.py [--models LCGCN SGC] [--json FILE]

For each model, in float32 and within autocast to bfloat16: seconds of an
epoch on batches that were gathered beforehand, of the same epoch through
HopLoader, which gathers shuffled rows from memory, and of one whose batches
are gathered ahead by a thread. They take turns; the figures are minima. An
epoch of a slow model has fewer batches than one of a quick model.

With --cpu-time: the processor time of a batch through the loader and of a
step of the model, each in one thread. Their ratio is what the loader adds, and
other programs on the machine hardly change it.
"""

import argparse
import gc
import json
import time
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import torch
import torch.nn.functional as F
from section import Section, format_value, row, value

from dgl_lc import nn
from dgl_lc.training import HopLoader

COLUMNS, HIDDEN, CLASSES = 128, 256, 40
SIZES = COLUMNS, HIDDEN, CLASSES
#: The models, with what differs from (columns, hidden, classes, dropout).
MODELS = {
    "SGC": lambda: nn.SGC(COLUMNS, CLASSES, K=2),
    "LCGCN": lambda: nn.LCGCN(*SIZES, dropout=0.5),
    "LCJKNet": lambda: nn.LCJKNet(*SIZES, dropout=0.5),
    "LCGPRGNN": lambda: nn.LCGPRGNN(*SIZES, dropout=0.5),
    "LCAPPNP": lambda: nn.LCAPPNP(*SIZES, dropout=0.5),
    "LCMixHop": lambda: nn.LCMixHop(COLUMNS, 86, CLASSES, layer_dropout=0.5),
    "LCH2GCN": lambda: nn.LCH2GCN(*SIZES, dropout=0.5),
    "SIGN": lambda: nn.SIGN(*SIZES, dropout=0.5),
    "FSGNN": lambda: nn.FSGNN(*SIZES, dropout=0.5),
    "SAGN": lambda: nn.SAGN(*SIZES, dropout=0.5),
    "GAMLP": lambda: nn.GAMLP(*SIZES, dropout=0.5),
}


def measure(
    models=tuple(MODELS), batches=16, size=4096, seconds=0.3, runs=3, out=None
):
    """Yield a row for each model, precision and way to get batches."""
    generator = torch.Generator().manual_seed(0)
    nodes = batches * size
    # The loader does not see the graph, and this one has few exact 2-hops.
    ids = torch.arange(nodes)
    g = dgl.to_bidirected(dgl.graph((ids, (ids + 1) % nodes)))
    x = torch.randn(nodes, COLUMNS, generator=generator)
    labels = torch.randint(CLASSES, (nodes,), generator=generator)
    for name in models:
        model = MODELS[name]()
        options = {} if out is None else {"out": out / name}
        hops = model.precompute(g, x, **options)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        for precision in ("fp32", "bf16"):

            def epoch(given, model=model, opt=optimizer, kind=precision):
                for batch, y in given:
                    step(model, opt, kind, batch, y)

            ready = list(HopLoader(hops, ids[: 3 * size], labels, size))
            epoch(ready)
            each = seconds_of(lambda e=epoch, r=ready: e(r)) / 3
            count = max(2, min(batches, round(seconds / each)))
            # Samples are everywhere, however few.
            some = torch.randperm(nodes, generator=generator)[: count * size]
            ways = {
                "gathered beforehand": None,
                "HopLoader": HopLoader(hops, some, labels, size, shuffle=True),
                "in a thread": HopLoader(
                    hops, some, labels, size, shuffle=True
                ),
            }
            ways["HopLoader"]._reader.in_thread = False
            ways["in a thread"]._reader.in_thread = True
            ready = list(ways["HopLoader"])
            ways["gathered beforehand"] = ready
            times = by_turns(
                {n: lambda e=epoch, w=way: e(w) for n, way in ways.items()},
                runs, seconds,
            )  # fmt: skip
            for way, found in times.items():
                yield {
                    "case": f"{name}, {precision}", "name": way,
                    "what": "epoch", "value": min(found), "unit": "s",
                    "runs": len(found), "batches": count,
                }  # fmt: skip


def measure_cpu(models=tuple(MODELS), batches=4, size=4096, runs=3):
    """Yield the processor time of a batch and of a step for each model."""
    torch.set_num_threads(1)
    nodes = batches * size
    ids = torch.arange(nodes)
    g = dgl.to_bidirected(dgl.graph((ids, (ids + 1) % nodes)))
    x = torch.randn(nodes, COLUMNS)
    labels = torch.randint(CLASSES, (nodes,))

    def least(call, count=1):
        found = []
        for _ in range(runs + 1):
            start = time.thread_time()
            call()
            found.append(time.thread_time() - start)
        return min(found[1:]) / count

    for name in models:
        model = MODELS[name]()
        loader = HopLoader(
            model.precompute(g, x), ids, labels, size, shuffle=True
        )
        optimizer = torch.optim.Adam(model.parameters())
        given = next(iter(loader))
        loading = least(lambda own=loader: [0 for _ in own], batches)
        for precision in ("fp32", "bf16"):
            args = model, optimizer, precision, *given
            for what, seconds in (
                ("a step", least(lambda a=args: step(*a))),
                ("the loader", loading),
            ):
                yield {
                    "case": f"{name}, {precision}", "name": what,
                    "what": "processor time of a batch", "value": seconds,
                    "unit": "s", "runs": runs,
                }  # fmt: skip


def step(model, optimizer, precision, batch, y):
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        logits = model(None, batch)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def by_turns(calls, runs, seconds):
    """Return the seconds of each call; short ones are repeated more often.

    The calls take turns, so that a busy machine slows down all of them.
    """
    found = {name: [] for name in calls}
    while True:
        for name, call in calls.items():
            found[name].append(seconds_of(call))
        first = next(iter(found.values()))
        if len(first) >= runs and (
            sum(first) >= runs * seconds or len(first) >= 8 * runs
        ):
            return found


def seconds_of(call):
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def loader(options):
    """Yield the rows of a run of make bench."""
    if options.size == "tiny":
        found = measure(["SGC"], batches=2, size=64, seconds=0, runs=1)
    else:
        models = (
            ["SGC", "LCGCN", "LCGPRGNN", "SIGN"]
            if options.size == "default" else tuple(MODELS)
        )  # fmt: skip
        found = measure(models, runs=options.runs)
    return (row(**r) for r in found)


def loader_table(rows):
    """Make a table of how many times as long the loader's epochs take."""
    names = list(dict.fromkeys(r["name"] for r in rows))
    lines = [f"| | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for case in dict.fromkeys(r["case"] for r in rows):
        first, *others = (value(rows, case=case, name=n) for n in names)
        cells = [format_value(first, "s")]
        cells += [f"{other / first:.2f}x" for other in others]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "loader": Section(loader, {"loader": loader_table}, minutes=1.4)
}


def lines(rows):
    """Say the figures of each model in words."""
    cases = {}
    for found in rows:
        cases.setdefault(found["case"], {})[found["name"]] = found["value"]
        if len(cases[found["case"]]) == 3:
            ready, loaded, thread = cases[found["case"]].values()
            yield (
                f"{found['case']:15} gathered beforehand {ready:.4f} s, "
                f"HopLoader {loaded:.4f} s ({loaded / ready:.3f}x), in a "
                f"thread {thread:.4f} s ({thread / ready:.3f}x); "
                f"{found['batches']} batches"
            )


def cpu_lines(rows):
    """Say what the loader adds, in processor time."""
    for one, other in zip(*[iter(rows)] * 2, strict=True):
        spent, more = one["value"], other["value"]
        yield (
            f"{one['case']:15} a step {1000 * spent:.1f} ms, the loader "
            f"{1000 * more:.2f} ms: {1 + more / spent:.3f}x"
        )


def keep(rows, kept):
    for found in rows:
        kept.append(found)
        yield found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--models", nargs="+", choices=list(MODELS), default=list(MODELS),
        help="models to measure (default: all)")  # fmt: skip
    add("--batches", type=int, default=16,
        help="most batches per epoch (default: %(default)s)",
        )  # fmt: skip
    add("--batch-size", type=int, default=4096,
        help="nodes in a batch (default: %(default)s)")  # fmt: skip
    add("--runs", type=int, default=3,
        help="timed epochs of each (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=2,
        help="number of threads (default: %(default)s)")  # fmt: skip
    add("--stored", type=Path, metavar="FOLDER",
        help="folder of stores to write and read, which are in the page cache "
        "then (default: rows are in memory)")  # fmt: skip
    add("--cpu-time", action="store_true",
        help="measure processor time instead")  # fmt: skip
    add("--json", type=Path, help="file to write the rows to")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(
        f"dgl-lc {dgl_lc.__version__}, torch {torch.__version__}, "
        f"{args.threads} threads; {COLUMNS} columns, batches of "
        f"{args.batch_size}, hidden {HIDDEN}, minimum of {args.runs} epochs or "
        f"more",
        flush=True,
    )
    rows = []
    found = measure(
        args.models, args.batches, args.batch_size, runs=args.runs,
        out=args.stored,
    )  # fmt: skip
    texts = lines(keep(found, rows))
    if args.cpu_time:
        found = measure_cpu(args.models, size=args.batch_size, runs=args.runs)
        texts = cpu_lines(keep(found, rows))
    for text in texts:
        print(text, flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
