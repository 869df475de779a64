"""Train the LC version of JKNet or GPRGNN on mini-batches of rows.

main
│
├───> load_data
│
├───> compute_hops (the only step that uses the graph, once for all runs)
│
└───> run, for each seed
      │
      ├───> train_epoch (mini-batches of rows)
      │
      └───> evaluate
"""
import argparse
import time

import dgl
import torch
import torch.nn.functional as F
from dgl.data import (
    CiteseerGraphDataset,
    CoraGraphDataset,
    PubmedGraphDataset,
    RedditDataset,
)
from dgl.nn import GraphConv

from model import LCGPRGNN, LCJKNet

DATASETS = {
    "cora": CoraGraphDataset,
    "citeseer": CiteseerGraphDataset,
    "pubmed": PubmedGraphDataset,
    "reddit": RedditDataset,
}


def load_data(name):
    """Return the graph, its features and labels, the number of classes, and
    the nodes of the training, validation and test set.
    """
    if name in DATASETS:
        dataset = DATASETS[name](verbose=False)
        g = dataset[0]
        feat, label = g.ndata["feat"], g.ndata["label"]
        masks = (g.ndata[f"{part}_mask"] for part in ("train", "val", "test"))
        split = [mask.bool().nonzero().squeeze(1) for mask in masks]
        return g, feat, label, dataset.num_classes, split

    from ogb.nodeproppred import DglNodePropPredDataset

    dataset = DglNodePropPredDataset(name=name)
    g, label = dataset[0]
    split = dataset.get_idx_split()
    split = [split[part] for part in ("train", "valid", "test")]
    feat = g.ndata["feat"]
    return (
        dgl.to_bidirected(g),
        feat,
        label.squeeze(1),
        dataset.num_classes,
        split,
    )


@torch.no_grad()
def compute_hops(g, feat, num_hops):
    """Return S^0 X ... S^K X, where S is the filter of GraphConv on the graph
    with one self-loop per node.
    """
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    aggregate = GraphConv(
        feat.shape[1], feat.shape[1], weight=False, bias=False
    )
    hops = [feat]
    for _ in range(num_hops):
        hops.append(aggregate(g, hops[-1]))
    return torch.stack(hops)


def train_epoch(model, optimizer, hops, label, nodes, args, device):
    model.train()
    total = 0.0
    for batch in nodes[torch.randperm(len(nodes))].split(args.batch_size):
        logits = model(None, hops[:, batch].to(device))
        loss = F.cross_entropy(logits, label[batch].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    return total / len(nodes)


@torch.no_grad()
def evaluate(model, hops, label, nodes, args, device):
    model.eval()
    correct = 0
    for batch in nodes.split(args.eval_batch_size):
        pred = model(None, hops[:, batch].to(device)).argmax(dim=1)
        correct += (pred.cpu() == label[batch]).sum().item()
    return correct / len(nodes)


def make_model(in_feats, num_classes, args):
    if args.model == "jknet":
        return LCJKNet(
            in_feats,
            args.num_hidden,
            num_classes,
            num_layers=args.num_hops,
            mode=args.mode,
            dropout=args.dropout,
        )
    return LCGPRGNN(
        in_feats,
        args.num_hidden,
        num_classes,
        K=args.num_hops,
        num_layers=args.num_layers,
        alpha=args.alpha,
        dropout=args.dropout,
    )


def run(seed, hops, label, num_classes, split, args, device):
    """Train with one seed and return the test accuracy at the epoch with the
    best validation accuracy.
    """
    torch.manual_seed(seed)
    train_nodes, val_nodes, test_nodes = split
    model = make_model(hops.shape[2], num_classes, args).to(device)
    # The coefficients of the hops in GPRGNN are not decayed.
    gamma = [p for name, p in model.named_parameters() if name == "gamma"]
    rest = [p for name, p in model.named_parameters() if name != "gamma"]
    optimizer = torch.optim.Adam(
        [
            {"params": rest, "weight_decay": args.weight_decay},
            {"params": gamma, "weight_decay": 0.0},
        ],
        lr=args.lr,
    )
    best_val, best_test = -1.0, 0.0
    for epoch in range(args.num_epochs):
        start = time.time()
        loss = train_epoch(
            model, optimizer, hops, label, train_nodes, args, device
        )
        seconds = time.time() - start
        val_acc = evaluate(model, hops, label, val_nodes, args, device)
        if val_acc > best_val:
            best_val = val_acc
            best_test = evaluate(model, hops, label, test_nodes, args, device)
        print(
            f"Epoch {epoch:05d} | Loss {loss:.4f} | Val Accuracy "
            f"{val_acc:.4f} | Time {seconds:.4f}s"
        )
    print(f"Seed {seed} | Val {best_val:.4f} | Test {best_test:.4f}")
    return best_test


def main(args):
    use_gpu = args.gpu >= 0 and torch.cuda.is_available()
    device = torch.device(f"cuda:{args.gpu}" if use_gpu else "cpu")
    g, feat, label, num_classes, split = load_data(args.dataset)
    start = time.time()
    hops = compute_hops(g, feat, args.num_hops)
    print(f"Computed {args.num_hops} hops in {time.time() - start:.2f}s")
    accs = torch.tensor(
        [
            run(seed, hops, label, num_classes, split, args, device)
            for seed in range(args.num_runs)
        ]
    )
    print(
        f"Test accuracy over {args.num_runs} seeds: mean {accs.mean():.4f}, "
        f"std {accs.std(unbiased=False):.4f}"
    )


def parse_args(args=None):
    parser = argparse.ArgumentParser(
        description="LC versions of JKNet and GPRGNN",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--dataset",
        type=str,
        default="cora",
        choices=[*DATASETS, "ogbn-arxiv", "ogbn-products"],
        help="name of the dataset",
    )
    parser.add_argument(
        "--model",
        type=str,
        default="gprgnn",
        choices=["gprgnn", "jknet"],
        help="model whose LC version is trained",
    )
    parser.add_argument(
        "--gpu", type=int, default=-1, help="GPU index, -1 for the CPU"
    )
    parser.add_argument(
        "--num-hops",
        type=int,
        default=5,
        help="hops of the features that the model reads",
    )
    parser.add_argument(
        "--num-layers", type=int, default=2, help="layers of the MLP (gprgnn)"
    )
    parser.add_argument(
        "--num-hidden", type=int, default=64, help="hidden feature size"
    )
    parser.add_argument(
        "--mode",
        type=str,
        default="cat",
        choices=["cat", "max"],
        help="how the branches are combined (jknet)",
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.1,
        help="start of the hops' coefficients (gprgnn)",
    )
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--num-epochs", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=10000)
    parser.add_argument("--eval-batch-size", type=int, default=100000)
    parser.add_argument(
        "--num-runs", type=int, default=10, help="number of seeds"
    )
    return parser.parse_args(args)


if __name__ == "__main__":
    main(parse_args())
