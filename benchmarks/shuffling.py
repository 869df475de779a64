"""Compare the accuracy of shuffling in chunks and of shuffling all rows.

    python benchmarks/shuffling.py [--graphs arxiv] [--seeds 3] [--json FILE]

Two real graphs take the place of stores that are larger than memory: the
buffer is as small a part of the training rows as 1 GiB is of a store of 26
GiB (half of it, which is mixed at a time, is 2 %). A chunk is

- "default": the part of the buffer that it is at the default sizes, 1/472;
- "largest": 1/32 of the buffer, the largest that the loader makes;
- "4 in a buffer": 1/4, which the loader never makes, to see what goes wrong.

Training rows lie in the order of the nodes, and sorted by class, which is the
worst case: a chunk then has rows of one class. Test accuracy of LCGCN, mean
and standard deviation over seeds; the same weights and batches of as many
rows in all cases.
"""

import argparse
import json
from pathlib import Path

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import numpy as np
import torch
from section import Section, row

from dgl_lc.data import load
from dgl_lc.hops import HopFeatures
from dgl_lc.nn import LCGCN
from dgl_lc.training import fit, predict
from dgl_lc.training.chunk_order import RowChunks

#: Batch size, epochs and learning rate for each graph.
GRAPHS = {
    "ogbn_arxiv": (512, 4, 0.005),
    "amazon_computers": (128, 8, 0.01),
}
#: The part of the training rows that is mixed at a time.
MIXED = 0.02
CHUNKS_IN_A_BUFFER = {"default": 472, "largest": 32, "4 in a buffer": 4}


def ways(count, batch):
    """Return the ways of shuffling, by name."""
    mixed = max(1, round(MIXED * count / batch)) * batch
    return {
        "full": "full",
        **{
            name: RowChunks(max(1, mixed // chunks), mixed)
            for name, chunks in CHUNKS_IN_A_BUFFER.items()
        },
    }


def measure(folder, graphs=tuple(GRAPHS), seeds=3):
    """Yield a row for each graph, order of rows and way of shuffling."""
    for graph in graphs:
        path = folder / f"{graph}.npz"
        if not path.exists():
            print(f"{graph}: skipped, {path} does not exist")
            continue
        data = load(path, add_reverse=graph == "ogbn_arxiv")
        sizes = data.num_feats, 128, data.num_classes
        hops = LCGCN(*sizes).precompute(data.graph, data.feat)
        for order in ("as the nodes", "sorted by class"):
            train = data.train.sort().values
            if order == "sorted by class":
                train = train[data.labels[train].argsort(stable=True)]
            nodes = torch.cat([train, data.valid, data.test])
            stored = HopFeatures(
                [hop[nodes] for hop in hops], hops.hops, hops.filter, nodes
            )
            batch, epochs, lr = GRAPHS[graph]
            for name, shuffle in ways(len(train), batch).items():
                found = [
                    accuracy(data, stored, sizes, shuffle, seed, batch,
                             epochs, lr)
                    for seed in range(seeds)
                ]  # fmt: skip
                yield {
                    "case": f"{graph}, rows {order}", "name": name,
                    "what": "test accuracy", "value": 100 * np.mean(found),
                    "unit": "%", "runs": seeds,
                    "deviation": 100 * float(np.std(found)),
                    "shuffle": str(shuffle),
                }  # fmt: skip


def accuracy(data, hops, sizes, shuffle, seed, batch, epochs, lr):
    torch.manual_seed(seed)
    model = LCGCN(*sizes, dropout=0.3)
    fit(
        model, hops, data.labels, data.train, data.valid, lr=lr, seed=seed,
        batch_size=batch, epochs=epochs, monitor="accuracy", shuffle=shuffle,
        progress=False,
    )  # fmt: skip
    logits = predict(model, hops, data.test)
    right = logits.argmax(dim=1) == data.labels[data.test]
    return float(right.double().mean())


def shuffling(options):
    """Yield the rows of a run of make bench."""
    return (row(**r) for r in measure(options.data))


def shuffling_table(rows):
    """Make a table of accuracies, with their deviation over seeds."""
    cells = {
        (r["case"], r["name"]): f"{r['value']:.2f} ({r['deviation']:.2f})"
        for r in rows
    }
    cases, names = (
        list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1)
    )
    lines = [f"| | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for case in cases:
        found = (cells.get((case, name), "") for name in names)
        lines.append(f"| {case} | {' | '.join(found)} |")
    return "\n".join(lines)


SECTIONS_OF_BENCH = {
    "shuffling": Section(
        shuffling, {"shuffling": shuffling_table}, minutes=6, only_all=True
    )
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS),
        help="graphs to train on (default: all)")  # fmt: skip
    add("--seeds", type=int, default=3,
        help="number of seeds (default: %(default)s)")  # fmt: skip
    add("--data", type=Path, default=Path(__file__).parents[2] / "shared/data",
        help="folder with the real graphs (default: ../shared/data beside "
        "the repository)")  # fmt: skip
    add("--json", type=Path, help="file to write the rows to")
    args = parser.parse_args()
    rows, case = [], None
    for found in measure(args.data, args.graphs, args.seeds):
        if found["case"] != case:
            case = found["case"]
            print(f"\n{case}", flush=True)
        print(
            f"  {found['name']:16}{found['value']:.2f} "
            f"({found['deviation']:.2f})  {found['shuffle']}",
            flush=True,
        )
        rows.append(found)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
