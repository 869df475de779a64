"""Train a model on Flickr (inductive: training sees only training nodes).

The data are GraphSAINT's files. Hop features of the training nodes are
computed on the training graph, which has no edges to other nodes. Hop features
of validation and test nodes are computed on the whole graph. The originals,
GCN, JKNet and GPRGNN, train and are tested on the same two graphs.

Flowchart of the main sequence:

main
│
├───> load                     the whole graph and the training graph
│
├───> make_model               model.hops lists the hops it needs
│
├───> hop_features             rows of training nodes, from the training graph
│
├───> hop_features             rows of the other nodes, from the whole graph
│
├───> fit                      for each epoch:
│     │
│     ├───> HopLoader          a mini-batch of rows
│     │
│     ├───> model.forward      no graph here
│     │
│     └───> Adam; the best epoch on the validation nodes is kept
│
└───> predict                  logits of the test nodes
"""

import time

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
    with_self_loops,
)

from dgl_lc.data import load
from dgl_lc.experiments.named_models import make_model
from dgl_lc.training import fit, predict

# The paper's best parameters. SIGN is not in the paper, and its parameters are
# not tuned. FSGNN has a learning rate and a weight decay for each part.
BEST = {
    "LCGCN": {"lr": 1e-4, "weight_decay": 1e-5,
              "num_layers": 2, "dropout": 0.0},
    "LCJKNet": {"lr": 1e-4, "weight_decay": 1e-4,
                "num_layers": 3, "mode": "cat", "dropout": 0.0},
    "LCGPRGNN": {"lr": 1e-4, "weight_decay": 0.0,
                 "num_layers": 4, "K": 5, "alpha": 0.1,
                 "dropout": 0.5, "dprate": 0.0},
    "SGC": {"lr": 0.01, "weight_decay": 1e-6, "K": 2},
    "SIGN": {"lr": 0.001, "weight_decay": 1e-5, "K": 3, "dropout": 0.5},
    "FSGNN": {"lr": {"layers": 1e-4, "hidden": 0.001, "output": 0.001,
                     "att": 0.001},
              "weight_decay": {"layers": 1e-4, "hidden": 1e-4,
                               "output": 1e-4, "att": 0.01},
              "K": 3, "num_layers": 3, "dropout": 0.7, "dropout2": 0.7},
    **LATER,
    "GCN": {"lr": 0.02, "weight_decay": 1e-6,
            "num_layers": 2, "dropout": 0.0},
    "JKNet": {"lr": 0.01, "weight_decay": 1e-5,
              "num_layers": 3, "mode": "cat", "dropout": 0.0},
    "GPRGNN": {"lr": 0.005, "weight_decay": 0.0,
               "num_layers": 4, "K": 5, "alpha": 0.1,
               "dropout": 0.5, "dprate": 0.5},
}  # fmt: skip


def main(args):
    torch.manual_seed(args.seed)
    data = load_once(lambda: load(args.data))
    print(data)

    options = choose(BEST, args)
    lr, weight_decay = options.pop("lr"), options.pop("weight_decay")
    options |= label_options(args, data)
    model = make_model(args.model, data, args.num_hidden, **options)

    start = time.perf_counter()
    if reads_hops(model):
        seen = hop_features(
            model, data.train_graph, data.feat, data.train, args.memory
        )
        seen = pair_with_labels(
            args, model, seen, data, data.train, data.train_graph
        )
        others = torch.cat([data.valid, data.test])
        unseen = hop_features(model, data.graph, data.feat, others, args.memory)
        unseen = pair_with_labels(args, model, unseen, data, others)
        print(
            f"hops {model.hops} of {len(data.train):,} training nodes and "
            f"{len(others):,} others"
        )
    else:
        seen = with_self_loops(data.train_graph), data.feat
        unseen = with_self_loops(data.graph), data.feat
    prepared = time.perf_counter() - start

    found = fit(
        model, seen, data.labels, data.train, data.valid,
        valid_inputs=unseen,
        batch_size=args.batch_size, epochs=args.num_epochs,
        patience=args.patience, seed=args.seed, device=args.device,
        **adam(model, lr, weight_decay),
    )  # fmt: skip
    print(found)

    logits = predict(model, unseen, data.test)
    right = logits.argmax(dim=1) == data.labels[data.test]
    accuracy = right.float().mean().item()
    print(
        f"{args.model} on {data.name}: test accuracy {accuracy:.4f} | "
        f"preparation {prepared:.2f} s | training {found.seconds:.1f} s"
    )
    return accuracy


def parse_args(argv=None):
    parser = make_parser(
        __doc__, list(BEST), "data/flickr",
        "folder with GraphSAINT's files, or a file that dgl_lc.data.load "
        "can read",
    )  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    run(main, parse_args())
