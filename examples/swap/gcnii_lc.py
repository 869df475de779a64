"""The LC version of GCNII: gcnii.py with its modules swapped."""

import dgl
import torch
import torch.nn.functional as F
from datasets import load_data
from loop import parse_args, train
from torch import nn

from dgl_lc import block_aggregate
from dgl_lc.nn import LCGCN2Conv as GCN2Conv


class GCNII(nn.Module):
    def __init__(self, in_feats, hid_feats, out_feats):
        super().__init__()
        self.input = nn.Linear(in_feats, hid_feats)
        self.convs = nn.ModuleList(
            GCN2Conv(hid_feats, layer, lambda_=0.5, activation=F.relu)
            for layer in range(1, 5)
        )
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(hid_feats, out_feats)

    def forward(self, g, x):
        h = h_0 = F.relu(self.input(self.dropout(x)))
        for conv in self.convs:
            h = conv(g, self.dropout(h), h_0)
        return self.output(self.dropout(h))


def main(args):
    torch.manual_seed(args.seed)
    g, x, labels, splits = load_data(args.dataset)
    g = dgl.add_self_loop(dgl.remove_self_loop(g))
    x = block_aggregate(g, x, K=4, norm="in", self_loop=False)
    model = GCNII(x.shape[1], args.num_hidden, int(labels.max()) + 1)
    return train(model, g, x, labels, splits, args)


if __name__ == "__main__":
    main(parse_args(__doc__))
