"""``dgl-lc train``: train one model on a data set."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..experiments.model_names import HOP_MODELS, ORIGINALS
from .fit_flags import add_fit_flags, check_fit_flags, fit_options
from .flags import (
    NORMS,
    Commands,
    add_reverse_flag,
    check_device,
    check_output_file,
    check_output_folder,
    count,
    given_path,
    hop_count,
    load_options,
    non_negative_float,
    positive_float,
    rate,
    refuse,
    seed,
)
from .log_lines import log_as_lines
from .ranks import check_on_first, one_after_the_other, ranks_of_launcher

if TYPE_CHECKING:
    from ..data import DiskData, NodeData
    from ..ranks.group import Ranks

#: Flags of the model, by the names of its options.
_MODEL_OPTIONS = {
    "dropout": "dropout",
    "num_layers": "num_layers",
    "hops": "K",
    "mode": "mode",
    "alpha": "alpha",
    "dprate": "dprate",
    "input_dropout": "input_dropout",
    "attention_dropout": "attention_dropout",
    "num_heads": "num_heads",
    "normalization": "normalization",
    "residual": "residual",
    "sampled_hops": "sampled_hops",
    "norm": "norm",
    "self_loop": "self_loop",
}
#: Nodes whose hop attention is drawn, at most.
_ATTENTION_ROWS = 2000
#: Files that the command writes, by their flags.
_FILES = ("checkpoint", "save", "history", "plots")


def add_command(commands: Commands) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("train")
    parser.add_argument(
        "--model", required=True,
        help=f"name of the model: {', '.join([*ORIGINALS, *HOP_MODELS])}",
    )  # fmt: skip
    parser.add_argument(
        "--data", required=True,
        help="folder of a prepared task, npz file or folder, name of a DGL "
        "data set, or 'synthetic'",
    )  # fmt: skip
    with_default: list[tuple[str, Callable[[str], Any], Any, str]] = [
        ("--hid-feats", count, 256, "hidden feature size"),
        ("--epochs", count, 2000, "maximum number of epochs"),
        ("--patience", count, 300, "stop after this many epochs without an "
         "improvement"),
        ("--batch-size", count, 4096, "nodes per mini-batch, of each rank if "
         "there are several"),
        ("--lr", positive_float, 0.001, "learning rate"),
        ("--weight-decay", non_negative_float, 0.0, "weight decay of the Adam "
         "optimizer"),
        ("--seed", seed, 0, "random seed of weights, shuffling and dropout"),
    ]  # fmt: skip
    for flag, kind, value, text in with_default:
        parser.add_argument(
            flag, type=kind, default=value,
            help=f"{text} (default: %(default)s)",
        )  # fmt: skip
    optional: list[tuple[str, Callable[[str], Any], str]] = [
        ("--dropout", rate, "dropout rate of the model"),
        ("--num-layers", hop_count, "number of layers of the model"),
        ("--hops", hop_count, "last hop of the model, K"),
        ("--mode", str, "how JKNet combines its layers, cat or max; what "
         "GAMLP's attention refers to, recursive or jk"),
        ("--alpha", non_negative_float, "teleport probability of GPRGNN and "
         "APPNP"),
        ("--dprate", rate, "GPRGNN's dropout rate before the propagation"),
        ("--input-dropout", rate, "dropout rate of the features"),
        ("--attention-dropout", rate, "dropout rate of the weights of hops, "
         "of SAGN and GAMLP"),
        ("--num-heads", count, "number of attention heads of SAGN"),
        ("--normalization", str, "normalisation of hidden layers: batch, "
         "layer or, for FSGNN, l2"),
        ("--sampled-hops", count, "number of hops of each row that a step of "
         "LCGPRGNN reads, drawn at random (default: all)"),
        ("--norm", str, f"norm of the model's filter: {', '.join(NORMS)}"),
        ("--device", str, "device to train on, such as cpu or cuda"),
        ("--store", given_path, "hop store of the same data, made before: "
         "its rows are read instead of being computed"),
        ("--hops-out", given_path, "folder to write the computed hop features "
         "to and to read them from, for data whose hop features do not fit "
         "in memory; it is kept, and a later --store"),
        ("--label-store", given_path, "with --labels: folder to write the "
         "label features to and to read them from (default: in memory)"),
        ("--memory", str, "memory budget of the precomputation, such as 8GiB"),
        ("--checkpoint", given_path, "file to save the training state in, and "
         "to resume from after an interruption"),
        ("--save", given_path, "file to save the trained model in, for "
         "dgl-lc predict"),
        ("--history", given_path, "csv file to save loss, metric and seconds "
         "of each epoch in"),
        ("--plots", given_path, "image file to draw loss and metric over "
         "epochs in, and the weights of hops if the model has any (png, pdf "
         "or svg), or a folder for training.png"),
    ]  # fmt: skip
    for flag, kind, text in optional:
        # Without a default, so that the model's own default holds.
        parser.add_argument(
            flag, type=kind, default=argparse.SUPPRESS, help=text
        )
    parser.add_argument(
        "--no-self-loop", action="store_const", const=False,
        dest="self_loop", default=argparse.SUPPRESS,
        help="use the edges of the graph as they are, instead of giving "
        "every node one self-loop",
    )  # fmt: skip
    parser.add_argument(
        "--residual", action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="whether the model adds a linear map of hop 0",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=count, nargs="?", const=3, metavar="HOPS",
        default=argparse.SUPPRESS,
        help="let the model read label features as well: this many hops of "
        "the training labels, in which no node sees its own (default: 3)",
    )  # fmt: skip
    parser.add_argument(
        "--no-resume", action="store_true",
        help="begin at the first epoch and replace the checkpoint, instead of "
        "resuming from it, and also label features of later stages "
        "(--soft-labels)",
    )  # fmt: skip
    add_fit_flags(parser)
    add_reverse_flag(parser)
    parser.set_defaults(
        run=_run,
        kept="with --checkpoint, the same command resumes after the last "
        "whole epoch",
    )


def _run(args: argparse.Namespace) -> int:
    given = vars(args)
    _check_flags(given)
    with log_as_lines(), ranks_of_launcher() as ranks:
        return _train(args, given, ranks)


def _train(
    args: argparse.Namespace, given: dict[str, Any], ranks: "Ranks | None"
) -> int:
    check_on_first(ranks, "train", lambda: _check_outputs(given))

    from ..data import open_data
    from ..experiments.train_one import train_model

    data = one_after_the_other(
        ranks, "train", lambda: open_data(args.data, **load_options(args))
    )
    print(data, flush=True)
    _check_source(given, data)
    precompute = {"memory": given.get("memory"), "out": given.get("hops_out")}
    labels = {}
    if "labels" in given:
        labels = {
            "label_feats": data.num_classes, "label_hops": given["labels"]
        }  # fmt: skip
    result = train_model(
        args.model, data, hid_feats=args.hid_feats, seed=args.seed,
        options={
            option: given[flag]
            for flag, option in _MODEL_OPTIONS.items()
            if flag in given
        } | labels,
        precompute={k: v for k, v in precompute.items() if v is not None},
        store=given.get("store"), label_store=given.get("label_store"),
        attention_rows=_ATTENTION_ROWS if "plots" in given else 0,
        epochs=args.epochs, patience=args.patience,
        batch_size=args.batch_size, lr=args.lr,
        weight_decay=args.weight_decay, **fit_options(given),
        resume=not args.no_resume, device=given.get("device"),
        checkpoint=given.get("checkpoint"),
    )  # fmt: skip
    if ranks is not None:
        print(f"{ranks.size} ranks, {args.batch_size} nodes per batch of each")
    if result.precompute_seconds:
        where = given.get("hops_out", "memory")
        print(
            f"precomputation: {result.precompute_seconds:.2f} s, "
            f"hop features in {where}"
        )
    print(result.fit)
    if len(data.test):
        print(f"test accuracy {result.test_accuracy:.4f}")
        if result.fit.metric != "accuracy":
            print(f"test {result.fit.metric} {result.test_metric:.4f}")
    if given["soft_labels"]:
        from ..experiments.stage_labels import stage_folder

        stage = int(result.fit.history.stage[result.fit.best_epoch])
        print(f"label features: {stage_folder(given['label_store'], stage)}")
    if ranks is None or ranks.rank == 0:
        _write_outputs(given, data, result)
    return 0


def _check_flags(given: dict[str, Any]) -> None:
    """Refuse a model and flags that do not go together."""
    from .._common.bytes import parse_bytes
    from ..experiments.named_models import MODELS, check_names, option_names
    from ..nn.model import HopModel

    check_fit_flags(given)
    name = given["model"]
    check_names([name], list(MODELS))
    if not issubclass(MODELS[name], HopModel):
        for flag in ("save", "store", "hops_out", "labels"):
            if flag in given:
                refuse(
                    f"--{flag.replace('_', '-')}: {name} is an original, "
                    f"which reads the graph, and this flag is for models of "
                    f"dgl_lc.nn. Omit it, or choose one of those."
                )
    known = option_names(name)
    for flag, other, option in (
        ("hops", "num-layers", "num_layers"), ("num_layers", "hops", "K")
    ):  # fmt: skip
        own = _MODEL_OPTIONS[flag]
        if flag in given and own not in known and option in known:
            refuse(
                f"--{flag.replace('_', '-')}: {name} has no such option; "
                f"its last hop is set by --{other}."
            )
    if "norm" in given and given["norm"] not in NORMS:
        refuse(
            f"--norm {given['norm']} should be one of {', '.join(NORMS)}."
        )  # fmt: skip
    if "device" in given:
        check_device(given["device"])
    if "memory" in given:
        parse_bytes(given["memory"], "--memory")
    if "store" in given and "hops_out" in given:
        refuse(
            "--store and --hops-out: give one of them, a store that exists or "
            "a folder to write one to."
        )
    if "label_store" in given and "labels" not in given:
        refuse("--label-store is for runs with --labels: add that, or omit it.")
    if given["no_resume"] and not (
        "checkpoint" in given or given["soft_labels"]
    ):
        refuse("--no-resume is for runs with --checkpoint: add that, or omit "
               "it.")  # fmt: skip


def _check_outputs(given: dict[str, Any]) -> None:
    """Refuse an output that cannot be written, before any work."""
    from ..experiments.plots import check_figure
    from ..training.history import check_history_file
    from ..training.saved_model import check_model_file

    if "plots" in given:
        given["plots"] = _figure_file(given["plots"])
    owners: dict[Path, str] = {}
    for name in _FILES:
        if name not in given:
            continue
        check_output_file(given[name], f"--{name}")
        other = owners.setdefault(given[name].resolve(), name)
        if other != name:
            refuse(f"--{other} and --{name} name one file: name two.")
    checks: dict[str, Callable[[Path], None]] = {
        "save": check_model_file,
        "history": check_history_file,
        "plots": check_figure,
    }
    for name, check in checks.items():
        if name in given:
            check(given[name])
    for flag in ("hops_out", "label_store"):
        if flag in given:
            check_output_folder(given[flag], f"--{flag.replace('_', '-')}")


def _figure_file(path: Path) -> Path:
    """Return the file of the figure: that which is named, or in a folder."""
    if path.is_dir() or not path.suffix:
        return path / "training.png"
    if path.suffix not in (".png", ".pdf", ".svg"):
        refuse(
            f"--plots {path} should end in .png, .pdf or .svg, or be a folder."
        )
    return path


def _check_source(
    given: dict[str, Any], data: "NodeData | DiskData"
) -> None:  # fmt: skip
    """Refuse a store for a task that needs two of them."""
    for flag in ("store", "hops_out", "label_store"):
        if flag in given and getattr(data, "inductive", False):
            refuse(
                f"--{flag.replace('_', '-')}: {data.name} is inductive, so "
                f"that training reads hop features of the training subgraph, "
                f"and a store has one graph. Omit the flag."
            )


def _write_outputs(
    given: dict[str, Any], data: "NodeData | DiskData", result: Any
) -> None:
    """Write the model first: it is what took the time."""
    from ..experiments.plots import training_curves
    from ..training import save_model

    if "save" in given:
        save_model(
            result.model, given["save"], data.class_names,
            getattr(data, "feat_names", None),
        )  # fmt: skip
    if "history" in given:
        result.fit.write_history(given["history"])
    if "plots" in given:
        training_curves(
            result.fit, given["plots"], result.name, result.attention
        )
    for name in ("save", "history", "plots"):
        if name in given:
            print(f"saved: {given[name]}")
