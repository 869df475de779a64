"""Flags of ``dgl-lc train`` for the loss, the metric and stages."""

import argparse
from typing import Any

from .flags import (
    non_negative_float,
    positive_float,
    refuse,
    share,
    small_count,
)

#: Metrics of tasks, which have one class per node. A test compares them with
#: the table that they are chosen from, which imports torch.
METRICS = ("accuracy", "macro_f1", "micro_f1", "roc_auc")


def add_fit_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add = parser.add_argument
    add("--metric", choices=METRICS, default=argparse.SUPPRESS,
        help="validation and test figure beside the loss (default: that of "
        "--monitor, or accuracy)")  # fmt: skip
    add("--monitor", choices=["loss", *METRICS], default="loss",
        help="validation figure that has to improve (default: %(default)s)",
        )  # fmt: skip
    add("--class-weight", choices=["balanced"], default=argparse.SUPPRESS,
        help="weight of classes in the loss: balanced gives each the same "
        "total weight (default: nodes weigh the same)")  # fmt: skip
    add("--precision", choices=["fp32", "bf16"], default="fp32",
        help="number type that the model computes in (default: %(default)s)",
        )  # fmt: skip
    add("--shuffle", choices=["auto", "full", "chunks"],
        default=argparse.SUPPRESS,
        help="how training rows are shuffled: all together (full), or in "
        "chunks of rows that lie together in the store, for one that is larger "
        "than memory (default: auto, which prints what it takes)")  # fmt: skip
    add("--shuffle-buffer", default=argparse.SUPPRESS,
        help="memory that --shuffle chunks takes, such as 2GiB "
        "(default: 1GiB)")  # fmt: skip
    add("--clip-norm", type=positive_float, default=argparse.SUPPRESS,
        help="norm to which the gradients of a step are cut")  # fmt: skip
    add("--consistency", type=non_negative_float, default=argparse.SUPPRESS,
        help="weight of a loss between two passes with different dropout, of "
        "nodes with and without a label")  # fmt: skip
    add("--stages", type=small_count, default=1,
        help="stages of self-training, in which confident nodes without a "
        "label join (default: %(default)s, none join)")  # fmt: skip
    add("--threshold", type=share, default=argparse.SUPPRESS,
        help="least probability of the class of a node that joins a later "
        "stage (default: 0.9)")  # fmt: skip
    add("--soft-labels", action="store_true",
        help="with --labels, --label-store and --stages: let label features "
        "of later stages hold the probabilities of nodes that have joined. "
        "These may tell a node its own label (default: all stages read "
        "labels of training nodes alone)")  # fmt: skip


def fit_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of training that flags give."""
    names = (
        "class_weight", "clip_norm", "consistency", "threshold", "shuffle",
        "shuffle_buffer",
    )  # fmt: skip
    monitor = given["monitor"]
    return {
        "metric": given.get(
            "metric", "accuracy" if monitor == "loss" else monitor
        ),
        "monitor": monitor,
        "precision": given["precision"],
        "stages": given["stages"],
        "soft_labels": given["soft_labels"],
        **{name: given[name] for name in names if name in given},
    }


def check_fit_flags(given: dict[str, Any]) -> None:
    """Refuse flags that do not go together."""
    if "shuffle_buffer" in given:
        from .._common.bytes import parse_bytes

        parse_bytes(given["shuffle_buffer"], "--shuffle-buffer")
        if given.get("shuffle") == "full":
            refuse("--shuffle-buffer is for --shuffle chunks: omit it.")
    monitor = given["monitor"]
    if "metric" in given and monitor not in ("loss", given["metric"]):
        refuse(
            f"--monitor {monitor}: the metric is {given['metric']}; name the "
            f"same one, or loss."
        )
    if "threshold" in given and given["stages"] == 1:
        refuse("--threshold is for runs with --stages: add that, or omit it.")
    if given["soft_labels"]:
        missing = [] if given["stages"] > 1 else ["--stages 2 or more"]
        for name in ("labels", "label_store"):
            if name not in given:
                missing.append(f"--{name.replace('_', '-')}")
        if missing:
            refuse(f"--soft-labels also needs {' and '.join(missing)}.")
