"""The LC version of GCN: gcn.py with its modules swapped."""

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv as GraphConv


class GCN(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.conv1 = GraphConv(in_feats, hid_feats, activation=F.relu)
        self.conv2 = GraphConv(hid_feats, out_feats)
        self.dropout = nn.Dropout(0.5)

    def forward(self, g, x):
        h = self.conv1(g, self.dropout(x))
        return self.conv2(g, self.dropout(h))


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, splits = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    x = block_aggregate(g, x, K=2, hops=[2], self_loop=False)
    model = GCN(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
