"""Read a hop store that is not in memory: training and prediction.

    python benchmarks/store.py --size 5GiB --folder store-test

The script writes a store of random rows (4 hops of 128 columns, 2 KiB per
node), and drops its file from the page cache before each measurement. The
store is treated as one that is larger than memory, whatever its size. In one
run it measures, in turns:

- the sequential rate of the disk: the file is read in pieces of 4 MiB, through
  the page cache and past it, by one thread; the faster one counts;
- one epoch of HopLoader over all rows, shuffled in chunks;
- batches of HopLoader with all rows shuffled together, with the next batch
  requested from the disk ahead of time, and without that;
- predict of all rows by SGC, and write_predictions to an npy file;
- batches from memory.
"""

import argparse
import json
import mmap
import os
import shutil
import time
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import dgl
import psutil
import torch
from section import Section, format_value, row, value

from dgl_lc._common.bytes import format_bytes, parse_bytes
from dgl_lc.data import NodeData
from dgl_lc.hops import FilterSpec, HopFeatures
from dgl_lc.nn import SGC
from dgl_lc.precompute import open_store
from dgl_lc.storage.hop_store import StoreHead
from dgl_lc.storage.write_hops import StoreWriter
from dgl_lc.training import HopLoader, predict, write_predictions

HOPS, COLUMNS, BATCH, CLASSES = [0, 1, 2, 3], 128, 4096, 40
ROW = len(HOPS) * COLUMNS * 4
PIECE = 1 << 22


def make_store(folder, rows):
    """Write a store of random rows, unless it exists already."""
    values = torch.randn(rows // 64, COLUMNS)
    places = torch.arange(rows) % len(values)
    head = StoreHead(
        rows=rows,
        columns=COLUMNS,
        hops=tuple(HOPS),
        kind="float32",
        spec=FilterSpec("both", True, False),
        some_nodes=False,
        made_from={"benchmark": "random rows"},
    )
    with StoreWriter(folder, head) as writer:
        if writer.finished:
            return
        with writer.block(COLUMNS):
            for hop in HOPS:
                writer.keep(hop, 0, values, places)
        writer.finish()


def forget(folder):
    """Drop the rows of a store from the page cache."""
    with open(folder / "rows.npy", "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_rate(folder, direct):
    """Measure bytes per second of reading the file from its beginning."""
    path = folder / "rows.npy"
    if direct and not hasattr(os, "O_DIRECT"):
        return 0.0
    flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
    with (
        os.fdopen(os.open(path, flags), "rb", buffering=0) as file,
        mmap.mmap(-1, PIECE) as buffer,
    ):
        start = time.perf_counter()
        while file.readinto(buffer) == PIECE:
            pass
        seconds = time.perf_counter() - start
    return path.stat().st_size / seconds


def epoch_rate(hops):
    """Measure rows per second of one epoch, shuffled in chunks."""
    loader = HopLoader(
        hops, torch.arange(hops.shape[0]), batch_size=BATCH, shuffle="chunks"
    )
    start = time.perf_counter()
    count = sum(batch.shape[0] for batch in loader)
    return count / (time.perf_counter() - start)


def batch_rate(hops, batches, seed):
    """Measure rows per second over some fully shuffled batches."""
    loader = iter(HopLoader(
        hops, torch.arange(hops.shape[0]), batch_size=BATCH, shuffle=True,
        seed=seed,
    ))  # fmt: skip
    next(loader)
    start = time.perf_counter()
    for _ in range(batches):
        next(loader)
    return batches * BATCH / (time.perf_counter() - start)


def predict_rate(hops, model):
    """Measure rows per second of predicting all rows."""
    start = time.perf_counter()
    predict(model, hops)
    return hops.shape[0] / (time.perf_counter() - start)


def write_rate(hops, model, path):
    """Measure rows per second of writing predictions for all rows."""
    rows = hops.shape[0]
    none = torch.zeros(1, dtype=torch.int64)
    graph = dgl.graph((none[:0], none[:0]), num_nodes=rows)
    # Only its shape is looked at.
    feat = torch.empty(1, COLUMNS).expand(rows, COLUMNS)
    data = NodeData(
        graph=graph, feat=feat, labels=torch.zeros(rows, dtype=torch.int64),
        train=none + 0, valid=none + 1, test=none + 2, num_classes=CLASSES,
        name="store",
    )  # fmt: skip
    found = write_predictions(model, data, path, rows=hops, progress=False)
    path.unlink()
    return found.rows_per_second


def measure(folder, size="5GiB", batches=20, runs=3, cold=True):
    """Yield a row for each figure."""
    rows = parse_bytes(size) // ROW
    make_store(folder, rows)
    hops = open_store(folder)
    hops.is_cold = cold
    model = SGC(COLUMNS, CLASSES, K=3)
    case = f"{rows:,} rows, {format_bytes(hops.nbytes)}"
    rates = {}

    def take(name, unit, call):
        forget(folder)
        rates.setdefault((name, unit), []).append(call())

    for run in range(runs):
        for direct in (False, True):
            take(
                "disk, sequential", "B/s", lambda d=direct: disk_rate(folder, d)
            )
        take("chunks", "rows/s", lambda: epoch_rate(hops))
        take("predict", "rows/s", lambda: predict_rate(hops, model))
        take("write_predictions", "rows/s", lambda: write_rate(
            hops, model, folder.with_name("predictions.npy")
        ))  # fmt: skip
        # Rows that were read before may still be in the page cache, so that
        # each measurement has a seed of its own.
        take("all rows shuffled", "rows/s",
             lambda s=run: batch_rate(hops, batches, s))  # fmt: skip
    hops.is_cold = False
    take("all rows shuffled, not requested ahead", "rows/s",
         lambda: batch_rate(hops, max(1, batches // 4), runs))  # fmt: skip
    few = min(rows, 1 << 20)
    held = HopFeatures(
        [hop[:few].clone() for hop in hops], HOPS, hops.filter, None
    )
    for run in range(runs):
        take("all rows shuffled, from memory", "rows/s",
             lambda s=run: batch_rate(held, batches, s))  # fmt: skip
    for (name, unit), found in rates.items():
        yield {
            "case": case, "name": name, "what": "read", "value": max(found),
            "unit": unit, "runs": len(found), "all": found,
        }  # fmt: skip


def store(options):
    """Yield the rows of a run of make bench, from a store that it deletes."""
    sizes = {"tiny": "24MiB", "default": "1GiB", "all": "10GiB"}
    folder = options.scratch / "store"
    few = options.size == "tiny"
    try:
        for found in measure(
            folder, sizes[options.size], 1 if few else 20, options.runs
        ):
            yield row(**found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def store_table(rows):
    """Make a table of the rates, in part of the disk's."""
    disk = value(rows, name="disk, sequential")
    lines = ["| | rate | part of the disk's |", "| --- | --- | --- |"]
    for r in rows:
        rate = r["value"] * (1 if r["unit"] == "B/s" else ROW)
        text = format_value(r["value"], r["unit"])
        lines.append(f"| {r['name']} | {text} | {100 * rate / disk:.0f} % |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "store": Section(store, {"store": store_table}, minutes=0.3)
}


def line(found, disk):
    """Say a figure in words, compared with the disk's rate."""
    rate = found["value"] * (1 if found["unit"] == "B/s" else ROW)
    count = "" if found["unit"] == "B/s" else f"{found['value']:,.0f} rows/s"
    others = ", ".join(
        f"{v * (1 if found['unit'] == 'B/s' else ROW) / 1e9:.2f}"
        for v in found["all"]
    )
    return (
        f"{found['name']:40}{count:>18}  {rate / 1e9:.2f} GB/s, "
        f"{100 * rate / disk:.0f} % of the disk's ({others})"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--size", default="5GiB",
        help="size of the store on disk (default: %(default)s)",
    )  # fmt: skip
    add(
        "--folder", type=Path, default=Path("store-test"),
        help="folder of the store (default: %(default)s)",
    )  # fmt: skip
    add(
        "--batches", type=int, default=20,
        help="batches that are read and timed where all rows are shuffled "
        "together (default: %(default)s)",
    )  # fmt: skip
    add(
        "--runs", type=int, default=3,
        help="runs of which the fastest counts (default: %(default)s)",
    )  # fmt: skip
    add("--json", type=Path, help="file to write the rows to")
    args = parser.parse_args()
    rows = list(measure(args.folder, args.size, args.batches, args.runs))
    memory = format_bytes(psutil.virtual_memory().total)
    print(
        f"{rows[0]['case']}; memory {memory}; batches of {BATCH}; fastest of "
        f"{args.runs} runs (all of them)"
    )
    disk = rows[0]["value"]
    for found in rows:
        print(line(found, disk))
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
