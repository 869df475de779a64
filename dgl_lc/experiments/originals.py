"""The original models, written with dgl.nn as its users write them.

They take the graph with its self-loops added, and the dropout of the LC
versions, so that times tell of the models alone.
"""

from itertools import pairwise

import torch.nn.functional as F
from dgl.nn import GraphConv, JumpingKnowledge
from torch import nn

from ..nn.dropout import Dropout
from ..nn.gprgnn import pagerank


class GCN(nn.Module):
    """Graph convolutions with an activation and dropout between them."""

    def __init__(
        self, in_feats, hid_feats, out_feats, num_layers=2, dropout=0.0
    ):
        super().__init__()
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.layers = nn.ModuleList(
            GraphConv(width, out) for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)

    def forward(self, graph, feat):
        for number, layer in enumerate(self.layers):
            if number:
                feat = F.relu(feat)
            feat = layer(graph, self.dropout(feat))
        return feat


class JKNet(nn.Module):
    """Graph convolutions whose outputs are all used at the end."""

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        num_layers=3,
        mode="cat",
        dropout=0.0,
    ):
        super().__init__()
        width = hid_feats if mode == "cat" else out_feats
        self.layers = nn.ModuleList(
            GraphConv(width if layer else in_feats, width)
            for layer in range(num_layers)
        )
        self.jump = JumpingKnowledge(mode)
        self.dropout = Dropout(dropout)
        self.output = None
        if mode == "cat":
            self.output = nn.Linear(num_layers * hid_feats, out_feats)

    def forward(self, graph, feat):
        branches = []
        for number, layer in enumerate(self.layers):
            if number:
                feat = F.relu(feat)
            feat = layer(graph, self.dropout(feat))
            branches.append(feat)
        feat = self.jump(branches)
        if self.output is None:
            return feat
        return self.output(self.dropout(F.relu(feat)))


class GPRGNN(nn.Module):
    """A perceptron, then a learned polynomial of the filter."""

    no_weight_decay = frozenset({"gamma"})

    def __init__(
        self,
        in_feats,
        hid_feats,
        out_feats,
        K=5,
        num_layers=4,
        alpha=0.1,
        dropout=0.0,
        dprate=0.0,
    ):
        super().__init__()
        widths = [hid_feats] * (num_layers - 1)
        if num_layers > 2:
            widths[-1] = max(1, hid_feats // 2)
        widths = [in_feats, *widths, out_feats]
        self.layers = nn.ModuleList(
            nn.Linear(width, out) for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)
        self.dprate = Dropout(dprate)
        self.gamma = nn.Parameter(pagerank(K, alpha))
        self.propagate = GraphConv(
            out_feats, out_feats, weight=False, bias=False
        )

    def forward(self, graph, feat):
        for number, layer in enumerate(self.layers):
            if number:
                feat = F.relu(feat)
            feat = layer(self.dropout(feat))
        feat = self.dprate(feat)
        total = self.gamma[0] * feat
        for weight in self.gamma[1:]:
            feat = self.propagate(graph, feat)
            total = total + weight * feat
        return total


class MLP(nn.Module):
    """No graph at all: what the features say by themselves."""

    def __init__(
        self, in_feats, hid_feats, out_feats, num_layers=2, dropout=0.0
    ):
        super().__init__()
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.layers = nn.ModuleList(
            nn.Linear(width, out) for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)

    def forward(self, graph, feat):
        for number, layer in enumerate(self.layers):
            if number:
                feat = F.relu(feat)
            feat = layer(self.dropout(feat))
        return feat
