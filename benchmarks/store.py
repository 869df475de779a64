"""Read batches from a hop store: cold and larger than memory, and warm.

    python benchmarks/store.py --size 30GiB --folder store-test

The script writes a store of random rows (4 hops of 128 columns, 2 KiB per
node), drops its file from the page cache, and reads shuffled batches: with the
next batch requested from the disk ahead of time, without that, and from
memory.
"""

import argparse
import os
import time
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import psutil
import torch

from dgl_lc._common.bytes import format_bytes, parse_bytes
from dgl_lc.hops import FilterSpec, HopFeatures
from dgl_lc.precompute import open_store
from dgl_lc.storage.hop_store import StoreHead
from dgl_lc.storage.write_hops import StoreWriter
from dgl_lc.training import HopLoader

HOPS, COLUMNS, BATCH = [0, 1, 2, 3], 128, 4096


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


def read(hops, batches, seed):
    """Measure rows per second over some shuffled batches."""
    loader = iter(HopLoader(
        hops, torch.arange(hops.shape[0]), batch_size=BATCH, shuffle=True,
        seed=seed,
    ))  # fmt: skip
    next(loader)
    start = time.perf_counter()
    for _ in range(batches):
        next(loader)
    return batches * BATCH / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "--size", default="30GiB",
        help="size of the store on disk (default: %(default)s)",
    )  # fmt: skip
    add(
        "--folder", type=Path, default=Path("store-test"),
        help="folder of the store (default: %(default)s)",
    )  # fmt: skip
    add(
        "--batches", type=int, default=20,
        help="batches that are read and timed (default: %(default)s)",
    )  # fmt: skip
    args = parser.parse_args()
    rows = parse_bytes(args.size) // (len(HOPS) * COLUMNS * 4)
    make_store(args.folder, rows)
    hops = open_store(args.folder)
    memory = psutil.virtual_memory().total
    print(
        f"{rows:,} rows, {format_bytes(hops.nbytes)}; memory "
        f"{format_bytes(memory)}; {args.batches} batches of {BATCH}, all "
        f"rows shuffled"
    )
    # Every measurement has a seed of its own, because rows that were read
    # before may still be in the page cache.
    for seed, cold in enumerate((True, False)):
        forget(args.folder)
        hops._cold = cold
        rate = read(hops, args.batches, seed)
        name = "cold, requested ahead" if cold else "cold"
        print(f"{name:24}{rate:12,.0f} rows/s", flush=True)
    few = min(rows, 1 << 20)
    held = HopFeatures(
        [hop[:few].clone() for hop in hops], HOPS, hops.filter, None
    )
    print(f"{'from memory':24}{read(held, args.batches, 2):12,.0f} rows/s")


if __name__ == "__main__":
    main()
