"""The flags and the training loop of all scripts of this folder.

The loop is the same for a model and its LC version: it gives the model the
graph and the features, and gets a row of logits for each node.
"""

import argparse

import torch
import torch.nn.functional as F


def train(model, g, x, labels, splits, args):
    """Train on the whole graph; return the test accuracy of the best epoch."""
    train, valid, test = splits
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    best = 0.0, 0.0
    for epoch in range(args.num_epochs):
        model.train()
        logits = model(g, x)
        loss = F.cross_entropy(logits[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        model.eval()
        with torch.no_grad():
            right = model(g, x).argmax(dim=1) == labels
        valid_acc = right[valid].float().mean().item()
        test_acc = right[test].float().mean().item()
        if valid_acc > best[0]:
            best = valid_acc, test_acc
        if epoch % 20 == 0:
            print(f"epoch {epoch} | loss {loss:.4f} | valid {valid_acc:.4f}")
    print(f"best valid {best[0]:.4f} | test {best[1]:.4f}")
    return best[1]


def parse_args(description, argv=None):
    """Read the flags; ``argv`` is for tests."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--dataset", default="synthetic",
        help="name or path that dgl_lc.data.load takes (default: "
        "%(default)s)")  # fmt: skip
    add("--num-epochs", type=int, default=100,
        help="number of epochs (default: %(default)s)")  # fmt: skip
    add("--num-hidden", type=int, default=64,
        help="columns of a hidden layer (default: %(default)s)")  # fmt: skip
    add("--lr", type=float, default=0.01,
        help="learning rate (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=0,
        help="seed of weights and dropout (default: %(default)s)")  # fmt: skip
    return parser.parse_args(argv)
