"""Measure training: the loader, LC versions and their originals, accuracy.

    python benchmarks/training.py
        [--only loader dropout times hops hop-accuracy accuracy]

loader: epochs through HopLoader, compared with batches that were gathered
beforehand and with torch's DataLoader. dropout: our dropout on a CPU, compared
with torch's, alone and in an epoch. times: seconds per epoch, and seconds to
the same validation accuracy, on ogbn-arxiv's graph and on a denser one. hops:
seconds per epoch of GPRGNN and of its LC version, with all hops of a row or
some of them per step, in float32 and within autocast. hop-accuracy: what these
options cost in accuracy, on arxiv (TAPE-P).
accuracy: LC versions compared with their originals on small real graphs, with
several seeds.
"""

import argparse
from pathlib import Path

import dgl_lc  # isort: skip  # first: it makes DGL importable
import dgl
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from epochs import drawn_hops, hops_table
from measure import by_turns, seconds_of
from section import Options, print_rows
from tasks import arxiv_task
from torch.utils.data import DataLoader, TensorDataset

from dgl_lc.data import block_model, load, power_law_graph
from dgl_lc.experiments.train_one import train_model
from dgl_lc.nn import LCGCN, LCGPRGNN, SGC
from dgl_lc.nn.dropout import Dropout
from dgl_lc.training import HopLoader, fit, predict

#: Epochs of each run in 'hop-accuracy'.
HOP_EPOCHS = 25
PAIRS = [("GCN", "LCGCN"), ("JKNet", "LCJKNet"), ("GPRGNN", "LCGPRGNN")]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS),
        help="sections to run (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=int, default=5,
        help="number of timed epochs of each (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, default=5,
        help="number of seeds in 'accuracy' and 'hop-accuracy' "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS),
        help="graphs of 'accuracy' (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=2,
        help="number of threads (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", type=int, default=60,
        help="epochs of each model in 'times' (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path,
        help="folder with the real graphs (default: ../shared/data beside "
        "the repository)",
        default=Path(__file__).parents[2] / "shared/data",
    )  # fmt: skip
    return parser.parse_args()


# The loader


def bench_loader(args):
    """Print what the loader costs in an epoch of each model."""
    nodes, columns, classes, size, K = 200_000, 128, 40, 4096, 5
    print(
        f"\n## Loader: {nodes:,} nodes, {columns} columns, batches of {size}, "
        f"minimum of {args.runs} epochs",
        flush=True,
    )
    generator = torch.Generator().manual_seed(0)
    g = power_law_graph(nodes, 10 * nodes)
    x = torch.randn(nodes, columns, generator=generator)
    labels = torch.randint(classes, (nodes,), generator=generator)
    ids = torch.arange(nodes)
    models = {
        "SGC": SGC(columns, classes, K=2),
        "2 LCGraphConv, hidden 256": LCGCN(columns, 256, classes),
        "LCGPRGNN, K=5, hidden 256": LCGPRGNN(columns, 256, classes, K=K),
    }
    for name, model in models.items():
        hops = model.precompute(g, x)
        loader = HopLoader(hops, ids, labels, size, shuffle=True)
        ready = list(loader)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

        def epoch(batches, model=model, optimizer=optimizer):
            for batch, y in batches:
                loss = F.cross_entropy(model(None, batch), y)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

        def drain(batches):
            for _ in batches:
                pass

        rows = TensorDataset(*hops, labels)
        peer = DataLoader(rows, batch_size=size, shuffle=True)
        epoch(loader)
        # They take turns, so that a busy machine slows down all of them.
        times = [
            (
                seconds_of(lambda: epoch(ready)),  # noqa: B023
                seconds_of(lambda: epoch(loader)),  # noqa: B023
                seconds_of(lambda: drain(loader)),  # noqa: B023
            )
            for _ in range(args.runs)
        ]
        gathered, loaded, alone = (min(t) for t in zip(*times, strict=True))
        other = min(seconds_of(lambda: drain(peer)) for _ in range(2))  # noqa: B023
        print(
            f"{name:28} gathered beforehand {gathered:.3f} s, HopLoader "
            f"{loaded:.3f} s: {loaded / gathered:.2f}x; loader alone "
            f"{alone:.4f} s, DataLoader {other:.3f} s: {other / alone:.0f}x",
            flush=True,
        )


# Dropout


def bench_dropout(args):
    """Print the time of our dropout and of torch's."""
    rows, columns, classes = 8192, 768, 10
    print(
        f"\n## Dropout: {rows:,} rows, {columns} columns, minimum of "
        f"{args.runs} runs",
        flush=True,
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, columns, generator=generator)
    labels = torch.randint(classes, (rows,), generator=generator)
    g = power_law_graph(rows, 10 * rows)
    kinds = {"torch": torch.nn.Dropout(0.5), "dgl-lc": Dropout(0.5)}
    alone = by_turns(
        {name: lambda d=kind: d(x) for name, kind in kinds.items()}, args.runs
    )
    print_ratio("alone", alone)
    for model in (
        LCGCN(columns, 64, classes, dropout=0.5),
        LCGPRGNN(columns, 64, classes, dropout=0.5),
    ):
        loader = HopLoader(
            model.precompute(g, x), torch.arange(rows), labels, 512
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        ours = model if isinstance(model, LCGCN) else model.mlp

        def epoch(kind, model=model, ours=ours, loader=loader, opt=optimizer):
            ours.dropout = kind
            for batch, y in loader:
                loss = F.cross_entropy(model(None, batch), y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()

        times = by_turns(
            {n: lambda k=kind, e=epoch: e(k) for n, kind in kinds.items()},
            args.runs,
        )
        print_ratio(f"epoch of {type(model).__name__}", times)


def print_ratio(what, times):
    print(
        f"{what:18} torch's {times['torch']:.4f} s, ours "
        f"{times['dgl-lc']:.4f} s: {times['torch'] / times['dgl-lc']:.1f}x",
        flush=True,
    )


# Times


def dense_task():
    """Generate a task on a graph with many edges per node."""
    data = block_model(
        40_000, num_classes=16, avg_degree=60, homophily=0.3, signal=1.2
    )
    data.name = "generated, 40k nodes, degree about 60"
    return data


def bench_times(args):
    """Print training times of originals and LC versions."""
    for data in (arxiv_task(args.data), dense_task()):
        if data is None:
            continue
        print(f"\n## Times: {data}", flush=True)
        for pair in PAIRS:
            time_pair(pair, data, args)


def time_pair(pair, data, args):
    original, lc = (
        train_model(
            name, data, hid_feats=256, options={"dropout": 0.5}, lr=0.01,
            epochs=args.epochs, patience=args.epochs,
        )
        for name in pair
    )  # fmt: skip
    target = 0.995 * min(
        r.fit.history.valid_accuracy.max() for r in (original, lc)
    )
    for r in (original, lc):
        print(
            f"{r.name:9} {r.fit.epoch_seconds:.3f} s per epoch "
            f"({r.rows:,} rows), precompute {r.precompute_seconds:.2f} s, "
            f"{reached(r, target):.1f} s to validation accuracy "
            f"{target:.3f}, test {r.test_accuracy:.3f}"
        )
    ratio = original.fit.epoch_seconds / lc.fit.epoch_seconds
    total = reached(original, target) / reached(lc, target)
    print(f"{'':9} {pair[1]}: {ratio:.2f}x per epoch, {total:.2f}x in total")
    if ratio < 1:
        where_time_goes(original, lc, data)


def reached(result, target):
    """Return the seconds until the validation accuracy was this high."""
    history = result.fit.history
    first = history.seconds[history.valid_accuracy >= target].iloc[0]
    return result.precompute_seconds + first


def where_time_goes(original, lc, data):
    """Print seconds of the MLP and of the aggregations in a forward pass."""
    model = original.model.eval()
    looped = dgl.add_self_loop(dgl.remove_self_loop(data.graph))
    with torch.no_grad():
        h = data.feat
        mlp = min(seconds_of(lambda: _mlp(model, h)) for _ in range(3))
        out = _mlp(model, h)
        steps = len(model.gamma) - 1
        hop = min(
            seconds_of(lambda: model.propagate(looped, out)) for _ in range(3)
        )
    print(
        f"{'':9} forward of {original.name}: MLP on "
        f"{data.graph.num_nodes():,} rows {mlp:.3f} s, {steps} aggregations "
        f"of {out.shape[1]} columns {steps * hop:.3f} s. {lc.name} saves the "
        f"aggregations and runs the MLP on {lc.rows:,} rows, "
        f"{lc.rows / data.graph.num_nodes():.1f} times as many."
    )


def _mlp(model, h):
    for number, layer in enumerate(model.layers):
        h = layer(F.relu(h) if number else h)
    return h


# Hops that are drawn


def bench_hops(args):
    """Print the epochs of epochs.py with drawn hops."""
    options = Options(runs=args.runs, threads=args.threads, data=args.data)
    print(hops_table(print_rows(drawn_hops(options))))


def bench_hop_accuracy(args):
    """Print the accuracy of LCGPRGNN with drawn hops, on arxiv (TAPE-P)."""
    path = args.data / "ogbn_arxiv.npz"
    if not path.exists():
        print(f"hop-accuracy: skipped, {path} does not exist")
        return
    data = load(path, add_reverse=True)
    sizes = data.num_feats, 256, data.num_classes
    hops = LCGPRGNN(*sizes).precompute(data.graph, data.feat)
    print(
        f"\n## Accuracy with drawn hops: arxiv (TAPE-P), hidden 256, K=5, "
        f"{HOP_EPOCHS} epochs, mean (standard deviation) of {args.seeds} seeds",
        flush=True,
    )
    for precision in ("fp32", "bf16"):
        for count in (None, 3, 2):
            found = []
            for seed in range(args.seeds):
                torch.manual_seed(seed)
                model = LCGPRGNN(*sizes, dropout=0.2, sampled_hops=count)
                fit(
                    model, hops, data.labels, data.train, data.valid, lr=0.003,
                    epochs=HOP_EPOCHS, monitor="accuracy", seed=seed,
                    precision=precision, progress=False,
                )  # fmt: skip
                logits = predict(model, hops)
                right = logits.argmax(dim=1) == data.labels
                found.append([
                    100 * float(right[ids].float().mean())
                    for ids in (data.valid, data.test)
                ])  # fmt: skip
            mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
            print(
                f"LCGPRGNN, hops: {count or 'all 6':5} {precision} "
                f"validation {mean[0]:.2f} ({spread[0]:.2f}) "
                f"test {mean[1]:.2f} ({spread[1]:.2f})", flush=True,
            )  # fmt: skip


# Accuracy

#: Options of the models, the same for an original and its LC version.
SETTINGS = {
    "GCN": {"num_layers": 2, "dropout": 0.5},
    "JKNet": {"num_layers": 3, "dropout": 0.5},
    "GPRGNN": {"K": 3, "num_layers": 2, "dropout": 0.5, "alpha": 0.1},
}


def unit_sum(x):
    """Scale rows so that their values sum to one."""
    return F.normalize(x, p=1, dim=1)


def unit_length(x):
    """Scale rows to length one."""
    return F.normalize(x, dim=1)


def standardised(x):
    """Scale rows to length one, then columns to mean 0 and deviation 1."""
    x = unit_length(x)
    return (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-6)


#: How each graph's features are prepared, and how its models are trained.
#: Both were chosen on the validation nodes with seed 0, and are the same for
#: originals and LC versions.
GRAPHS = {
    "cora": (
        unit_sum, {"weight_decay": 5e-4, "epochs": 200, "patience": 100}
    ),
    "pubmed": (
        unit_length, {"weight_decay": 5e-3, "epochs": 200, "patience": 100}
    ),
    "amazon_computers": (
        standardised, {"weight_decay": 1e-4, "epochs": 100, "patience": 30}
    ),
    "coauthor_cs": (
        standardised, {"weight_decay": 1e-4, "epochs": 30, "patience": 10}
    ),
}  # fmt: skip


def bench_accuracy(args):
    """Print the test accuracy of originals and LC versions."""
    print(f"\n## Accuracy: test, mean of {args.seeds} seeds, in %", flush=True)
    rows = []
    for name in args.graphs:
        path = args.data / f"{name}.npz"
        if not path.exists():
            print(f"{name}: skipped, {path} does not exist")
            continue
        data = load(path)
        prepare, training = GRAPHS[name]
        data.feat = prepare(data.feat)
        for pair in PAIRS:
            row = accuracy_of(pair, data, training, args)
            rows.append(row)
            print("  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    if rows:
        frame = pd.DataFrame(rows)
        print(frame.to_string(index=False))
        print(f"mean difference {frame.difference.mean():+.2f} points")


def accuracy_of(pair, data, training, args):
    found = {
        name: [
            train_model(
                name, data, hid_feats=64, seed=seed, options=SETTINGS[pair[0]],
                lr=0.01, **training,
            ).test_accuracy
            for seed in range(args.seeds)
        ]
        for name in pair
    }  # fmt: skip
    mean = {name: 100 * np.mean(values) for name, values in found.items()}
    spread = {name: 100 * np.std(values) for name, values in found.items()}
    return {
        "data": data.name,
        "model": pair[0],
        "original": f"{mean[pair[0]]:.2f} ({spread[pair[0]]:.2f})",
        "LC": f"{mean[pair[1]]:.2f} ({spread[pair[1]]:.2f})",
        "difference": round(mean[pair[1]] - mean[pair[0]], 2),
    }


SECTIONS = {
    "loader": bench_loader,
    "dropout": bench_dropout,
    "times": bench_times,
    "hops": bench_hops,
    "hop-accuracy": bench_hop_accuracy,
    "accuracy": bench_accuracy,
}


def main(args):
    torch.set_num_threads(args.threads)
    print(
        f"dgl-lc {dgl_lc.__version__}, dgl {dgl.__version__}, torch "
        f"{torch.__version__}, {args.threads} threads"
    )
    for section in args.only:
        SECTIONS[section](args)


if __name__ == "__main__":
    main(parse_args())
