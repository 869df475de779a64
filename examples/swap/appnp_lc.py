"""The LC version of APPNP: appnp.py with its modules swapped."""

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCAPPNPConv as APPNPConv


class APPNP(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats, K=10, alpha=0.1):
        super().__init__()
        self.lin1 = nn.Linear(in_feats, hid_feats)
        self.lin2 = nn.Linear(hid_feats, out_feats)
        self.dropout = nn.Dropout(0.5)
        self.prop = APPNPConv(K, alpha)

    def forward(self, g, x):
        h = F.relu(self.lin1(self.dropout(x)))
        return self.prop(g, self.lin2(self.dropout(h)))


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, splits = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    x = block_aggregate(g, x, K=10, self_loop=False)
    model = APPNP(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
