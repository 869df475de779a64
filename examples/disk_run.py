"""What the scripts for graphs on disk share.

Every stage keeps its result in a folder, so that a run that was stopped
resumes where it stopped, and prints its time and its peak of memory.
"""

import argparse
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import torch
from common import (
    adam,
    add_label_flag,
    add_smoothing_flag,
    add_stage_flags,
    label_options,
    pair_with_labels,
    smooth,
)

from dgl_lc.experiments.fit_task import fit_task
from dgl_lc.experiments.named_models import make_model
from dgl_lc.experiments.stage_labels import StageLabels
from dgl_lc.training import predict

#: Seconds between two looks at the memory.
_PAUSE = 0.01


def make_parser(doc, best, root):
    """Make a parser of the flags that the scripts share."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--root", default=root,
        help="folder of OGB's raw files (default: %(default)s)")  # fmt: skip
    add("--model", choices=list(best), default=next(iter(best)),
        help="model to train (default: %(default)s)")  # fmt: skip
    add("--hops", type=int,
        help="number of aggregations (default: that of the table in this "
        "script)")  # fmt: skip
    add("--num-hidden", type=int, default=256,
        help="columns of a hidden layer (default: %(default)s)")  # fmt: skip
    add("--memory", default="16GiB",
        help="memory budget of each stage (default: %(default)s)")  # fmt: skip
    add("--device", default="cpu",
        help="device to precompute and to train on (default: "
        "%(default)s)")  # fmt: skip
    add("--dtype", choices=["float32", "float16", "bfloat16"],
        default="float32",
        help="data type of the hop store (default: %(default)s)")  # fmt: skip
    add("--epochs", type=int,
        help="maximum number of epochs, of each stage of self-training "
        "(default: 100 for SAGN and GAMLP, else 2000)")  # fmt: skip
    add("--patience", type=int, default=300,
        help="epochs without a better validation loss after which training "
        "stops (default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=4096,
        help="rows in a mini-batch (default: %(default)s)")  # fmt: skip
    add("--runs", type=int, default=1,
        help="number of training runs (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="seed of the first run (default: %(default)s)")  # fmt: skip
    add_label_flag(parser)
    add_stage_flags(parser)
    add("--soft-labels", action="store_true",
        help="with --labels and --stages: let label features of later stages "
        "hold the probabilities of nodes that have joined, as published. "
        "These may tell a node its own label")  # fmt: skip
    add("--out",
        help="folder for the results of all stages (default: prepared, in "
        "--root)")  # fmt: skip
    return parser


def add_smoothing(parser):
    """Add --correct-and-smooth, which needs the rows of all nodes."""
    add_smoothing_flag(parser)


def check_args(parser, args):
    """Refuse flags that do not go together; set what depends on others."""
    if args.soft_labels and (args.labels is None or args.stages < 2):
        parser.error("--soft-labels also needs --labels and --stages")
    if args.epochs is None:
        args.epochs = 100 if args.model in ("SAGN", "GAMLP") else 2000
    args.dtype = getattr(torch, args.dtype)
    return args


@contextmanager
def stage(name):
    """Print the name of a stage, and what time and memory it took.

    Memory is what the process has allocated, Python and torch included;
    pages of files do not count, as the system can drop them.
    """
    print(f"{name} …", flush=True)
    process, stop = psutil.Process(), threading.Event()
    highest = 0

    def watch():
        nonlocal highest
        while True:
            found = process.memory_info()
            highest = max(highest, found.rss - getattr(found, "shared", 0))
            if stop.wait(_PAUSE):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    took = time.perf_counter() - start
    print(
        f"{name}: {took:.1f} s, peak memory {highest / 2**30:.2f} GiB",
        flush=True,
    )


def new_model(args, data, options):
    """Make the model of the flags."""
    options = {**options, **label_options(args, data)}
    if args.hops:
        # LC versions of layers have a hop for each layer.
        own = "num_layers" if args.model in ("LCGCN", "LCJKNet") else "K"
        options[own] = args.hops
    return make_model(args.model, data, args.num_hidden, **options)


def nodes_of(data):
    """Return the nodes of the split; None if these are all nodes."""
    nodes = torch.cat([data.train, data.valid, data.test])
    return nodes if len(nodes) < data.graph.num_nodes() else None


def precompute(model, data, args):
    """Precompute the hops that the model needs, for the labelled nodes."""
    hops = "-".join(map(str, model.hops))
    # Models that read the same hops of one filter share a store. FSGNN reads
    # hops of two filters, which lie in a folder of its own.
    kind = "several-" if args.model == "FSGNN" else ""
    memory = {"memory": args.memory}
    if torch.device(args.device).type == "cuda":
        # On a GPU, --memory is the budget of the host. The GPU's own budget
        # is what is free there.
        memory = {"device": args.device, "host_memory": args.memory}
    return model.precompute(
        data.graph, data.feat, nodes=nodes_of(data), dtype=args.dtype,
        out=Path(args.out) / f"{kind}hops-{hops}", **memory,
    )  # fmt: skip


def run_name(args, hops, seed):
    """Name the files of a run by all that it depends on but its training."""
    words = [args.model, f"hops{hops}", f"hidden{args.num_hidden}"]
    if args.labels is not None:
        words.append(f"labels{args.labels}")
    if args.stages > 1:
        words.append("soft-stages" if args.soft_labels else "stages")
    return "-".join([*words, str(seed)])


def train_runs(args, data, options, lr, weight_decay, evaluate):
    """Precompute, train and test; return test and validation scores.

    Parameters
    ----------
    args
        The flags.
    data : DiskData
        The task.
    options : dict
        Options of the model.
    lr, weight_decay
        As for :func:`common.adam`.
    evaluate : callable
        Gives the score of predicted classes and of labels.
    """
    torch.manual_seed(args.seed)
    with stage("precompute hop features"):
        model = new_model(args, data, options)
        hops = precompute(model, data, args)
    print(hops, flush=True)
    inputs = hops
    if args.labels is not None:
        with stage("precompute label features"):
            inputs = pair_with_labels(
                args, model, hops, data, nodes_of(data),
                out=Path(args.out) / f"labels-{args.labels}",
            )  # fmt: skip
    found = []
    for number in range(args.runs):
        seed = args.seed + number
        torch.manual_seed(seed)
        model = new_model(args, data, options)
        name = Path(args.out) / run_name(args, max(model.hops), seed)
        seen = inputs
        if args.soft_labels:
            seen = StageLabels(
                model, data, hops, f"{name}-labels", nodes_of(data),
                args.memory,
            )  # fmt: skip
        with stage(f"run {number}: train {args.model}"):
            result = fit_task(
                model, seen, None, data, stages=args.stages,
                threshold=args.threshold, batch_size=args.batch_size,
                epochs=args.epochs, patience=args.patience, seed=seed,
                device=args.device, checkpoint=f"{name}.pt",
                **adam(model, lr, weight_decay, args.stages),
            )  # fmt: skip
        show_stages(result)
        if args.soft_labels:
            seen = seen.of_best(result)
        with stage(f"run {number}: predict"):
            scores = test(args, model, seen, data, evaluate)
        found.append(scores)
        print(
            f"run {number}: test {scores[0]:.4f}, validation {scores[1]:.4f}, "
            f"{result.epoch_seconds:.2f} s per epoch, "
            f"{result.seconds:.1f} s of training",
            flush=True,
        )
    return found


def show_stages(result):
    """Print a line for each stage of self-training."""
    if "stage" not in result.history:
        return
    before = 0.0
    for number, rows in result.history.groupby("stage"):
        print(
            f"  stage {number}: {rows.pseudo.iloc[0]:,} nodes joined, "
            f"{len(rows)} epochs, {rows.seconds.iloc[-1] - before:.1f} s, best "
            f"validation accuracy {rows.valid_accuracy.max():.4f}"
        )
        before = rows.seconds.iloc[-1]


def test(args, model, inputs, data, evaluate):
    """Compute the scores of the test and of the validation nodes."""
    splits = (data.test, data.valid)
    if getattr(args, "correct_and_smooth", None):
        every = torch.arange(data.graph.num_nodes())
        logits = predict(model, inputs, every).cpu()
        found = smooth(args, logits, data)
        rows = [found[ids] for ids in splits]
    else:
        rows = [predict(model, inputs, ids) for ids in splits]
    return [
        evaluate(own.argmax(dim=1), data.labels[ids])
        for own, ids in zip(rows, splits, strict=True)
    ]


def ogb_accuracy(name):
    """Return OGB's accuracy of predicted classes."""
    # OGB asks the network for its newest version when it is imported, so it
    # is imported only when it is needed.
    from ogb.nodeproppred import Evaluator

    evaluator = Evaluator(name)

    def accuracy(classes, labels):
        found = {
            "y_true": labels.view(-1, 1).numpy(),
            "y_pred": classes.view(-1, 1).cpu().numpy(),
        }
        return evaluator.eval(found)["acc"]

    return accuracy


def show_published(name, published):
    """Print accuracies that others have published."""
    print(f"\nTest accuracy on {name} as published by others:")
    for model, value in published.items():
        print(f"  {model:24}{value:7.2f} %")


def describe(args):
    """Name what was trained, as in a table of results."""
    words = [args.model]
    words += [] if args.labels is None else ["labels"]
    words += [] if args.stages == 1 else [f"{args.stages} stages"]
    words += ["C&S"] if getattr(args, "correct_and_smooth", None) else []
    return " + ".join(words)


def show_runs(args, found):
    """Print the mean and the standard deviation over runs."""
    scores = np.array(found)
    mean, spread = 100 * scores.mean(0), 100 * scores.std(0)
    print(
        f"{describe(args)}: test {mean[0]:.2f} ({spread[0]:.2f}) %, "
        f"validation {mean[1]:.2f} ({spread[1]:.2f}) %, runs: {len(found)}"
    )
