"""Train a model on ogbn-papers100M (111M nodes) on an ordinary machine.

The result of every stage is kept on disk: a run that was stopped resumes where
it stopped.

Flowchart of the main sequence:

main
│
├───> write_papers_like        with --synthetic: a data set of the same shape,
│                              in OGB's own raw files
│
├───> prepare_ogb              edges sorted by destination, both directions;
│                              features as column blocks
│
├───> model.precompute         S^k X at the labelled nodes, into a hop store
│
└───> for each run:
      │
      ├───> fit                mini-batches of rows from the store, no graph
      │
      └───> predict            logits for OGB's own Evaluator
"""

import argparse
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from common import adam, load_once, run

from dgl_lc.data import prepare_ogb, write_papers_like
from dgl_lc.nn import FSGNN, LCGCN, LCGPRGNN, SGC, LCJKNet
from dgl_lc.training import fit, predict

# The paper's best parameters. FSGNN has a learning rate and a weight decay for
# each part.
BEST = {
    "SGC": {"lr": 0.01, "weight_decay": 1e-8},
    "FSGNN": {"lr": {"layers": 1e-4, "hidden": 1e-4, "output": 0.001,
                     "att": 0.1},
              "weight_decay": {"layers": 1e-4, "hidden": 1e-5,
                               "output": 1e-6, "att": 1e-4}},
    "LCGCN": {"lr": 0.001, "weight_decay": 1e-6},
    "LCJKNet": {"lr": 0.001, "weight_decay": 1e-6},
    "LCGPRGNN": {"lr": 0.001, "weight_decay": 1e-7},
}  # fmt: skip
# The number of aggregations of the paper's models.
HOPS = {"SGC": 2, "FSGNN": 3, "LCGCN": 2, "LCJKNet": 3, "LCGPRGNN": 5}
# Test and validation accuracy in the paper.
PAPER = {
    "SGC": (0.623, 0.667), "FSGNN": (0.665, 0.706), "LCGCN": (0.647, 0.688),
    "LCJKNet": (0.641, 0.689), "LCGPRGNN": (0.658, 0.696),
}  # fmt: skip


def make_model(name, columns, classes, hops, hidden=256):
    """Make a model of the paper with this number of aggregations."""
    if name == "SGC":
        return SGC(columns, classes, K=hops)
    if name == "FSGNN":
        return FSGNN(
            columns, hidden, classes, K=hops, dropout=0.5, num_layers=3
        )
    if name == "LCGCN":
        return LCGCN(columns, hidden, classes, num_layers=hops)
    if name == "LCJKNet":
        return LCJKNet(columns, hidden, classes, num_layers=hops, mode="cat")
    return LCGPRGNN(
        columns, hidden, classes, K=hops, num_layers=4, dropout=0.5, alpha=1.0
    )


@contextmanager
def stage(name):
    """Print the name of a stage, and how long it took."""
    print(f"{name} …", flush=True)
    start = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


def precompute(model, name, data, args):
    """Precompute the hops that the model needs, for the labelled nodes."""
    nodes = torch.cat([data.train, data.valid, data.test])
    hops = "-".join(map(str, model.hops))
    # Models that read the same hops of one filter share a store. FSGNN reads
    # hops of two filters, which lie in a folder of its own.
    kind = "several-" if name == "FSGNN" else ""
    memory = {"memory": args.memory}
    if torch.device(args.device).type == "cuda":
        # On a GPU, --memory is the budget of the host. The GPU's own budget
        # is what is free there.
        memory = {"device": args.device, "host_memory": args.memory}
    return model.precompute(
        data.graph, data.feat, nodes=nodes, dtype=args.dtype,
        out=Path(args.out) / f"{kind}hops-{hops}", **memory,
    )  # fmt: skip


def accuracy(evaluator, logits, labels):
    """Compute the accuracy with OGB's evaluator."""
    found = {
        "y_true": labels.view(-1, 1).numpy(),
        "y_pred": logits.argmax(dim=1, keepdim=True).cpu().numpy(),
    }
    return evaluator.eval(found)["acc"]


def main(args):
    # OGB asks the network for its newest version when it is imported, so it
    # is imported only when it is needed.
    from ogb.nodeproppred import Evaluator

    root = Path(args.root)
    if args.synthetic:
        with stage(f"generate a data set of scale {args.synthetic:g}"):
            load_once(
                lambda: write_papers_like(
                    root, args.synthetic, feat_dim=args.feat_dim,
                    memory=args.memory,
                )
            )  # fmt: skip
    out = Path(args.out or root / "prepared")
    args.out = out
    with stage("sort edges by destination, write features by columns"):
        data = load_once(
            lambda: prepare_ogb(
                root, out, memory=args.memory, consume_raw=args.consume_raw
            )
        )
    print(data)
    hops = args.hops or HOPS[args.model]
    columns, classes = data.feat.shape[1], data.num_classes
    torch.manual_seed(args.seed)
    with stage("precompute hop features"):
        model = make_model(args.model, columns, classes, hops)
        inputs = precompute(model, args.model, data, args)
    print(inputs)

    evaluator = Evaluator("ogbn-papers100M")
    found = []
    for number in range(args.runs):
        seed = args.seed + number
        torch.manual_seed(seed)
        model = make_model(args.model, columns, classes, hops)
        result = fit(
            model, inputs, data.labels, data.train, data.valid,
            batch_size=args.batch_size, epochs=args.epochs, seed=seed,
            device=args.device, checkpoint=out / f"{args.model}-{seed}.pt",
            **adam(model, **BEST[args.model]),
        )  # fmt: skip
        scores = [
            accuracy(evaluator, predict(model, inputs, ids), data.labels[ids])
            for ids in (data.test, data.valid)
        ]
        found.append(scores)
        print(
            f"run {number}: test {scores[0]:.4f}, validation {scores[1]:.4f}, "
            f"{result.epoch_seconds:.2f} s per epoch, "
            f"{result.seconds:.1f} s of training",
            flush=True,
        )
    show(args, np.array(found))
    return found


def show(args, found):
    """Print the paper's table with the results of these runs."""
    mean, spread = found.mean(0), found.std(0)
    ours = "this graph" if args.synthetic else "ours"
    print(f"\n{'':10}{'paper, test':>14}{'validation':>12}", end="")
    print(f"{ours + ', test':>20}{'validation':>18}")
    for name, (test, valid) in PAPER.items():
        row = f"{name:10}{test:14.3f}{valid:12.3f}"
        if name == args.model:
            row += f"{mean[0]:12.3f} ({spread[0]:.3f})"
            row += f"{mean[1]:10.3f} ({spread[1]:.3f})"
        print(row)
    if args.synthetic:
        print(
            "The graph is generated: its accuracy says nothing about "
            "papers100M."
        )


def parse_args(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--root", default="dataset/ogbn_papers100M",
        help="folder of OGB's raw files (default: %(default)s)")  # fmt: skip
    add("--model", choices=list(BEST), default="LCGCN",
        help="model to train (default: %(default)s)")  # fmt: skip
    add("--hops", type=int,
        help="number of aggregations (default: as in the paper)")  # fmt: skip
    add("--memory", default="16GiB",
        help="memory budget of each stage (default: %(default)s)")  # fmt: skip
    add("--device", default="cpu",
        help="device to precompute and to train on (default: "
        "%(default)s)")  # fmt: skip
    add("--dtype", choices=["float32", "float16", "bfloat16"],
        default="float32",
        help="data type of the hop store (default: %(default)s)")  # fmt: skip
    add("--epochs", type=int, default=2000,
        help="maximum number of epochs (default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=4096,
        help="rows in a mini-batch (default: %(default)s)")  # fmt: skip
    add("--runs", type=int, default=1,
        help="number of training runs (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="seed of the first run (default: %(default)s)")  # fmt: skip
    add("--synthetic", type=float, metavar="SCALE",
        help="first write a generated data set to --root, of SCALE times the "
        "size of papers100M")  # fmt: skip
    add("--feat-dim", type=int, default=128,
        help="columns of the generated features (default: "
        "%(default)s)")  # fmt: skip
    add("--consume-raw", action="store_true",
        help="delete the raw files once they are converted")  # fmt: skip
    add("--out",
        help="folder for the results of all stages (default: prepared, in "
        "--root)")  # fmt: skip
    args = parser.parse_args(argv)
    args.dtype = getattr(torch, args.dtype)
    return args


if __name__ == "__main__":
    run(main, parse_args())
