"""The LC version of SAGE: sage.py with its modules swapped."""

import torch
import torch.nn.functional as F
from datasets import load_data
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCSAGEConv as SAGEConv


class SAGE(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.conv1 = SAGEConv(in_feats, hid_feats, "mean")
        self.conv2 = SAGEConv(hid_feats, out_feats, "mean")
        self.dropout = nn.Dropout(0.5)

    def forward(self, g, x):
        h = F.relu(self.conv1(g, self.dropout(x)))
        return self.conv2(g, self.dropout(h))


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, splits = load_data(args.dataset)
    x = block_aggregate(g, x, K=2, norm="right", self_loop=False)
    model = SAGE(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
