"""Find the parameters of the demo's models by a small search.

    python benchmarks/demo_parameters.py [--models GCN JKNet GPRGNN SGC FSGNN]

Both sides of a pair, such as GCN and LCGCN, are trained with the same
parameters. The parameters with the best mean validation accuracy of both are
written into dgl_lc/experiments/demo_settings.py by hand. The graph of the
search has another seed than that of the demo, and no test node is looked at.
"""

import argparse
import itertools
import sys
import warnings

from dgl_lc.experiments.demo_settings import FAMILIES, SETTINGS, demo_task
from dgl_lc.experiments.train_one import train_model

RATES = (0.003, 0.01, 0.03)
DECAYS = (1e-5, 1e-3)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models", nargs="+", choices=list(FAMILIES), default=list(FAMILIES),
        help="families of models (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--nodes", type=int, default=20_000,
        help="number of nodes of the graph (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--epochs", type=int, default=60,
        help="maximum number of epochs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=1000,
        help="seed of the graph and the weights (default: %(default)s)",
    )  # fmt: skip
    return parser.parse_args()


def search(family, data, args):
    """Train a family's models with all parameters; return the best ones."""
    found = {}
    options = SETTINGS[family].options
    for lr, decay in itertools.product(RATES, DECAYS):
        scores, seconds = [], 0.0
        for name in FAMILIES[family]:
            result = train_model(
                name, data, hid_feats=128, seed=args.seed, options=options,
                epochs=args.epochs, patience=20, lr=lr, weight_decay=decay,
            )  # fmt: skip
            scores.append(result.fit.valid_accuracy)
            seconds += result.total_seconds
        found[lr, decay] = sum(scores) / len(scores)
        shown = ", ".join(
            f"{name} {100 * score:.2f} %"
            for name, score in zip(FAMILIES[family], scores, strict=True)
        )
        print(
            f"lr {lr}, weight decay {decay}: {shown} ({seconds:.0f} s)",
            flush=True,
        )
    return max(found, key=found.get)


def main(args):
    warnings.simplefilter("ignore")
    data = demo_task(args.nodes, args.seed)
    print(data)
    for family in args.models:
        lr, decay = search(family, data, args)
        print(f"{family}: lr {lr}, weight decay {decay}", flush=True)


if __name__ == "__main__":
    sys.exit(main(parse_args()))
