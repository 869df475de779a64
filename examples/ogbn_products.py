"""Train a model on ogbn-products (2.4M nodes, 124M edges) from OGB's files.

The result of every stage is kept on disk: a run that was stopped resumes where
it stopped.

Flowchart of the main sequence:

main
│
├───> write_products_like      with --synthetic: a task of the same shape, in
│                              OGB's csv files
│
├───> prepare_ogb              edges sorted by destination, both directions;
│                              features as column blocks
│
├───> model.precompute         S^k X of all nodes, into a hop store
│
├───> label_features           with --labels: hop features of the training
│                              labels, into another store
│
└───> for each run:
      │
      ├───> fit or self_train  mini-batches of rows from the stores, no graph
      │
      └───> predict            with --correct-and-smooth, improved by labels
"""

from pathlib import Path

from common import LATER, load_once, run
from disk_run import (
    add_smoothing,
    check_args,
    make_parser,
    ogb_accuracy,
    show_published,
    show_runs,
    stage,
    train_runs,
)

from dgl_lc.data import prepare_ogb

NAME = "ogbn-products"
# None of these is tuned: ogbn-products is not in the paper. SAGN and GAMLP have
# the options that their authors use, but for the hidden size (512).
BEST = {
    "GAMLP": LATER["GAMLP"],
    "SAGN": LATER["SAGN"],
    "SGC": {"lr": 0.01, "weight_decay": 1e-8, "K": 3},
    "SIGN": {"lr": 0.001, "weight_decay": 1e-5, "K": 5, "dropout": 0.5},
    "FSGNN": {"lr": 0.001, "weight_decay": 1e-5, "K": 3, "num_layers": 3,
              "dropout": 0.5},
    "LCGCN": {"lr": 0.001, "weight_decay": 1e-6, "num_layers": 2,
              "dropout": 0.5},
    "LCJKNet": {"lr": 0.001, "weight_decay": 1e-6, "num_layers": 3,
                "mode": "cat", "dropout": 0.5},
    "LCGPRGNN": {"lr": 0.001, "weight_decay": 1e-7, "K": 5, "num_layers": 4,
                 "dropout": 0.5, "alpha": 0.5},
}  # fmt: skip
# By others, on ogbn-products itself.
PUBLISHED = {
    "SGC": 75.9, "SIGN": 80.5, "SAGN": 81.3, "GAMLP": 83.6,
    "SAGN+SLE": 84.7, "GAMLP+RLU": 84.6, "GAMLP+RLU+SCR": 85.05,
    "GAMLP+RLU+SCR+C&S": 85.20,
}  # fmt: skip


def main(args):
    evaluate = ogb_accuracy(NAME)
    root = Path(args.root)
    if args.synthetic:
        with stage(f"generate a task of scale {args.synthetic:g}"):
            load_once(lambda: _generate(args))
    args.out = Path(args.out or root / "prepared")
    with stage("sort edges by destination, write features by columns"):
        data = load_once(
            lambda: prepare_ogb(root, args.out, name=NAME, memory=args.memory)
        )
    print(data)
    options = dict(BEST[args.model])
    lr, weight_decay = options.pop("lr"), options.pop("weight_decay")
    found = train_runs(args, data, options, lr, weight_decay, evaluate)
    show_published(NAME, PUBLISHED)
    print("\nHere, on a generated graph:" if args.synthetic else "\nHere:")
    show_runs(args, found)
    if args.synthetic:
        print("Accuracy on a generated graph says nothing about ogbn-products.")
    return found


def _generate(args):
    # Needs pyarrow, which nothing else here does.
    from products_like import write_products_like

    return write_products_like(args.root, args.synthetic, args.feat_dim)


def parse_args(argv=None):
    parser = make_parser(__doc__, BEST, "dataset")
    add_smoothing(parser)
    add = parser.add_argument
    add("--synthetic", type=float, metavar="SCALE",
        help="first write a generated task to --root, of SCALE times the "
        "nodes of ogbn-products")  # fmt: skip
    add("--feat-dim", type=int, default=100,
        help="columns of the generated features (default: "
        "%(default)s)")  # fmt: skip
    return check_args(parser, parser.parse_args(argv))


if __name__ == "__main__":
    run(main, parse_args())
