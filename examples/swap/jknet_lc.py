"""The LC version of JKNet: jknet.py with its modules swapped."""

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from dgl.nn import JumpingKnowledge
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv as GraphConv


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
    g, x, labels, splits = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    x = block_aggregate(g, x, K=3, hops=[1, 2, 3], self_loop=False)
    model = JKNet(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
