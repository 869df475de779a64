"""Which library turns the ids of edges into row numbers best.

A table has text ids, one per node; another has two of them per edge. Each
library writes the row numbers of both ends, in the order of the edges, to
disk. Every run is a process of its own; its peak memory and seconds are
printed.

    python benchmarks/read_tables.py --nodes 10000000 --edges 10000000

It needs ``pip install duckdb polars pyarrow``.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PIECE = 1_000_000
LIBRARIES = ("dgl-lc", "duckdb", "polars")


def generate(folder: Path, nodes: int, edges: int) -> None:
    """Write ids and edges as csv and parquet, in pieces."""
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    # A permutation of 0 to nodes - 1 that needs no memory.
    step = 7_368_787

    def names(numbers: np.ndarray) -> pa.Array:
        values = numbers.astype(np.int64) * step % nodes
        return pa.array(np.char.add("user-", values.astype(str)))

    def write(name: str, count: int, columns: list[str]) -> None:
        schema = pa.schema([(column, pa.string()) for column in columns])
        with (
            pq.ParquetWriter(folder / f"{name}.parquet", schema) as parquet,
            csv.CSVWriter(folder / f"{name}.csv", schema) as text,
        ):
            for low in range(0, count, PIECE):
                size = min(PIECE, count - low)
                if name == "ids":
                    found = [names(np.arange(low, low + size))]
                else:
                    found = [names(rng.integers(0, nodes, size)) for _ in "st"]
                table = pa.table(dict(zip(columns, found, strict=True)))
                parquet.write_table(table)
                text.write_table(table)

    write("ids", nodes, ["id"])
    write("edges", edges, ["src", "dst"])


def run_dgl_lc(folder: Path, form: str, memory: str, out: Path) -> None:
    from dgl_lc._common.bytes import parse_bytes
    from dgl_lc.data.prepare_edges import write_edge_list
    from dgl_lc.data.prepare_sources import Reading, open_edges
    from dgl_lc.storage.node_ids import write_ids
    from dgl_lc.storage.sort_memory import Budget

    reading = Reading({})
    table = reading.table(folder / f"ids.{form}", "ids")
    ids = write_ids(
        out / "ids", table.made_from(), table=table, column="id", kind="text"
    )
    edges = open_edges(folder / f"edges.{form}", reading)
    budget = Budget(parse_bytes(memory))
    write_edge_list(edges, ids, out / "edges", budget, None)


def run_duckdb(folder: Path, form: str, memory: str, out: Path) -> None:
    import duckdb

    db = duckdb.connect(str(out / "work.db"))
    db.execute(f"SET memory_limit='{memory}'")
    db.execute(f"SET temp_directory='{out}/spill'")
    for name in ("ids", "edges"):
        db.execute(
            f"CREATE TABLE {name} AS SELECT *, row_number() OVER () - 1 AS "
            f"place FROM '{folder}/{name}.{form}'"
        )
    db.execute(
        f"COPY (SELECT s.place AS s, t.place AS t FROM edges "
        f"JOIN ids s ON edges.src = s.id JOIN ids t ON edges.dst = t.id "
        f"ORDER BY edges.place) TO '{out}/ends.parquet'"
    )


def run_polars(folder: Path, form: str, memory: str, out: Path) -> None:
    import polars as pl

    scan = pl.scan_csv if form == "csv" else pl.scan_parquet
    ids = scan(folder / f"ids.{form}").with_row_index("place")
    ends = scan(folder / f"edges.{form}")
    for side in ("src", "dst"):
        ends = ends.join(
            ids.rename({"place": f"{side}_place"}), left_on=side,
            right_on="id", how="left", maintain_order="left",
        )  # fmt: skip
    found = ends.select("src_place", "dst_place")
    found.sink_parquet(out / "ends.parquet", engine="streaming")


def run(library: str, folder: Path, form: str, memory: str, out: Path) -> None:
    runs = {"dgl-lc": run_dgl_lc, "duckdb": run_duckdb, "polars": run_polars}
    module = {"dgl-lc": "dgl_lc.data"}.get(library, library)
    importlib.import_module(module)
    start = time.monotonic()
    runs[library](folder, form, memory, out)
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps([seconds, peak]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--nodes", type=int, default=10_000_000, help="number of ids")
    add("--edges", type=int, default=10_000_000, help="number of edges")
    add("--formats", nargs="+", default=["csv", "parquet"], help="file formats")
    add("--libraries", nargs="+", default=LIBRARIES, help="libraries to run")
    add("--memory", default="4GiB", help="memory limit, where there is one")
    add("--run", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        library, folder, form, memory, out = args.run
        run(library, Path(folder), form, memory, Path(out))
        return
    print(f"{args.nodes:,} ids, {args.edges:,} edges, memory {args.memory}")
    print("| | format | seconds | peak memory |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), args.nodes, args.edges)
        for form in args.formats:
            for library in args.libraries:
                with tempfile.TemporaryDirectory() as out:
                    call = [library, folder, form, args.memory, out]
                    done = subprocess.run(
                        [sys.executable, __file__, "--run", *call],
                        capture_output=True, text=True,
                    )  # fmt: skip
                if done.returncode:
                    lines = done.stderr.strip().splitlines() or ["killed"]
                    print(f"| {library} | {form} | failed: {lines[-1]} | |")
                    continue
                seconds, peak = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"| {library} | {form} | {seconds:.1f} | {peak:.2f} GiB |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
