"""What the scripts here have in common: flags, hop features, optimizer."""

import argparse

import torch

from dgl_lc.nn.model import HopModel


def make_parser(doc, models, data, data_help):
    """The flags. What is left out is the paper's choice."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", default=data, help=f"{data_help} (%(default)s)")
    add("--model", choices=models, default="LCGCN", help="(%(default)s)")
    add("--lr", type=float, help="(the paper's best)")
    add("--weight-decay", type=float, help="(the paper's best)")
    add("--dropout", type=float, help="(the paper's best)")
    add("--num-hidden", type=int, default=256, help="columns (%(default)s)")
    add("--batch-size", type=int, default=4096, help="rows (%(default)s)")
    add("--num-epochs", type=int, default=2000, help="at most (%(default)s)")
    add(
        "--patience", type=int, default=300,
        help="epochs without a better validation loss (%(default)s)",
    )  # fmt: skip
    add("--memory", help="budget of the precomputation: 2GiB (none)")
    add("--device", default="cpu", help="where to train (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    return parser


def choose(best, args):
    """The paper's best for a model, with the flags that were given."""
    flags = ("lr", "weight_decay", "dropout")
    given = {name: getattr(args, name) for name in flags}
    given = {name: value for name, value in given.items() if value is not None}
    return {**best[args.model], **given}


def reads_hops(model):
    """Whether the model reads hop features; otherwise it reads the graph."""
    return isinstance(model, HopModel)


def hop_features(model, graph, feat, nodes, memory=None):
    """The hops that the model needs, and no others, at these nodes."""
    return model.precompute(graph, feat, nodes=nodes, memory=memory)


def with_self_loops(graph):
    """One self-loop for each node, as the filter of hop features has."""
    return graph.remove_self_loop().add_self_loop()


def adam(model, lr, weight_decay):
    """Adam's options for ``fit``: numbers, or a dict with one for each part
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
