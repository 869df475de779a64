"""What the scripts of this folder share: flags, hop features, optimizer."""

import argparse

import torch

from dgl_lc.cli.ranks import one_after_the_other, ranks_of_launcher
from dgl_lc.nn.model import HopModel
from dgl_lc.ranks.group import find_ranks


def make_parser(doc, models, data, data_help):
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
    return parser


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


def with_self_loops(graph):
    """Give each node one self-loop, as the filter of hop features does."""
    return graph.remove_self_loop().add_self_loop()


def adam(model, lr, weight_decay):
    """Return the options of ``fit`` for Adam.

    The rate and the decay are numbers, or dicts with a number for each part
    of the model, as the paper has them for FSGNN.
    """
    if not isinstance(lr, dict) and not isinstance(weight_decay, dict):
        return {"lr": lr, "weight_decay": weight_decay}
    groups = [
        {
            "params": list(_parameters(model, part)),
            "lr": lr[part] if isinstance(lr, dict) else lr,
            "weight_decay": weight_decay[part]
            if isinstance(weight_decay, dict)
            else weight_decay,
        }
        for part in (lr if isinstance(lr, dict) else weight_decay)
    ]
    return {"optimizer": torch.optim.Adam(groups)}


def _parameters(model, part):
    for name, parameter in model.named_parameters():
        if name.partition(".")[0] == part:
            yield parameter
