"""Writing a generated task like ogbn-products, in OGB's csv files."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dgl_lc.data import block_model

NUM_NODES, NUM_CLASSES, NUM_FEATS = 2_449_029, 47, 100
#: Products that were bought together: every edge is in the files once.
NUM_EDGES = 61_859_140
#: The most popular products are the training nodes.
SPLIT = {"train": 196_615, "valid": 39_323, "test": 2_213_091}
_NOTE = "generated.txt"


def write_products_like(root, scale, feat_dim=NUM_FEATS, seed=0):
    """Write a task of ``scale`` times the nodes of ogbn-products.

    What is finished is kept. A folder of another task is refused.

    Parameters
    ----------
    root : path
        The folder: ``ogbn_products`` is written there.
    scale : float
        Share of the nodes; a node has as many edges as in ogbn-products.
    feat_dim : int, optional
        Columns of the features.
    seed : int, optional
        The same seed gives the same task.
    """
    home = Path(root) / "ogbn_products"
    about = f"products_like 1, scale {scale:g}, {feat_dim} columns, seed {seed}"
    note = home / _NOTE
    if note.exists():
        if note.read_text() in (f"{about}\n", f"{about}\nfinished\n"):
            if note.read_text().endswith("finished\n"):
                return home
        else:
            raise SystemExit(f"{home} holds another task: {note.read_text()}")
    elif home.exists() and any(home.iterdir()):
        raise SystemExit(f"{home} was not generated: choose another folder.")
    for folder in ("raw", "split/sales_ranking"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    note.write_text(f"{about}\n")
    _write(home, scale, feat_dim, seed)
    note.write_text(f"{about}\nfinished\n")
    return home


def _write(home, scale, feat_dim, seed):
    count = round(NUM_NODES * scale)
    data = block_model(
        count, NUM_CLASSES, feat_dim, avg_degree=2 * NUM_EDGES / NUM_NODES,
        homophily=0.6, signal=1.7, seed=seed,
        split=[size / NUM_NODES for size in SPLIT.values()],
    )  # fmt: skip
    source, target = (ends.numpy() for ends in data.graph.edges())
    once = source < target
    _write_csv(home / "raw" / "edge", source[once], target[once])
    columns = data.feat.numpy().round(4).T
    _write_csv(home / "raw" / "node-feat", *map(np.ascontiguousarray, columns))
    _write_csv(home / "raw" / "node-label", data.labels.numpy())
    _write_csv(home / "raw" / "num-node-list", np.array([count]))
    for split in SPLIT:
        ids = getattr(data, split).numpy()
        _write_csv(home / "split" / "sales_ranking" / split, ids)


def _write_csv(path, *columns):
    """Write a packed csv file, which appears when it is complete."""
    table = pa.table({str(i): column for i, column in enumerate(columns)})
    part = path.with_name(f".{path.name}.part")
    # Numbers pack badly, and the highest level takes minutes.
    with gzip.GzipFile(part, "wb", compresslevel=1, mtime=0) as file:
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))
    os.replace(part, path.with_name(f"{path.name}.csv.gz"))
