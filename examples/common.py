"""What the scripts of this folder share: flags, inputs, optimizer."""

import argparse

import torch

from dgl_lc.cli.ranks import one_after_the_other, ranks_of_launcher
from dgl_lc.nn.model import HopModel
from dgl_lc.precompute import with_labels
from dgl_lc.ranks.group import find_ranks
from dgl_lc.training import correct_and_smooth
from dgl_lc.training.label_inputs import compute_labels

# SAGN and GAMLP are not in the paper. Their options are the defaults of the
# classes, and not tuned.
LATER = {
    "SAGN": {"lr": 0.001, "weight_decay": 0.0},
    "GAMLP": {"lr": 0.001, "weight_decay": 0.0},
}


def make_parser(doc, models, data, data_help, transductive=False):
    """Make a parser of the flags; the paper's choices are the defaults."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", default=data, help=f"{data_help} (default: %(default)s)")
    add("--model", choices=models, default="LCGCN",
        help="model to train (default: %(default)s)")  # fmt: skip
    best = "(default: the paper's best for this model)"
    add("--lr", type=float, help=f"learning rate {best}")
    add("--weight-decay", type=float, help=f"weight decay {best}")
    add("--dropout", type=float, help=f"dropout rate {best}")
    add("--num-hidden", type=int, default=256,
        help="columns of a hidden layer (default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=4096,
        help="rows in a mini-batch (default: %(default)s)")  # fmt: skip
    add("--num-epochs", type=int, default=2000,
        help="maximum number of epochs (default: %(default)s)")  # fmt: skip
    add("--patience", type=int, default=300,
        help="epochs without a better validation loss after which training "
        "stops (default: %(default)s)")  # fmt: skip
    add("--memory",
        help="memory budget of the precomputation, such as 2GiB (default: "
        "that of block_aggregate)")  # fmt: skip
    add("--device", default="cpu",
        help="device to train on (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="seed of weights, dropout and shuffling (default: "
        "%(default)s)")  # fmt: skip
    add_label_flag(parser)
    if transductive:
        add_stage_flags(parser)
        add_smoothing_flag(parser)
    return parser


def add_label_flag(parser):
    """Add --labels."""
    parser.add_argument(
        "--labels", type=int, nargs="?", const=3, metavar="HOPS",
        help="let the model read hop features of the training labels as well, "
        "in which no node sees its own, up to this hop (3 without a number)",
    )  # fmt: skip


def add_stage_flags(parser):
    """Add the flags of self-training."""
    add = parser.add_argument
    add("--stages", type=int, default=1,
        help="stages of self-training, in which confident nodes without a "
        "label join (default: %(default)s, none join)")  # fmt: skip
    add("--threshold", type=float, default=0.9,
        help="least probability of the class of a node that joins (default: "
        "%(default)s)")  # fmt: skip


def add_smoothing_flag(parser):
    """Add --correct-and-smooth."""
    parser.add_argument(
        "--correct-and-smooth", type=_rates, nargs="?", const=(0.8, 0.8),
        metavar="ALPHA,ALPHA",
        help="after the training, correct and smooth the predictions with "
        "these rates (0.8,0.8 without a value)",
    )  # fmt: skip


def _rates(text):
    found = tuple(map(float, text.split(",")))
    if len(found) != 2 or not all(0 <= rate <= 1 for rate in found):
        raise ValueError
    return found


def choose(best, args):
    """Return the paper's best options, replaced by flags that were given."""
    flags = ("lr", "weight_decay", "dropout")
    given = {name: getattr(args, name) for name in flags}
    given = {name: value for name, value in given.items() if value is not None}
    return {**best[args.model], **given}


def run(main, args):
    """Run a script: in one process, or with others under torchrun."""
    with ranks_of_launcher():
        return main(args)


def load_once(load):
    """Load data; under torchrun one rank does so first, as it may download."""
    return one_after_the_other(find_ranks(), "load", load)


def reads_hops(model):
    """Return whether the model reads hop features instead of the graph."""
    return isinstance(model, HopModel)


def hop_features(model, graph, feat, nodes, memory=None):
    """Precompute the hops that the model needs, for these nodes only."""
    return model.precompute(graph, feat, nodes=nodes, memory=memory)


def label_options(args, data):
    """Return the options of a model that reads label features, if it does."""
    if args.labels is None:
        return {}
    return {"label_feats": data.num_classes, "label_hops": args.labels}


def pair_with_labels(args, model, rows, data, nodes=None, graph=None, out=None):
    """Add label features to hop features, if --labels was given."""
    if args.labels is None:
        return rows
    labels = compute_labels(
        model, data, nodes, graph, memory=args.memory, out=out
    )
    return with_labels(rows, labels)


def smooth(args, logits, data):
    """Correct and smooth the predictions of all nodes."""
    correction, smoothing = args.correct_and_smooth
    return correct_and_smooth(
        logits, data.graph, data.labels, data.train,
        correction_alpha=correction, smoothing_alpha=smoothing,
        memory=args.memory,
    )  # fmt: skip


def with_self_loops(graph):
    """Give each node one self-loop, as the filter of hop features does."""
    return graph.remove_self_loop().add_self_loop()


def adam(model, lr, weight_decay, stages=1):
    """Return the options of ``fit``, or of ``self_train``, for Adam.

    The rate and the decay are numbers, or dicts with a number for each part
    of the model, as the paper has them for FSGNN. Each stage needs an
    optimizer of its own, so that several need a function.
    """
    if not isinstance(lr, dict) and not isinstance(weight_decay, dict):
        return {"lr": lr, "weight_decay": weight_decay}
    parts = list(lr if isinstance(lr, dict) else weight_decay)
    groups = [
        {
            "params": list(_parameters(model, part)),
            "lr": lr[part] if isinstance(lr, dict) else lr,
            "weight_decay": weight_decay[part]
            if isinstance(weight_decay, dict)
            else weight_decay,
        }
        for part in parts
    ]
    rest = list(_parameters(model, "label_branch"))
    if rest:
        # The label branch is not in the paper: it has the output's numbers.
        place = parts.index("output")
        groups.append({**groups[place], "params": rest})
    if stages > 1:
        return {"optimizer": lambda _: torch.optim.Adam(groups)}
    return {"optimizer": torch.optim.Adam(groups)}


def _parameters(model, part):
    for name, parameter in model.named_parameters():
        if name.partition(".")[0] == part:
            yield parameter
