"""Train the LC version of GCN in a training loop of your own.

This is what ``fit`` does in the other scripts, in its simplest form. After the
precomputation, training is that of any model on rows.

Flowchart of the main sequence:

main
│
├───> load
│
├───> block_aggregate          hop 2 of all nodes, once
│
└───> for each epoch:
      │
      ├───> for each mini-batch of HopLoader:
      │     forward, loss, backward, step
      │
      └───> evaluate           validation and test nodes
"""

import argparse

import torch
import torch.nn.functional as F

from dgl_lc import block_aggregate
from dgl_lc.data import load
from dgl_lc.nn import LCGCN
from dgl_lc.training import HopLoader


@torch.no_grad()
def evaluate(model, loader):
    """Compute the accuracy on the nodes of a loader."""
    model.eval()
    right = total = 0
    for batch, labels in loader:
        right += (model(None, batch).argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return right / total


def main(args):
    torch.manual_seed(args.seed)
    data = load(args.data)
    print(data)
    hops = block_aggregate(data.graph, data.feat, K=2, hops=[2])
    train = HopLoader(
        hops, data.train, data.labels, args.batch_size, shuffle=True
    )
    valid = HopLoader(hops, data.valid, data.labels)
    test = HopLoader(hops, data.test, data.labels)

    model = LCGCN(
        data.num_feats, args.num_hidden, data.num_classes, dropout=0.5
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = 0.0, 0.0
    for epoch in range(args.num_epochs):
        model.train()
        for batch, labels in train:
            loss = F.cross_entropy(model(None, batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, valid)
        if accuracy > best[0]:
            best = accuracy, evaluate(model, test)
        if epoch % 10 == 0:
            print(f"epoch {epoch} | loss {loss:.4f} | valid {accuracy:.4f}")
    print(f"best valid {best[0]:.4f} | test {best[1]:.4f}")
    return best[1]


def parse_args(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--data", default="synthetic",
        help="name or path that dgl_lc.data.load takes (default: "
        "%(default)s)",
    )  # fmt: skip
    add("--num-hidden", type=int, default=64,
        help="columns of a hidden layer (default: %(default)s)")  # fmt: skip
    add("--batch-size", type=int, default=1024,
        help="rows in a mini-batch (default: %(default)s)")  # fmt: skip
    add("--num-epochs", type=int, default=50,
        help="number of epochs (default: %(default)s)")  # fmt: skip
    add("--lr", type=float, default=0.01,
        help="learning rate (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="seed of weights and dropout (default: %(default)s)")  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
