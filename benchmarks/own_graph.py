"""From files of your own to predictions: seconds and memory of each stage.

A graph with communities is written as csv or parquet files, in pieces, with
ids that are texts or scattered integers. Then the commands of
docs/your_own_graph.md run on it, each in a process of its own. Printed are
the seconds of each stage, and the peak of the memory that it allocated (the
resident pages that are not those of a file), beyond what Python, torch and
DGL take before any work.

    python benchmarks/own_graph.py --folder data
    python benchmarks/own_graph.py --folder data --format parquet --ids int \
        --nodes 50000000 --edges 500000000 --dtype float16 --memory 8GiB

It needs ``pip install "dgl-lc[tables]"``.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

PIECE = 2_000_000
CLASSES = 8
#: Nodes with a label: one of so many.
LABELLED = 20
#: Odd, so that multiplying by it modulo 2**62 mixes up all numbers.
STEP = 2_862_933_555_777_941_757


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="folder to write to")
    add("--nodes", type=int, default=1_500_000)
    add("--edges", type=int, default=20_000_000)
    add("--feats", type=int, default=16)
    add("--ids", choices=["text", "int"], default="text")
    add("--format", choices=["csv", "parquet"], default="csv")
    add("--dtype", choices=["float32", "float16"], default="float32")
    add("--memory", default="2GiB")
    add("--hops", type=int, default=3)
    add("--epochs", type=int, default=5)
    return parser.parse_args()


def ids_of(numbers, args):
    """Ids of nodes: each number has one, and no order can be seen in them."""
    mixed = numbers.astype(np.uint64) * np.uint64(STEP) % np.uint64(2**62)
    mixed = mixed.astype(np.int64)
    if args.ids == "int":
        return pa.array(mixed)
    digits = mixed.view(np.uint8).reshape(-1, 8)
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.empty((len(numbers), 18), np.uint8)
    text[:, :2] = np.frombuffer(b"u-", np.uint8)
    text[:, 2::2], text[:, 3::2] = letters[digits >> 4], letters[digits & 15]
    return pa.array(text.reshape(-1).view("S18")).cast(pa.string())


def generate(args):
    """Write edges, features and labels, in pieces; class is number % 8."""
    n, rng = args.nodes, np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, args.feats)).astype(np.float32)

    def edges(low, high):
        source = (n * rng.random(high - low) ** 2).astype(np.int64)
        other = rng.integers(0, n - CLASSES, high - low)
        near = rng.random(high - low) < 0.7
        alike = other - other % CLASSES + source % CLASSES
        target = np.where(near, alike, other)
        return {"src": ids_of(source, args), "dst": ids_of(target, args)}

    def features(low, high):
        numbers = np.arange(low, high)
        noise = rng.standard_normal((high - low, args.feats), np.float32)
        values = (centres[numbers % CLASSES] * 0.3 + noise).astype(args.dtype)
        columns = {f"x{j}": values[:, j] for j in range(args.feats)}
        return {"id": ids_of(numbers, args)} | columns

    def labels(low, high):
        numbers = np.arange(low, high)
        numbers = numbers[rng.random(len(numbers)) < 1 / LABELLED]
        names = np.array([f"class {c}" for c in range(CLASSES)])
        return {
            "id": ids_of(numbers, args),
            "label": names[numbers % CLASSES],
        }

    parts = [("edges", args.edges, edges), ("nodes", n, features),
             ("labels", n, labels)]  # fmt: skip
    for name, count, make in parts:
        path = args.folder / f"{name}.{args.format}"
        if path.exists():
            continue
        draft, writer = path.with_suffix(".part"), None
        for low in range(0, count, PIECE):
            table = pa.table(make(low, min(count, low + PIECE)))
            if writer is None:
                kind = (
                    csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
                )
                writer = kind(draft, table.schema)
            writer.write_table(table)
        writer.close()
        draft.rename(path)
        print(f"{path.name}: {path.stat().st_size / 1e9:.2f} GB", flush=True)


def run(*command):
    """Run a command; return its seconds and its peak of allocated memory."""
    begin, peak = time.perf_counter(), 0
    child = psutil.Popen(
        [sys.executable, "-m", "dgl_lc.cli", *map(str, command)]
    )
    while child.poll() is None:
        try:
            found = child.memory_info()
            peak = max(peak, found.rss - found.shared)
        except psutil.Error:
            break
        time.sleep(0.02)
    if child.wait():
        raise SystemExit(f"{command[0]} failed")
    return time.perf_counter() - begin, peak


def start_up():
    """Allocated memory of a process that has only imported everything."""
    code = (
        "import dgl_lc, torch, psutil; from dgl_lc.data import block_model;"
        "from dgl_lc.precompute import block_aggregate;"
        "import dgl_lc.nn, dgl_lc.training, pyarrow.parquet;"
        "d = block_model(200); block_aggregate(d.graph, d.feat, 2);"
        "i = psutil.Process().memory_info(); print(i.rss - i.shared)"
    )
    return int(subprocess.check_output([sys.executable, "-c", code]))


def main(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    generate(args)
    print(f"generated in {time.perf_counter() - begin:.0f} s", flush=True)
    base = start_up()
    at = {name: args.folder / name for name in ("task", "hops", "model.pt")}
    end = args.format
    budget = ["--memory", args.memory]
    task = ["--data", at["task"]]
    commands = [
        ["prepare", "--edges", args.folder / f"edges.{end}",
         "--features", args.folder / f"nodes.{end}",
         "--labels", args.folder / f"labels.{end}", "--split", "0.6,0.2,0.2",
         "--dtype", args.dtype, "--out", at["task"], *budget],
        ["plan", *task, "--hops", args.hops, "--out", at["hops"], *budget],
        ["precompute", *task, "--hops", args.hops, "--out", at["hops"],
         *budget],
        ["train", *task, "--store", at["hops"], "--model", "LCGPRGNN",
         "--hops", args.hops, "--hid-feats", 64, "--epochs", args.epochs,
         "--lr", 0.01, "--save", at["model.pt"]],
        ["predict", *task, "--store", at["hops"], "--model", at["model.pt"],
         "--out", args.folder / "predictions.parquet", *budget],
    ]  # fmt: skip
    rows = []
    for command in commands:
        print("\n$ dgl-lc", *command, flush=True)
        seconds, peak = run(*command)
        rows.append((command[0], seconds, max(0, peak - base) / 2**20))
    print(f"\n| stage | seconds | peak memory beyond the {base / 2**20:.0f} "
          f"MiB of the imports |\n| --- | --- | --- |")  # fmt: skip
    for name, seconds, peak in rows:
        print(f"| `{name}` | {seconds:.1f} | {peak:,.0f} MiB |")
    check(args)


def check(args):
    """Compare the predictions with the communities that were planted."""
    file = pq.ParquetFile(args.folder / "predictions.parquet")
    low = right = 0
    for batch in file.iter_batches(PIECE, columns=["id", "class"]):
        numbers = np.arange(low, low + len(batch))
        assert batch["id"].to_pylist() == ids_of(numbers, args).to_pylist()
        names = np.array([f"class {c}" for c in range(CLASSES)])
        found = batch["class"].to_numpy(zero_copy_only=False)
        right += int((found == names[numbers % CLASSES]).sum())
        low += len(batch)
    assert low == args.nodes
    print(f"\n{low:,} predictions, {100 * right / low:.1f} % of them right")


if __name__ == "__main__":
    main(parse_args())
