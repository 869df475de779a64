"""The original models, written with dgl.nn as its users write them.

They read a graph that has self-loops already, and use the dropout of the LC
versions, so that differences in time come from the models alone.
"""

from itertools import pairwise

import dgl
import torch
import torch.nn.functional as F
from dgl.nn import GraphConv, JumpingKnowledge
from torch import nn

from ..nn.dropout import Dropout, use_quick_dropout
from ..nn.plain.lcgprgnn import MLP, pagerank


def with_self_loops(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    """Return the graph with exactly one self-loop per node."""
    # DGL cannot remove edges from a graph that may not have a COO format.
    graph = graph.formats(["coo", "csr", "csc"])
    return dgl.add_self_loop(dgl.remove_self_loop(graph))


class GCN(nn.Module):
    """Graph convolutions with an activation and dropout between them."""

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.layers = nn.ModuleList(
            GraphConv(width, out) for width, out in pairwise(widths)
        )
        self.dropout = Dropout(dropout)

    def forward(self, graph: dgl.DGLGraph, feat: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            if number:
                feat = F.relu(feat)
            feat = layer(graph, self.dropout(feat))
        return feat


class JKNet(nn.Module):
    """Graph convolutions whose outputs are combined at the end."""

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 3,
        mode: str = "cat",
        dropout: float = 0.0,
    ) -> None:
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

    def forward(self, graph: dgl.DGLGraph, feat: torch.Tensor) -> torch.Tensor:
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
    """A perceptron, followed by a learned polynomial of the filter."""

    no_weight_decay = frozenset({"gamma"})

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        K: int = 5,
        num_layers: int = 4,
        alpha: float = 0.1,
        dropout: float = 0.0,
        dprate: float = 0.0,
    ) -> None:
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

    def forward(self, graph: dgl.DGLGraph, feat: torch.Tensor) -> torch.Tensor:
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


class FeatureMLP(nn.Module):
    """A perceptron on the features, which does not use the graph."""

    def __init__(
        self,
        in_feats: int,
        hid_feats: int,
        out_feats: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_feats, *[hid_feats] * (num_layers - 1), out_feats]
        self.mlp = MLP(widths, dropout, F.relu)
        use_quick_dropout(self)

    def forward(self, graph: dgl.DGLGraph, feat: torch.Tensor) -> torch.Tensor:
        return self.mlp(feat)
