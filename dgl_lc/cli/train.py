"""``dgl-lc train``: train one model on a data set."""

import argparse
from pathlib import Path

from ..experiments.model_names import HOP_MODELS, ORIGINALS
from .flags import Commands, add_reverse_flag, load_options, refuse

#: Flags of the model, by the names of its options.
_MODEL_OPTIONS = {
    "dropout": "dropout",
    "num_layers": "num_layers",
    "hops": "K",
    "mode": "mode",
    "alpha": "alpha",
    "dprate": "dprate",
}


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("train")
    parser.add_argument(
        "--model", required=True,
        help=f"name of the model: {', '.join([*ORIGINALS, *HOP_MODELS])}",
    )  # fmt: skip
    parser.add_argument(
        "--data", required=True,
        help="npz file or folder, name of a DGL data set, or 'synthetic'",
    )  # fmt: skip
    with_default = [
        ("--hid-feats", int, 256, "hidden feature size"),
        ("--epochs", int, 2000, "maximum number of epochs"),
        ("--patience", int, 300, "stop after this many epochs without an "
         "improvement"),
        ("--batch-size", int, 4096, "nodes per mini-batch"),
        ("--lr", float, 0.001, "learning rate"),
        ("--weight-decay", float, 0.0, "weight decay of the Adam optimizer"),
        ("--seed", int, 0, "random seed of weights, shuffling and dropout"),
    ]  # fmt: skip
    for flag, kind, value, text in with_default:
        parser.add_argument(
            flag, type=kind, default=value,
            help=f"{text} (default: %(default)s)",
        )  # fmt: skip
    optional = [
        ("--dropout", float, "dropout rate of the model"),
        ("--num-layers", int, "number of layers of the model"),
        ("--hops", int, "last hop of the model, K"),
        ("--mode", str, "how JKNet combines its layers: cat or max"),
        ("--alpha", float, "teleport probability of GPRGNN and APPNP"),
        ("--dprate", float, "GPRGNN's dropout rate before the propagation"),
        ("--device", str, "device to train on, such as cpu or cuda"),
        ("--memory", str, "memory budget of the precomputation, such as 8GiB"),
        ("--checkpoint", Path, "file to save the training state in, and to "
         "resume from after an interruption"),
        ("--save", Path, "file to save the trained model in"),
        ("--history", Path, "csv file to save loss, accuracy and seconds of "
         "each epoch in"),
    ]  # fmt: skip
    for flag, kind, text in optional:
        # Without a default, so that the model's own default holds.
        parser.add_argument(
            flag, type=kind, default=argparse.SUPPRESS, help=text
        )
    parser.add_argument(
        "--monitor", choices=["loss", "accuracy"], default="loss",
        help="validation figure that has to improve (default: %(default)s)",
    )  # fmt: skip
    add_reverse_flag(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ..data import load
    from ..experiments.named_models import MODELS, check_names
    from ..experiments.train_one import train_model
    from ..training import save_model

    given = vars(args)
    check_names([args.model], list(MODELS))
    if "save" in given and args.model in ORIGINALS:
        refuse(
            f"--save: {args.model} is an original, and only models of "
            f"dgl_lc.nn can be saved. Omit --save, or choose one of those."
        )
    data = load(args.data, **load_options(args))
    print(data, flush=True)
    result = train_model(
        args.model, data, hid_feats=args.hid_feats, seed=args.seed,
        options={
            option: given[flag]
            for flag, option in _MODEL_OPTIONS.items()
            if flag in given
        },
        precompute={"memory": given["memory"]} if "memory" in given else {},
        epochs=args.epochs, patience=args.patience,
        batch_size=args.batch_size, lr=args.lr,
        weight_decay=args.weight_decay, monitor=args.monitor,
        **{name: given[name] for name in ("device", "checkpoint")
           if name in given},
    )  # fmt: skip
    if result.precompute_seconds:
        print(f"precomputation: {result.precompute_seconds:.2f} s")
    print(result.fit)
    print(f"test accuracy {result.test_accuracy:.4f}")
    if "history" in given:
        result.fit.history.to_csv(given["history"])
    if "save" in given:
        save_model(result.model, given["save"])
        print(f"saved: {given['save']}")
    return 0
