"""Train a model on ogbn-arxiv (transductive: training sees the whole graph).

The aggregation is done once, before training. LC versions, SGC, SIGN, FSGNN,
SAGN and GAMLP then train on rows of hop features, in mini-batches and without
the graph. GCN, JKNet and GPRGNN are the originals, which train on the whole
graph.

Flowchart of the main sequence:

main
│
├───> load_data                the graph in both directions, and the split
│
├───> make_model               model.hops lists the hops it needs
│
├───> hop_features             block_aggregate: S^k X, once
│
├───> pair_with_labels         with --labels: label features beside them
│
├───> fit or self_train        for each epoch:
│     │
│     ├───> HopLoader          a mini-batch of rows
│     │
│     ├───> model.forward      no graph here
│     │
│     └───> Adam; the best epoch on the validation nodes is kept
│
└───> predict                  logits of the test nodes, with
                               --correct-and-smooth improved by labels
"""

import time
from pathlib import Path

import torch
from common import (
    LATER,
    adam,
    choose,
    hop_features,
    label_options,
    load_once,
    make_parser,
    pair_with_labels,
    reads_hops,
    run,
    smooth,
    with_self_loops,
)

from dgl_lc.data import load
from dgl_lc.data.ogb import load_ogb
from dgl_lc.experiments.named_models import make_model
from dgl_lc.training import fit, predict, self_train

# The paper's best parameters. SIGN is not in the paper, and its parameters are
# not tuned. FSGNN has a learning rate and a weight decay for each part.
BEST = {
    "LCGCN": {"lr": 0.001, "weight_decay": 1e-4,
              "num_layers": 2, "dropout": 0.0},
    "LCJKNet": {"lr": 1e-4, "weight_decay": 1e-6,
                "num_layers": 3, "mode": "cat", "dropout": 0.5},
    "LCGPRGNN": {"lr": 0.001, "weight_decay": 1e-8,
                 "num_layers": 4, "K": 5, "alpha": 0.9,
                 "dropout": 0.5, "dprate": 0.5},
    "SGC": {"lr": 0.01, "weight_decay": 1e-9, "K": 2},
    "SIGN": {"lr": 0.001, "weight_decay": 1e-5, "K": 3, "dropout": 0.5},
    "FSGNN": {"lr": {"layers": 1e-4, "hidden": 0.001, "output": 0.001,
                     "att": 0.01},
              "weight_decay": {"layers": 1e-5, "hidden": 1e-5,
                               "output": 1e-4, "att": 0.001},
              "K": 3, "num_layers": 3, "dropout": 0.7, "dropout2": 0.6},
    **LATER,
    "GCN": {"lr": 0.02, "weight_decay": 1e-5,
            "num_layers": 2, "dropout": 0.0},
    "JKNet": {"lr": 0.001, "weight_decay": 1e-7,
              "num_layers": 3, "mode": "cat", "dropout": 0.5},
    "GPRGNN": {"lr": 0.005, "weight_decay": 1e-9,
               "num_layers": 4, "K": 5, "alpha": 0.9,
               "dropout": 0.5, "dprate": 0.0},
}  # fmt: skip


def load_data(source):
    """Load OGB's files or another file, with edges in both directions."""
    if Path(source).is_file():
        return load(source, add_reverse=True)
    return load_ogb("ogbn-arxiv", source, add_reverse=True)


def main(args):
    torch.manual_seed(args.seed)
    data = load_once(lambda: load_data(args.data))
    print(data)

    options = choose(BEST, args)
    lr, weight_decay = options.pop("lr"), options.pop("weight_decay")
    options |= label_options(args, data)
    model = make_model(args.model, data, args.num_hidden, **options)

    start = time.perf_counter()
    if reads_hops(model):
        # Training and testing read the rows of labelled nodes only.
        nodes = torch.cat([data.train, data.valid, data.test])
        if args.correct_and_smooth:
            nodes = torch.arange(data.graph.num_nodes())
        inputs = hop_features(model, data.graph, data.feat, nodes, args.memory)
        inputs = pair_with_labels(args, model, inputs, data, nodes)
        print(f"hops {model.hops} of {len(nodes):,} nodes")
    else:
        inputs = with_self_loops(data.graph), data.feat
    prepared = time.perf_counter() - start

    train, stages = fit, {}
    if args.stages > 1:
        train = self_train
        stages = {"stages": args.stages, "threshold": args.threshold}
    found = train(
        model, inputs, data.labels, data.train, data.valid,
        batch_size=args.batch_size, epochs=args.num_epochs,
        patience=args.patience, seed=args.seed, device=args.device,
        **adam(model, lr, weight_decay, args.stages), **stages,
    )  # fmt: skip
    print(found)

    if args.correct_and_smooth:
        every = torch.arange(data.graph.num_nodes())
        logits = predict(model, inputs, every).cpu()
        logits = smooth(args, logits, data)[data.test]
    else:
        logits = predict(model, inputs, data.test)
    right = logits.argmax(dim=1) == data.labels[data.test]
    accuracy = right.float().mean().item()
    print(
        f"{args.model} on {data.name}: test accuracy {accuracy:.4f} | "
        f"preparation {prepared:.2f} s | training {found.seconds:.1f} s"
    )
    return accuracy


def parse_args(argv=None):
    parser = make_parser(
        __doc__, list(BEST), "dataset",
        "OGB's folder, to which the data set is downloaded if it does not "
        "exist; or a file that dgl_lc.data.load can read",
        transductive=True,
    )  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    run(main, parse_args())
