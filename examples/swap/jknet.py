"""JKNet on the whole graph, with GraphConv and JumpingKnowledge of dgl.nn."""

import argparse

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from dgl.nn import GraphConv, JumpingKnowledge
from torch import nn


class JKNet(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.convs = nn.ModuleList(
            GraphConv(hid_feats if layer else in_feats, hid_feats)
            for layer in range(3)
        )
        self.jump = JumpingKnowledge("cat")
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(3 * hid_feats, out_feats)

    def forward(self, g, x):
        branches = []
        for conv in self.convs:
            x = F.relu(conv(g, self.dropout(x)))
            branches.append(x)
        return self.output(self.dropout(self.jump(branches)))


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, train, valid, test = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    model = JKNet(x.shape[1], args.num_hidden, int(labels.max()) + 1)
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


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
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


if __name__ == "__main__":
    main(parse_args())
