"""The LC version of GPRGNN: gprgnn.py with its modules swapped."""

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGraphConv as GraphConv


class GPRGNN(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats, K=5, alpha=0.1):
        super().__init__()
        self.lin1 = nn.Linear(in_feats, hid_feats)
        self.lin2 = nn.Linear(hid_feats, out_feats)
        self.dropout = nn.Dropout(0.5)
        self.prop = GraphConv(out_feats, out_feats, weight=False, bias=False)
        gamma = alpha * (1 - alpha) ** torch.arange(K + 1.0)
        gamma[K] = (1 - alpha) ** K
        self.gamma = nn.Parameter(gamma)

    def forward(self, g, x):
        h = F.relu(self.lin1(self.dropout(x)))
        h = self.lin2(self.dropout(h))
        out = self.gamma[0] * h
        for weight in self.gamma[1:]:
            h = self.prop(g, h)
            out = out + weight * h
        return out


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, splits = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    x = block_aggregate(g, x, K=5, self_loop=False)
    model = GPRGNN(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
