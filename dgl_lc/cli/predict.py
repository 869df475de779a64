"""``dgl-lc predict``: write predictions of a saved model to a file."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .flags import (
    Commands,
    add_reverse_flag,
    check_device,
    check_output_file,
    count,
    given_path,
    load_options,
    non_negative_float,
    refuse,
)
from .ranks import check_on_first, one_after_the_other, ranks_of_launcher

if TYPE_CHECKING:
    import torch

    from ..data import DiskData, NodeData
    from ..ranks.group import Ranks

#: Values of ``--nodes`` that are not the name of a file.
_SPLITS = ("train", "valid", "test")


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("predict")
    add = parser.add_argument
    add("--model", type=given_path, required=True,
        help="file that dgl-lc train --save, or save_model, has "
        "written")  # fmt: skip
    add("--data", required=True,
        help="folder of a prepared task, npz file or folder, or name of a DGL "
        "data set")  # fmt: skip
    add("--out", type=given_path, required=True,
        help="file of the predictions: .csv, .parquet (both with the ids of "
        "the nodes) or .npy (an array in the order of the nodes)")  # fmt: skip
    add("--store", type=given_path,
        help="hop store of the same data; rows that it does not have are "
        "computed (default: all are computed). An LC version needs the "
        "folder that lc.precompute has written")  # fmt: skip
    add("--label-store", type=given_path,
        help="store of the label features of a model that reads them, as "
        "dgl-lc train --label-store has written it (default: they are "
        "computed)")  # fmt: skip
    add("--nodes", default="all",
        help="nodes to predict: all, train, valid, test, or a file with one "
        "id per line (csv, txt) or an array of ids (npy) "
        "(default: %(default)s)")  # fmt: skip
    add("--probabilities", action="store_true",
        help="write the probability of each class as well")  # fmt: skip
    add("--correct-and-smooth", nargs="?", const="0.8,0.8", type=_alphas,
        metavar="ALPHA,ALPHA",
        help="predict all nodes, and improve the predictions by the labels of "
        "the training nodes: the errors there, and then the predictions, "
        "spread over the graph, each by one of two rates from 0 to 1 "
        "(default: 0.8,0.8)")  # fmt: skip
    add("--memory", help="memory budget of the rows that are computed, such "
        "as 8GiB (default: half of what is available)")  # fmt: skip
    add("--batch-size", type=count, default=16384,
        help="nodes that the model predicts at a time "
        "(default: %(default)s)")  # fmt: skip
    add("--device", default="cpu",
        help="device of the model: cpu (default) or cuda")  # fmt: skip
    add("--overwrite", action="store_true",
        help="replace the file of the predictions if it exists")  # fmt: skip
    add_reverse_flag(parser)
    parser.set_defaults(run=_run)


def _alphas(text: str) -> dict[str, float]:
    """Read the two rates of ``--correct-and-smooth``."""
    first, comma, second = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(
            f"{text!r} should be two numbers, such as 0.8,0.6"
        )
    names = ("correction_alpha", "smoothing_alpha")
    found = dict(zip(names, map(non_negative_float, (first, second)),
                     strict=True))  # fmt: skip
    if max(found.values()) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be from 0 to 1")
    return found


def _run(args: argparse.Namespace) -> int:
    from .._common.bytes import parse_bytes

    check_device(args.device)
    if args.memory is not None:
        parse_bytes(args.memory, "--memory")
    if args.correct_and_smooth is not None and args.probabilities:
        refuse(
            "--probabilities: what --correct-and-smooth computes are scores, "
            "which are no probabilities. Omit one of them."
        )
    with ranks_of_launcher() as ranks:
        return _predict(args, ranks)


def _check_out(args: argparse.Namespace) -> None:
    """Refuse a file that cannot be written, before any work."""
    from ..training.prediction_files import check_prediction_file

    check_prediction_file(args.out)
    if args.out.exists() and not args.out.is_dir() and not args.overwrite:
        refuse(
            f"--out {args.out} exists: name another file, or give --overwrite "
            f"to replace it."
        )
    check_output_file(args.out, "--out")


def _predict(args: argparse.Namespace, ranks: "Ranks | None") -> int:
    check_on_first(ranks, "predict", lambda: _check_out(args))
    if ranks is not None and args.correct_and_smooth is not None:
        refuse("--correct-and-smooth runs in one process: start no ranks.")

    from ..data import open_data
    from ..nn.model import HopModel
    from ..precompute import open_store
    from ..training import load_model, write_predictions
    from ..training.label_inputs import open_label_store, reads_labels
    from ..training.smoothed_predictions import write_smoothed
    from ..training.task_store import open_task_store
    from ..training.trained_on import check_same_task

    model: Any = load_model(args.model)
    known: Any = model.trained_on
    data = one_after_the_other(
        ranks, "predict", lambda: open_data(args.data, **load_options(args))
    )
    print(data, flush=True)
    rows: Any = None
    label_rows: Any = None
    if reads_labels(model):
        if model.label_recipe is None:
            refuse(
                f"--model {args.model} reads label features, but the file does "
                f"not say how they were made: train it with dgl-lc train "
                f"--labels, or with fit on with_labels(...), and save it again."
            )
        if args.label_store is not None:
            label_rows = open_label_store(args.label_store, model, data)
    elif args.label_store is not None:
        refuse("--label-store is for models that read label features: omit it.")
    if isinstance(model, HopModel):
        # A store of other data would be another error, of less help.
        check_same_task(model, data)
        if args.store is not None:
            rows = open_task_store(args.store, model, data)
    elif args.store is not None:
        rows = open_store(args.store)
    options: dict[str, Any] = {
        "nodes": _nodes(args.nodes, data), "rows": rows,
        "label_rows": label_rows, "class_names": known.class_names,
        "memory": args.memory, "batch_size": args.batch_size,
        "device": args.device,
    }  # fmt: skip
    if args.correct_and_smooth is None:
        found = write_predictions(
            model, data, args.out, probabilities=args.probabilities, **options
        )
    else:
        found = write_smoothed(
            model, data, args.out, smoothing=args.correct_and_smooth, **options
        )
    print(found)
    return 0


def _nodes(text: str, data: "NodeData | DiskData") -> "torch.Tensor | None":
    """Return the numbers of the nodes that ``--nodes`` names; None for all."""
    from ..training.read_nodes import read_nodes

    if text == "all":
        return None
    if text not in _SPLITS:
        return read_nodes(Path(text), data)
    found = getattr(data, text)
    if len(found) == 0:
        refuse(f"--nodes {text}: {data.name} has no such nodes.")
    return found
